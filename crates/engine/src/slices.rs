//! Frame counts per slice of a trial's duration, for the comparison of loss with events at the same time.
//!
//! This module only counts frames; the stall log shows which slices were undisturbed.

use crate::time::Nanos;

/// Number of slices of a trial.
pub const SLICES: usize = 100;

/// Number of frames per slice of transmit time; a receiver counts the received frames.
#[derive(Debug, Clone)]
pub struct Slices {
    begin: Nanos,
    width: Nanos,
    counts: Box<[u64]>,
    /// Slice of the last frame, with its start and end: consecutive frames are usually in the same slice.
    place: usize,
    from: Nanos,
    to: Nanos,
}

impl Slices {
    /// Create empty counts for a trial of `duration` that starts at `begin`.
    pub fn new(begin: Nanos, duration: Nanos) -> Self {
        let width = Nanos((duration.0 / SLICES as u64).max(1));
        Self { begin, width, counts: vec![0; SLICES].into(), place: 0, from: begin, to: begin.plus(width) }
    }

    /// Count a frame sent at `sent_at`, and return its slice; frames after the end count in the last slice.
    #[inline]
    pub fn note(&mut self, sent_at: Nanos) -> usize {
        if sent_at < self.from || sent_at >= self.to {
            self.turn_to(sent_at);
        }
        self.counts[self.place] += 1;
        self.place
    }

    /// Add the counts of a different sender of the same trial.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
    }

    /// Return the number of frames per slice.
    pub const fn counts(&self) -> &[u64] {
        &self.counts
    }

    fn turn_to(&mut self, sent_at: Nanos) {
        let number = sent_at.since(self.begin).0 / self.width.0;
        self.place = usize::try_from(number).unwrap_or(usize::MAX).min(SLICES - 1);
        self.from = self.begin.plus(Nanos(self.width.0.saturating_mul(self.place as u64)));
        self.to = if self.place == SLICES - 1 { Nanos::MAX } else { self.from.plus(self.width) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_frame_is_counted_in_the_slice_in_which_it_was_sent() {
        let mut slices = Slices::new(Nanos(1_000), Nanos(1_000));
        for at in [1_000, 1_009, 1_010, 1_005, 1_999, 2_500] {
            slices.note(Nanos(at));
        }
        assert_eq!((slices.counts()[0], slices.counts()[1], slices.counts()[SLICES - 1]), (3, 1, 2));
        assert_eq!(slices.counts().iter().sum::<u64>(), 6);
    }
}
