//! Trains: runs of frames with gaps below a threshold.

use serde::Serialize;

use crate::histogram::Histogram;
use crate::time::Nanos;

/// Collects trains. A usual threshold is 1.5 times the transmission time of a long frame.
#[derive(Debug, Clone)]
pub struct Trains {
    threshold: Nanos,
    last: Option<Nanos>,
    train: Train,
    report: TrainsReport,
}

#[derive(Debug, Clone, Copy, Default)]
struct Train {
    begin: Nanos,
    frames: u64,
    bytes: u64,
}

/// The trains of one measuring point and direction. A single frame counts as a train of one frame.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct TrainsReport {
    /// Histogram of frames per train.
    pub frames: Histogram,
    /// Histogram of bytes per train.
    pub bytes: Histogram,
    /// Histogram of train durations, from the first to the last frame (ns).
    pub lengths: Histogram,
    /// Histogram of intervals between the first frames of consecutive trains (ns).
    pub intervals: Histogram,
    /// Histogram of gaps between frames (ns).
    pub gaps: Histogram,
}

impl Trains {
    /// Create a collector: frames with gaps below `threshold` belong to one train.
    pub fn new(threshold: Nanos) -> Self {
        Self { threshold, last: None, train: Train::default(), report: TrainsReport::default() }
    }

    /// Add frames that arrived together.
    #[inline]
    pub fn push(&mut self, at: Nanos, frames: u64, bytes: u64) {
        if frames == 0 {
            return;
        }
        if let Some(last) = self.last {
            let gap = at.since(last);
            self.report.gaps.record(gap.0);
            if gap >= self.threshold {
                self.report.intervals.record(at.since(self.train.begin).0);
                self.close(last);
                self.train.begin = at;
            }
        } else {
            self.train.begin = at;
        }
        self.last = Some(self.last.map_or(at, |last| last.max(at)));
        self.report.gaps.record_many(0, frames - 1);
        self.train.frames += frames;
        self.train.bytes += bytes;
    }

    /// Close the last train and return the report.
    pub fn finish(mut self) -> TrainsReport {
        if let Some(last) = self.last {
            self.close(last);
        }
        self.report
    }

    #[inline]
    fn close(&mut self, last: Nanos) {
        let train = std::mem::take(&mut self.train);
        self.report.frames.record(train.frames);
        self.report.bytes.record(train.bytes);
        self.report.lengths.record(last.since(train.begin).0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_closer_than_the_threshold_form_a_train() {
        let mut trains = Trains::new(Nanos(10));
        [0, 9, 18, 28, 100, 100].into_iter().for_each(|at| trains.push(Nanos(at), 1, 64));
        let report = trains.finish();
        let lengths: Vec<_> = report.frames.buckets().map(|bucket| (bucket.low, bucket.count)).collect();
        assert_eq!(lengths, [(1, 1), (2, 1), (3, 1)]);
        assert_eq!((report.bytes.sum(), report.gaps.count()), (6 * 64, 5));
        assert_eq!((report.lengths.max(), report.lengths.sum()), (Some(18), 18));
        assert_eq!((report.intervals.min(), report.intervals.max()), (Some(28), Some(72)));
    }

    /// A long frame takes 1.23 ms at 10 Mbit/s; with a threshold of half this time, each frame would be a separate
    /// train.
    #[test]
    fn trains_of_nine_frames_every_twenty_frame_times_are_recognised() {
        let frame_ns = 1_538 * 8 * 100;
        let mut trains = Trains::new(Nanos(frame_ns * 3 / 2));
        for train in 0..50 {
            (0..9).for_each(|frame| trains.push(Nanos((train * 20 + frame) * frame_ns), 1, 1_514));
        }
        let report = trains.finish();
        assert_eq!((report.frames.min(), report.frames.max(), report.frames.count()), (Some(9), Some(9), 50));
        let intervals = (report.intervals.min(), report.intervals.max());
        assert_eq!(intervals, (Some(20 * frame_ns), Some(20 * frame_ns)));
        assert_eq!(report.lengths.max(), Some(8 * frame_ns));
    }

    #[test]
    fn simultaneous_frames_form_a_train_with_zero_gaps() {
        let mut trains = Trains::new(Nanos(10));
        trains.push(Nanos(5), 44, 44 * 1_514);
        trains.push(Nanos(500), 2, 128);
        let report = trains.finish();
        assert_eq!((report.frames.max(), report.frames.count()), (Some(44), 2));
        assert_eq!((report.gaps.count(), report.gaps.max(), report.gaps.min()), (45, Some(495), Some(0)));
    }
}
