//! When frames left, kept one by one, so that the streams of several senders can be looked at as the one they are.
//!
//! Memory is taken when a log is made. Where it cannot hold a whole trial, it keeps every n-th millisecond, and all logs of
//! the trial the same ones.

use crate::histogram::Histogram;
use crate::time::Nanos;

/// The most that one log keeps: 8 MiB (bursts).
const MOST_BURSTS: u64 = 1 << 19;
/// What is kept or left out as a whole.
const WINDOW: Nanos = Nanos::from_millis(1);

/// When the frames of one sender left.
#[derive(Debug, Clone)]
pub struct Departures {
    start: Nanos,
    /// Of so many windows one is kept.
    every: u64,
    bursts: Vec<(Nanos, u32)>,
}

impl Departures {
    /// A log from `start` on of a sender that is to send `intended_frames`; logs of one trial are given the same.
    pub fn new(start: Nanos, intended_frames: u64) -> Self {
        let every = intended_frames.div_ceil(MOST_BURSTS).max(1);
        let most = usize::try_from(intended_frames.min(MOST_BURSTS)).unwrap_or(0);
        // Written once, so that no page of it is first touched while frames leave.
        let mut bursts = vec![(Nanos::MAX, 0); most];
        bursts.clear();
        Self { start, every, bursts }
    }

    /// Note that `frames` left together at `now`, which never goes back.
    #[inline]
    pub fn note(&mut self, now: Nanos, frames: u32) {
        let kept = self.every == 1 || self.window(now) % self.every == 0;
        if kept && self.bursts.len() < self.bursts.capacity() {
            self.bursts.push((now, frames));
        }
    }

    /// The time between one frame and the next of all senders together (ns); 0 between those that left together. A gap that
    /// reaches into a window that was left out is not counted.
    pub fn gaps(logs: &[&Self]) -> Histogram {
        let mut gaps = Histogram::new();
        let mut all: Vec<_> = logs.iter().flat_map(|log| log.bursts.iter().copied()).collect();
        all.sort_unstable();
        let mut last: Option<Nanos> = None;
        for (now, frames) in all {
            gaps.record_many(0, u64::from(frames.saturating_sub(1)));
            if let (Some(last), Some(log)) = (last, logs.first()) {
                if log.every == 1 || log.window(last) == log.window(now) {
                    gaps.record(now.since(last).0);
                }
            }
            last = Some(now);
        }
        gaps
    }

    const fn window(&self, now: Nanos) -> u64 {
        now.since(self.start).0 / WINDOW.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_those_of_the_merged_stream() {
        let mut logs = [Departures::new(Nanos(0), 10), Departures::new(Nanos(0), 10)];
        for at in [0, 200, 400] {
            logs[0].note(Nanos(at), 1);
        }
        for (at, frames) in [(90, 1), (200, 2)] {
            logs[1].note(Nanos(at), frames);
        }
        let gaps = Departures::gaps(&[&logs[0], &logs[1]]);
        let seen: Vec<_> =
            gaps.buckets().filter(|bucket| bucket.count > 0).map(|b| (b.low, b.count)).collect();
        assert_eq!(seen, [(0, 2), (90, 1), (110, 1), (200, 1)]);
    }

    #[test]
    fn a_long_trial_is_kept_in_windows_that_all_logs_share() {
        let frames = 4 * MOST_BURSTS;
        let mut logs = [Departures::new(Nanos(0), frames), Departures::new(Nanos(0), frames)];
        for turn in 0..20_000_u64 {
            logs[0].note(Nanos(turn * 1000), 1);
            logs[1].note(Nanos(turn * 1000 + 500), 1);
        }
        let gaps = Departures::gaps(&[&logs[0], &logs[1]]);
        // Of 20 ms every fourth, with 2000 frames each; one gap less than frames in each.
        assert_eq!((gaps.count(), gaps.min(), gaps.max()), (5 * 1999, Some(500), Some(500)));
    }
}
