//! A device that stands still at given times.

use super::{Device, Fate};
use crate::time::Nanos;

/// Holds the frames that arrive during a stall until its end; those that do not fit are dropped.
#[derive(Debug, Clone)]
pub struct Stalls {
    /// Begin and end of each stall, in order.
    stalls: Box<[(Nanos, Nanos)]>,
    turn: usize,
    queue_frames: u32,
    held_frames: u32,
}

impl Stalls {
    /// Stalls of given begins and lengths, in order and apart; up to `queue_frames` are held in each.
    pub fn new(stalls: &[(Nanos, Nanos)], queue_frames: u32) -> Self {
        let spans = stalls.iter().map(|&(begin, length)| (begin, begin.plus(length)));
        Self { stalls: spans.collect(), turn: 0, queue_frames, held_frames: 0 }
    }

    /// `count` stalls of `length`, the first at `first`, one every `period`.
    pub fn periodic(first: Nanos, period: Nanos, length: Nanos, count: u32, queue_frames: u32) -> Self {
        let begin = |turn: u32| first.plus(Nanos(period.0.saturating_mul(u64::from(turn))));
        let stalls: Vec<_> = (0..count).map(|turn| (begin(turn), length)).collect();
        Self::new(&stalls, queue_frames)
    }
}

impl Device for Stalls {
    fn push(&mut self, _frame_bytes: u16, now: Nanos) -> Fate {
        while self.stalls.get(self.turn).is_some_and(|&(_, end)| end <= now) {
            self.turn += 1;
            self.held_frames = 0;
        }
        match self.stalls.get(self.turn) {
            Some(&(begin, end)) if begin <= now => {
                if self.held_frames >= self.queue_frames {
                    return Fate::Dropped;
                }
                self.held_frames += 1;
                Fate::Forwarded(end)
            }
            _ => Fate::Forwarded(now),
        }
    }
}

/// A stall of the same length in every period, for ever; nothing is dropped.
#[derive(Debug, Clone, Copy)]
pub struct EndlessStalls {
    /// When the first begins.
    pub first: Nanos,
    /// From the begin of one to the begin of the next; above zero.
    pub period: Nanos,
    /// How long each lasts, at most the period.
    pub length: Nanos,
}

impl Device for EndlessStalls {
    fn push(&mut self, _frame_bytes: u16, now: Nanos) -> Fate {
        if now < self.first {
            return Fate::Forwarded(now);
        }
        let into = now.since(self.first).0 % self.period.0;
        Fate::Forwarded(now.plus(Nanos(self.length.0.saturating_sub(into))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_in_a_stall_leave_at_its_end_as_far_as_they_fit() {
        let mut stalls = Stalls::periodic(Nanos(100), Nanos(1000), Nanos(50), 2, 2);
        let fates: Vec<_> =
            [0, 99, 100, 120, 149, 150, 1100, 1149, 2100].map(|at| stalls.push(64, Nanos(at))).into();
        let at = |ns| Fate::Forwarded(Nanos(ns));
        assert_eq!(
            fates,
            [at(0), at(99), at(150), at(150), Fate::Dropped, at(150), at(1150), at(1150), at(2100)]
        );
    }

    #[test]
    fn endless_stalls_hold_each_frame_to_the_end_of_its_own() {
        let mut stalls = EndlessStalls { first: Nanos(100), period: Nanos(1000), length: Nanos(50) };
        let at = [0, 99, 100, 149, 150, 1099, 1100, 9_000_149, 9_000_150];
        let fates = at.map(|at| stalls.push(64, Nanos(at)));
        let left = [0, 99, 150, 150, 150, 1099, 1150, 9_000_150, 9_000_150];
        assert_eq!(fates, left.map(|ns| Fate::Forwarded(Nanos(ns))));
    }
}
