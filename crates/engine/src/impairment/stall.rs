//! Stalls: periods during which no frame is forwarded.

use super::{Impairment, Onward, Passing};
use crate::time::Nanos;

/// Holds frames that arrive during a stall until its end; frames beyond the queue limit are dropped.
#[derive(Debug, Clone)]
pub struct Stalls {
    /// Start and end of each stall, in order.
    stalls: Box<[(Nanos, Nanos)]>,
    turn: usize,
    queue_frames: u32,
    held_frames: u32,
}

impl Stalls {
    /// Create stalls from start times and lengths, in order and without overlap; each stall holds up to
    /// `queue_frames` frames.
    pub fn new(stalls: &[(Nanos, Nanos)], queue_frames: u32) -> Self {
        let spans = stalls.iter().map(|&(begin, length)| (begin, begin.plus(length)));
        Self { stalls: spans.collect(), turn: 0, queue_frames, held_frames: 0 }
    }

    /// Create `count` stalls of `length`, from `first` on, one every `period`.
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

/// Periodic stalls of equal length; no frame is dropped.
#[derive(Debug, Clone, Copy)]
pub struct PeriodicStalls {
    /// Start of the first stall.
    pub first: Nanos,
    /// Time between the starts of two stalls; above zero.
    pub period: Nanos,
    /// Length of each stall, at most the period.
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
    fn frames_that_arrive_during_a_stall_leave_at_its_end_up_to_the_queue_limit() {
        let mut stalls = Stalls::periodic(Nanos(100), Nanos(1000), Nanos(50), 2, 2);
        let fates = [0, 99, 100, 120, 149, 150, 1100, 1149, 2100].map(|at| fate(&mut stalls, at));
        let left =
            [Some(0), Some(99), Some(150), Some(150), None, Some(150), Some(1150), Some(1150), Some(2100)];
        assert_eq!(fates, left);
    }

    #[test]
    fn periodic_stalls_hold_each_frame_to_the_end_of_its_stall() {
        let mut stalls = PeriodicStalls { first: Nanos(100), period: Nanos(1000), length: Nanos(50) };
        let at = [0, 99, 100, 149, 150, 1099, 1100, 9_000_149, 9_000_150];
        let left = [0, 99, 150, 150, 150, 1099, 1150, 9_000_150, 9_000_150];
        assert_eq!(at.map(|at| fate(&mut stalls, at)), left.map(Some));
    }
}
