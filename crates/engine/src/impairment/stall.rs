//! Times at which nothing goes on.

use super::{Impairment, Onward, Passing};
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

impl Impairment for Stalls {
    fn take(&mut self, frame: Passing, onward: &mut Onward) {
        let now = frame.at;
        while self.stalls.get(self.turn).is_some_and(|&(_, end)| end <= now) {
            self.turn += 1;
            self.held_frames = 0;
        }
        match self.stalls.get(self.turn) {
            Some(&(begin, end)) if begin <= now => {
                if self.held_frames >= self.queue_frames {
                    return onward.lose(frame);
                }
                self.held_frames += 1;
                onward.pass(frame.at(end));
            }
            _ => onward.pass(frame),
        }
    }
}

/// A stall of the same length in every period, for ever; nothing is dropped.
#[derive(Debug, Clone, Copy)]
pub struct PeriodicStalls {
    /// When the first begins.
    pub first: Nanos,
    /// From the begin of one to the begin of the next; above zero.
    pub period: Nanos,
    /// How long each lasts, at most the period.
    pub length: Nanos,
}

impl Impairment for PeriodicStalls {
    fn take(&mut self, frame: Passing, onward: &mut Onward) {
        if frame.at < self.first {
            return onward.pass(frame);
        }
        let into = frame.at.since(self.first).0 % self.period.0;
        onward.pass(frame.later(Nanos(self.length.0.saturating_sub(into))));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::fate;
    use super::*;

    #[test]
    fn frames_in_a_stall_leave_at_its_end_as_far_as_they_fit() {
        let mut stalls = Stalls::periodic(Nanos(100), Nanos(1000), Nanos(50), 2, 2);
        let fates = [0, 99, 100, 120, 149, 150, 1100, 1149, 2100].map(|at| fate(&mut stalls, at));
        let left =
            [Some(0), Some(99), Some(150), Some(150), None, Some(150), Some(1150), Some(1150), Some(2100)];
        assert_eq!(fates, left);
    }

    #[test]
    fn periodic_stalls_hold_each_frame_to_the_end_of_its_own() {
        let mut stalls = PeriodicStalls { first: Nanos(100), period: Nanos(1000), length: Nanos(50) };
        let at = [0, 99, 100, 149, 150, 1099, 1100, 9_000_149, 9_000_150];
        let left = [0, 99, 150, 150, 150, 1099, 1150, 9_000_150, 9_000_150];
        assert_eq!(at.map(|at| fate(&mut stalls, at)), left.map(Some));
    }
}
