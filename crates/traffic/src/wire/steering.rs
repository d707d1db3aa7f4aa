//! Selection of the CPUs that process the frames delivered to an end: the CPU of the link's thread, or other CPUs
//! (receive packet steering, Documentation/networking/scaling.rst). An end that sends many more frames than it receives
//! is a sender of streams: each acknowledgement triggers a burst of frames, whose stack processing would take half of
//! the thread's CPU. In all other cases, steering would have to wake a different CPU for each frame.

use std::fs::File;
use std::io::{self, Write};

/// Interval between readings of the frame counts (ns).
const LOOK_NS: u64 = 50_000_000;
/// Minimum number of sent frames per interval for steering; with fewer the thread has enough CPU time.
const LEAST_SENT: u64 = 2_000;
/// Minimum ratio of sent to received frames for steering.
const SENT_PER_GIVEN: u64 = 4;
/// Number of intervals without streams before steering ends.
const LOOKS: u32 = 4;

/// The steering of both ends of a link.
#[derive(Debug)]
pub struct Steering {
    ends: [Steered; 2],
    next_ns: u64,
}

/// The steering of one end.
#[derive(Debug)]
pub struct Steered {
    file: File,
    others: String,
    seen: Passed,
    /// Remaining intervals with steering; 0 if the thread's CPU processes the frames.
    left: u32,
}

/// The frame counts of an end.
#[derive(Debug, Clone, Copy, Default)]
pub struct Passed {
    /// Frames sent by the end.
    pub sent: u64,
    /// Frames delivered to the end.
    pub given: u64,
}

impl Steered {
    /// Create the steering of an end: `file` is the `rps_cpus` file of its queue, `others` the CPU mask to write.
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
    /// Create the steering of a link between these ends.
    pub const fn new(ends: [Steered; 2]) -> Self {
        Self { ends, next_ns: 0 }
    }

    /// Read the frame counts and update the steering, once per interval.
    ///
    /// # Errors
    /// Fails if the kernel refuses the CPU mask.
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

    /// Return the CPU masks that are written for an end which sends and receives these numbers of frames in each
    /// interval.
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
    fn stream_sender_hands_its_acknowledgements_to_other_cpus() {
        assert_eq!(written(&[(10_000, 800)]), "2,");
        assert_eq!(written(&[(10_000, 800), (10_000, 800), (9_000, 700)]), "2,");
    }

    #[test]
    fn steering_ends_after_a_time_without_a_stream() {
        let idle = [(0, 0); 4];
        assert_eq!(written(&[&[(10_000, 800)], &idle[..3]].concat()), "2,");
        assert_eq!(written(&[&[(10_000, 800)], &idle[..]].concat()), "2,0");
    }

    /// Check datagrams in one direction, round trips, streams in both directions, and low traffic.
    #[test]
    fn traffic_other_than_a_stream_is_not_steered() {
        for passed in [(0, 20_000), (20_000, 0), (20_000, 20_000), (10_000, 5_000), (1_000, 100)] {
            assert_eq!(written(&[passed; 5]), "", "{passed:?}");
        }
    }
}
