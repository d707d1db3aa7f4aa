//! A log of transmit times, which merges the streams of several senders for an analysis as one stream.
//!
//! A log allocates its memory at construction. If a log cannot store a whole trial, it keeps every n-th millisecond;
//! all logs of a trial keep the same milliseconds.

use crate::histogram::Histogram;
use crate::time::Nanos;

/// Maximum number of bursts in one log; this number takes 8 MiB of memory.
const MOST_BURSTS: u64 = 1 << 19;
/// Length of a window that is either kept or skipped.
const WINDOW: Nanos = Nanos::from_millis(1);

/// Transmit times of the frames of one sender.
#[derive(Debug, Clone)]
pub struct Departures {
    start: Nanos,
    /// Of this many consecutive windows, one is kept.
    every: u64,
    bursts: Vec<(Nanos, u32)>,
}

impl Departures {
    /// Create a log from `start` for a sender of `intended_frames` frames; all logs of a trial must have the same
    /// arguments.
    pub fn new(start: Nanos, intended_frames: u64) -> Self {
        let every = intended_frames.div_ceil(MOST_BURSTS).max(1);
        let most = usize::try_from(intended_frames.min(MOST_BURSTS)).unwrap_or(0);
        // Touch every page now, so that no page fault occurs during transmission.
        let mut bursts = vec![(Nanos::MAX, 0); most];
        bursts.clear();
        Self { start, every, bursts }
    }

    /// Record that `frames` frames were sent at `now`; `now` must not decrease.
    #[inline]
    pub fn note(&mut self, now: Nanos, frames: u32) {
        let kept = self.every == 1 || self.window(now) % self.every == 0;
        if kept && self.bursts.len() < self.bursts.capacity() {
            self.bursts.push((now, frames));
        }
    }

    /// Return the gaps between consecutive frames of all senders (ns); 0 between frames of one burst. Gaps that
    /// overlap a skipped window are not counted.
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
    fn gaps_are_computed_over_the_merged_stream() {
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
    fn long_trial_is_recorded_in_common_windows_of_all_logs() {
        let frames = 4 * MOST_BURSTS;
        let mut logs = [Departures::new(Nanos(0), frames), Departures::new(Nanos(0), frames)];
        for turn in 0..20_000_u64 {
            logs[0].note(Nanos(turn * 1000), 1);
            logs[1].note(Nanos(turn * 1000 + 500), 1);
        }
        let gaps = Departures::gaps(&[&logs[0], &logs[1]]);
        // Of 20 windows of 1 ms with 2000 frames each, every fourth is kept; each kept window has one gap less than
        // frames.
        assert_eq!((gaps.count(), gaps.min(), gaps.max()), (5 * 1999, Some(500), Some(500)));
    }
}
