//! Intervals with CPU steal, measured by the kernel in ticks of 10 ms.

use iolab_protocol::watch::WatchStolen;
use iolab_sys::clock;

/// Maximum number of listed intervals; further steal time is added to the last.
const MOST: usize = 10_000;

/// Reads the total steal time of all CPUs repeatedly.
#[derive(Debug)]
pub struct StolenTime {
    at_ns: u64,
    steal_ns: u64,
    found: Vec<WatchStolen>,
}

impl StolenTime {
    /// Start to read the steal time.
    pub fn new() -> Self {
        Self { at_ns: clock::now_ns(), steal_ns: read(), found: Vec::new() }
    }

    /// Read the steal time, and record the interval since the last reading if it includes steal.
    pub fn look(&mut self) {
        let (end_ns, steal_ns) = (clock::now_ns(), read());
        let more = steal_ns.saturating_sub(self.steal_ns);
        if more > 0 {
            self.note(WatchStolen { begin_ns: self.at_ns, end_ns, steal_ns: more });
        }
        (self.at_ns, self.steal_ns) = (end_ns, steal_ns);
    }

    fn note(&mut self, stolen: WatchStolen) {
        let full = self.found.len() >= MOST;
        match self.found.last_mut() {
            Some(last) if full || last.end_ns == stolen.begin_ns => {
                (last.end_ns, last.steal_ns) = (stolen.end_ns, last.steal_ns + stolen.steal_ns);
            }
            _ => self.found.push(stolen),
        }
    }

    /// Return all recorded intervals.
    pub fn finish(mut self) -> Vec<WatchStolen> {
        self.look();
        self.found
    }
}

fn read() -> u64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    crate::observe::steal_ns(&text).iter().sum()
}
