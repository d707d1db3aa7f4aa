//! Frames by the time they were sent: a trial in equal parts, so that what was lost can be laid beside what happened then.
//!
//! Counts only; which parts were calm is for the reader of the stall log.

use crate::time::Nanos;

/// A trial has so many parts.
pub const SLICES: usize = 100;

/// How many frames were sent in each part of a trial, or arrived of those sent in it.
#[derive(Debug, Clone)]
pub struct Slices {
    begin: Nanos,
    width: Nanos,
    counts: Box<[u64]>,
    /// The part of the last frame, and when it begins and ends: nearly every frame is of the same as the one before.
    place: usize,
    from: Nanos,
    to: Nanos,
}

impl Slices {
    /// A trial of `duration` that begins at `begin`, with no frame yet.
    pub fn new(begin: Nanos, duration: Nanos) -> Self {
        let width = Nanos((duration.0 / SLICES as u64).max(1));
        Self { begin, width, counts: vec![0; SLICES].into(), place: 0, from: begin, to: begin.plus(width) }
    }

    /// Count a frame that was sent at `sent_at`, and return in which part; what is sent after the trial's end is in the last.
    #[inline]
    pub fn note(&mut self, sent_at: Nanos) -> usize {
        if sent_at < self.from || sent_at >= self.to {
            self.turn_to(sent_at);
        }
        self.counts[self.place] += 1;
        self.place
    }

    /// Count what another sender of the same trial counted.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
    }

    /// The frames of each part.
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
    fn every_frame_is_in_the_part_it_was_sent_in() {
        let mut slices = Slices::new(Nanos(1_000), Nanos(1_000));
        for at in [1_000, 1_009, 1_010, 1_005, 1_999, 2_500] {
            slices.note(Nanos(at));
        }
        assert_eq!((slices.counts()[0], slices.counts()[1], slices.counts()[SLICES - 1]), (3, 1, 2));
        assert_eq!(slices.counts().iter().sum::<u64>(), 6);
    }
}
