//! Kernel statistics of a thread and CPU steal time, at a cost low enough for use during a trial.

use std::fs::File;
use std::os::unix::fs::FileExt;

use iolab_protocol::traffic::ThreadUse;
use iolab_sys::clock;
use nix::sys::resource::{getrusage, UsageWho};

/// Length of a tick of the CPU time counters (`USER_HZ` is 100 everywhere) (ns).
const TICK_NS: u64 = 10_000_000;

/// The accumulated CPU usage of a thread at one time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moment {
    /// Time on a CPU (ns).
    pub run_ns: u64,
    /// Time for which the thread was runnable but waited for a CPU (ns).
    pub wait_ns: u64,
    /// Number of voluntary context switches.
    pub voluntary_switches: u64,
    /// Number of involuntary context switches.
    pub involuntary_switches: u64,
}

impl Moment {
    /// Return the usage between `earlier` and this time.
    pub const fn since(self, earlier: Self) -> Self {
        Self {
            run_ns: self.run_ns.saturating_sub(earlier.run_ns),
            wait_ns: self.wait_ns.saturating_sub(earlier.wait_ns),
            voluntary_switches: self.voluntary_switches.saturating_sub(earlier.voluntary_switches),
            involuntary_switches: self.involuntary_switches.saturating_sub(earlier.involuntary_switches),
        }
    }

    /// Convert the usage for a report.
    pub const fn used(self, cpu: Option<usize>) -> ThreadUse {
        ThreadUse {
            cpu,
            run_ns: self.run_ns,
            wait_ns: self.wait_ns,
            voluntary_switches: self.voluntary_switches,
            involuntary_switches: self.involuntary_switches,
        }
    }
}

/// Reads the usage of the thread that created this reader; a reading takes some microseconds.
#[derive(Debug)]
pub struct ThreadEye {
    schedstat: Option<File>,
}

impl ThreadEye {
    /// Create a reader for the calling thread.
    pub fn of_this_thread() -> Self {
        Self { schedstat: File::open("/proc/thread-self/schedstat").ok() }
    }

    /// Return the usage so far; zeros if the kernel provides no statistics.
    pub fn look(&self) -> Moment {
        let mut moment = Moment::default();
        let mut bytes = [0; 96];
        let read = self.schedstat.as_ref().and_then(|file| file.read_at(&mut bytes, 0).ok()).unwrap_or(0);
        let text = std::str::from_utf8(&bytes[..read]).unwrap_or_default();
        let mut words = text.split_ascii_whitespace().map(|word| word.parse().unwrap_or(0));
        moment.run_ns = words.next().unwrap_or(0);
        moment.wait_ns = words.next().unwrap_or(0);
        if let Ok(usage) = getrusage(UsageWho::RUSAGE_THREAD) {
            moment.voluntary_switches = u64::try_from(usage.voluntary_context_switches()).unwrap_or(0);
            moment.involuntary_switches = u64::try_from(usage.involuntary_context_switches()).unwrap_or(0);
        }
        moment
    }
}

/// A log of the steal time of each CPU.
#[derive(Debug, Default)]
pub struct StealLog {
    readings: Vec<Reading>,
}

#[derive(Debug)]
struct Reading {
    begin_ns: u64,
    end_ns: u64,
    steal_ns: Box<[u64]>,
}

impl StealLog {
    /// Read `/proc/stat` once.
    pub fn read(&mut self) {
        let begin_ns = clock::now_ns();
        let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        self.readings.push(Reading { begin_ns, end_ns: clock::now_ns(), steal_ns: steal_ns(&text) });
    }

    /// Return the steal time of `cpu` between the last reading before `begin_ns` and the first after `end_ns` (ns).
    pub fn between(&self, cpu: usize, begin_ns: u64, end_ns: u64) -> Option<u64> {
        let before = self.readings.iter().rev().find(|reading| reading.end_ns <= begin_ns);
        let after = self.readings.iter().find(|reading| reading.begin_ns >= end_ns);
        let value = |reading: &Reading| reading.steal_ns.get(cpu).copied();
        let before = before.or_else(|| self.readings.first()).and_then(value)?;
        let after = after.or_else(|| self.readings.last()).and_then(value)?;
        Some(after.saturating_sub(before))
    }
}

/// Parse the steal time of each CPU, indexed by CPU number; 0 for offline CPUs (ns).
pub fn steal_ns(text: &str) -> Box<[u64]> {
    let mut steal_ns = Vec::new();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let cpu = words.next().and_then(|name| name.strip_prefix("cpu")?.parse::<usize>().ok());
        if let (Some(cpu), Some(ticks)) = (cpu, words.nth(7).and_then(|word| word.parse::<u64>().ok())) {
            steal_ns.resize(steal_ns.len().max(cpu + 1), 0);
            steal_ns[cpu] = ticks * TICK_NS;
        }
    }
    steal_ns.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_is_the_eighth_column_of_each_cpu() {
        let text =
            "cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 3 9 10\ncpu2 1 2 3 4 5 6 7 5 9 10\nintr 5\n";
        assert_eq!(*steal_ns(text), [30_000_000, 0, 50_000_000]);
    }

    #[test]
    fn stall_gets_the_steal_of_the_surrounding_readings() {
        let reading = |at, steal| Reading { begin_ns: at, end_ns: at + 1, steal_ns: Box::new([steal]) };
        let log =
            StealLog { readings: vec![reading(0, 1), reading(100, 4), reading(200, 9), reading(300, 9)] };
        assert_eq!(log.between(0, 110, 150), Some(5));
        assert_eq!(log.between(0, 50, 150), Some(8));
        assert_eq!(log.between(0, 310, 320), Some(0));
        assert_eq!(log.between(1, 110, 150), None);
    }

    #[test]
    fn run_time_and_context_switches_of_the_current_thread_are_read() {
        let eye = ThreadEye::of_this_thread();
        let before = eye.look();
        std::thread::sleep(std::time::Duration::from_millis(2));
        let used = eye.look().since(before);
        assert!(used.voluntary_switches >= 1, "{used:?}");
        assert!(used.run_ns < 1_000_000_000, "{used:?}");
    }
}
