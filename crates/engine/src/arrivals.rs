//! Counts of received frames by arrival time: a growing queue appears as a change of the receive rate and of the
//! latency.
//!
//! This module only counts frames and records minimum latencies; the caller interprets them.

use crate::slices::{Slices, SLICES};
use crate::time::Nanos;

/// Number of frames and minimum latency per slice of a trial, and the number of frames after its end.
#[derive(Debug, Clone)]
pub struct Arrivals {
    slices: Slices,
    end: Nanos,
    least: Box<[u64]>,
    after_end: u64,
}

/// The counts of [`Arrivals`].
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct ArrivalsReport {
    /// Number of frames per slice of the trial; empty if they were not counted.
    pub frames: Box<[u64]>,
    /// Minimum latency per slice (ns); none for slices without a frame.
    pub least_latency_ns: Box<[Option<u64>]>,
    /// Number of frames that arrived after the end of the trial.
    pub after_end_frames: u64,
}

impl Arrivals {
    /// Create empty counts for a trial of `duration` that starts at `begin`.
    pub fn new(begin: Nanos, duration: Nanos) -> Self {
        let least = vec![u64::MAX; SLICES].into();
        Self { slices: Slices::new(begin, duration), end: begin.plus(duration), least, after_end: 0 }
    }

    /// Count a frame that arrived at `now` with a latency of `latency_ns`; a negative latency counts as 0.
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

    /// Count a frame without a known transmit time.
    #[inline]
    pub fn note_untimed(&mut self, now: Nanos) {
        if now >= self.end {
            self.after_end += 1;
        } else {
            self.slices.note(now);
        }
    }

    /// Return the counts.
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
    fn arrivals_are_counted_per_slice_with_the_minimum_latency() {
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
    fn frames_after_the_end_are_counted_separately() {
        let mut arrivals = Arrivals::new(Nanos(1_000), Nanos(1_000));
        arrivals.note(Nanos(1_999), 1);
        arrivals.note(Nanos(2_000), 600);
        arrivals.note(Nanos(9_000), 7_000);
        let report = arrivals.report();
        assert_eq!((report.frames.iter().sum::<u64>(), report.after_end_frames), (1, 2));
    }
}
