//! Which CPUs take in the frames that an end is given: that of the wire's thread, or others (receive packet steering,
//! Documentation/networking/scaling.rst). An end that sends many more frames than it is given is a sender of streams: each
//! acknowledgement sets off a burst of frames, whose way through the stack would take half of the thread's CPU. Everywhere
//! else another CPU would have to be woken for each frame.

use std::fs::File;
use std::io::{self, Write};

/// From one look at what passed to the next (ns).
const LOOK_NS: u64 = 50_000_000;
/// An end that sends fewer frames from one look to the next leaves the thread time enough.
const LEAST_SENT: u64 = 2_000;
/// It sends so many for each that it is given.
const SENT_PER_GIVEN: u64 = 4;
/// So many looks later the thread's CPU takes frames in again.
const LOOKS: u32 = 4;

/// Both ends of a wire.
#[derive(Debug)]
pub struct Steering {
    ends: [Steered; 2],
    next_ns: u64,
}

/// Where the CPUs are set that take in what an end is given.
#[derive(Debug)]
pub struct Steered {
    file: File,
    others: String,
    seen: Passed,
    /// So many looks more others take them in; 0: the thread's CPU does.
    left: u32,
}

/// Frames of an end until now.
#[derive(Debug, Clone, Copy, Default)]
pub struct Passed {
    /// That it sent.
    pub sent: u64,
    /// That it was given.
    pub given: u64,
}

impl Steered {
    /// By `rps_cpus` of an end's queue, which `others` is written to: CPUs as sysfs takes them.
    pub fn new(file: File, others: String) -> Self {
        Self { file, others, seen: Passed::default(), left: 0 }
    }

    fn look(&mut self, now: Passed) -> io::Result<()> {
        let before = std::mem::replace(&mut self.seen, now);
        let sent = now.sent.saturating_sub(before.sent);
        let given = now.given.saturating_sub(before.given);
        let streams = sent >= LEAST_SENT && given > 0 && sent >= SENT_PER_GIVEN * given;
        let left = if streams { LOOKS } else { self.left.saturating_sub(1) };
        let was = std::mem::replace(&mut self.left, left);
        match (was, left) {
            (0, 1..) => self.file.write_all(self.others.as_bytes()),
            (1.., 0) => self.file.write_all(b"0"),
            _ => Ok(()),
        }
    }
}

impl Steering {
    /// Of a wire between these ends.
    pub const fn new(ends: [Steered; 2]) -> Self {
        Self { ends, next_ns: 0 }
    }

    /// Look what passed, when it is time to.
    ///
    /// # Errors
    /// When the kernel does not take the CPUs.
    pub fn look(&mut self, now_ns: u64, passed: impl FnOnce() -> [Passed; 2]) -> io::Result<()> {
        if now_ns < self.next_ns {
            return Ok(());
        }
        self.next_ns = now_ns + LOOK_NS;
        self.ends.iter_mut().zip(passed()).try_for_each(|(end, passed)| end.look(passed))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};

    use super::*;

    /// What is written of an end that sends and is given so many frames from each look to the next.
    fn written(passed: &[(u64, u64)]) -> String {
        let mut file = tempfile::tempfile().unwrap();
        let mut end = Steered::new(file.try_clone().unwrap(), "2,".to_owned());
        let mut now = Passed::default();
        for &(sent, given) in passed {
            now = Passed { sent: now.sent + sent, given: now.given + given };
            end.look(now).unwrap();
        }
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn the_end_that_sends_a_stream_gives_its_acknowledgements_to_others() {
        assert_eq!(written(&[(10_000, 800)]), "2,");
        assert_eq!(written(&[(10_000, 800), (10_000, 800), (9_000, 700)]), "2,");
    }

    #[test]
    fn after_a_while_without_a_stream_the_threads_cpu_takes_frames_in_again() {
        let idle = [(0, 0); 4];
        assert_eq!(written(&[&[(10_000, 800)], &idle[..3]].concat()), "2,");
        assert_eq!(written(&[&[(10_000, 800)], &idle[..]].concat()), "2,0");
    }

    /// Datagrams one way, round trips, streams both ways, little.
    #[test]
    fn other_traffic_stays_with_the_threads_cpu() {
        for passed in [(0, 20_000), (20_000, 0), (20_000, 20_000), (10_000, 5_000), (1_000, 100)] {
            assert_eq!(written(&[passed; 5]), "", "{passed:?}");
        }
    }
}
