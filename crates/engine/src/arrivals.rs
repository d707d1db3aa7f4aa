//! Frames by the time they arrived: a queue that fills shows in the rate at which they come out, and in their latency.
//!
//! Counts and the least latency only; what they say of the system under test is for the reader.

use crate::slices::{Slices, SLICES};
use crate::time::Nanos;

/// How many frames arrived in each part of a trial, how long the fastest of them took, and how many came afterwards.
#[derive(Debug, Clone)]
pub struct Arrivals {
    slices: Slices,
    end: Nanos,
    least: Box<[u64]>,
    after_end: u64,
}

/// What [`Arrivals`] counted.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct ArrivalsReport {
    /// Frames that arrived in each part of the trial; empty where that was not asked for.
    pub frames: Box<[u64]>,
    /// The least latency of those (ns); none where none arrived.
    pub least_latency_ns: Box<[Option<u64>]>,
    /// Frames that arrived when the trial's time was over.
    pub after_end_frames: u64,
}

impl Arrivals {
    /// A trial of `duration` that begins at `begin`, with no frame yet.
    pub fn new(begin: Nanos, duration: Nanos) -> Self {
        let least = vec![u64::MAX; SLICES].into();
        Self { slices: Slices::new(begin, duration), end: begin.plus(duration), least, after_end: 0 }
    }

    /// Count a frame that arrived at `now`, `latency_ns` after it was sent; less than 0 by their clocks counts as 0.
    #[inline]
    pub fn note(&mut self, now: Nanos, latency_ns: i64) {
        if now >= self.end {
            self.after_end += 1;
            return;
        }
        let place = self.slices.note(now);
        let least = &mut self.least[place];
        *least = (*least).min(u64::try_from(latency_ns).unwrap_or(0));
    }

    /// Count a frame of which nobody knows when it was sent.
    #[inline]
    pub fn note_untimed(&mut self, now: Nanos) {
        if now >= self.end {
            self.after_end += 1;
        } else {
            self.slices.note(now);
        }
    }

    /// The counts.
    pub fn report(&self) -> ArrivalsReport {
        let least = self.least.iter().map(|&least| (least < u64::MAX).then_some(least));
        ArrivalsReport {
            frames: self.slices.counts().into(),
            least_latency_ns: least.collect(),
            after_end_frames: self.after_end,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_in_the_part_in_which_they_arrived_with_the_least_latency_of_each() {
        let mut arrivals = Arrivals::new(Nanos(1_000), Nanos(1_000));
        for (at, latency) in [(1_000, 7), (1_009, 5), (1_010, 9), (1_995, -3), (1_996, 4)] {
            arrivals.note(Nanos(at), latency);
        }
        let report = arrivals.report();
        assert_eq!((report.frames[0], report.frames[1], report.frames[SLICES - 1]), (2, 1, 2));
        assert_eq!(report.least_latency_ns[..3], [Some(5), Some(9), None]);
        assert_eq!(report.least_latency_ns[SLICES - 1], Some(0));
    }

    #[test]
    fn what_a_queue_held_back_to_the_end_is_counted_apart() {
        let mut arrivals = Arrivals::new(Nanos(1_000), Nanos(1_000));
        arrivals.note(Nanos(1_999), 1);
        arrivals.note(Nanos(2_000), 600);
        arrivals.note(Nanos(9_000), 7_000);
        let report = arrivals.report();
        assert_eq!((report.frames.iter().sum::<u64>(), report.after_end_frames), (1, 2));
    }
}
