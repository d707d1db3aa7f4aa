//! CPU pressure (pressure stall information, Documentation/accounting/psi.rst): if tasks wait for a CPU, a
//! busy-polling thread should sleep.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Minimum interval between readings (ns).
const LOOK_NS: u64 = 2_000_000;
/// Minimum fraction of the interval in which some task waited, to count as pressure.
const WAITING: f64 = 0.2;
/// Time after the last pressure for which pressure is still assumed (ns).
const CALM_NS: u64 = 20_000_000;
const FILE: &str = "/proc/pressure/cpu";

/// Reads the CPU pressure periodically.
#[derive(Debug)]
pub struct Pressure {
    /// PSI file; none if the kernel has no PSI, which counts as no pressure.
    file: Option<File>,
    looked_ns: u64,
    total_us: u64,
    /// End of the time that counts as under pressure.
    until_ns: u64,
}

impl Pressure {
    /// Start to read the CPU pressure.
    pub fn new() -> Self {
        Self { file: File::open(FILE).ok(), looked_ns: 0, total_us: 0, until_ns: 0 }
    }

    /// Whether other tasks wait for a CPU.
    pub fn others_wait(&mut self, now_ns: u64) -> bool {
        let since_ns = now_ns.saturating_sub(self.looked_ns);
        if since_ns >= LOOK_NS {
            if let Some(total_us) = self.file.as_ref().and_then(read) {
                self.note(now_ns, since_ns, total_us);
            }
        }
        now_ns < self.until_ns
    }

    fn note(&mut self, now_ns: u64, since_ns: u64, total_us: u64) {
        let waited_us = total_us.saturating_sub(self.total_us);
        if self.looked_ns > 0 && waited_us as f64 * 1e3 > WAITING * since_ns as f64 {
            self.until_ns = now_ns + CALM_NS;
        }
        (self.looked_ns, self.total_us) = (now_ns, total_us);
    }
}

fn read(file: &File) -> Option<u64> {
    let mut text = [0; 256];
    let length = file.read_at(&mut text, 0).ok()?;
    total(std::str::from_utf8(&text[..length]).ok()?)
}

/// Parse the total time in which at least one task waited (us).
fn total(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    line.split_once("total=")?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_file_of_the_kernel_is_parsed() {
        let text = "some avg10=1.00 avg60=0.50 avg300=0.10 total=123456\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
        assert_eq!((total(text), total("full total=1"), total("")), (Some(123_456), None, None));
    }

    #[test]
    fn cpu_pressure_ends_after_a_time_without_waiting_tasks() {
        let mut pressure = Pressure { file: None, looked_ns: 0, total_us: 0, until_ns: 0 };
        let mut look = |now_ms: u64, total_us| {
            let since_ns = now_ms * 1_000_000 - pressure.looked_ns;
            pressure.note(now_ms * 1_000_000, since_ns, total_us);
            pressure.others_wait(now_ms * 1_000_000 + 1)
        };
        assert!(!look(2, 5_000), "what was before the first look says nothing");
        assert!(!look(4, 5_100) && look(6, 6_000));
        assert!(look(8, 6_000) && look(24, 6_000) && !look(28, 6_000));
    }
}
