//! Trains: runs of frames that follow each other closer than a threshold.

use serde::Serialize;

use crate::histogram::Histogram;
use crate::time::Nanos;

/// Collects trains. A usual threshold is 1.5 times what a long frame takes on the line.
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

/// The trains of one point and direction. A single frame is a train of one.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct TrainsReport {
    /// Trains by their number of frames.
    pub frames: Histogram,
    /// Trains by their bytes.
    pub bytes: Histogram,
    /// Trains by their length, from the first frame to the last (ns).
    pub lengths: Histogram,
    /// Times from the first frame of a train to that of the next (ns).
    pub intervals: Histogram,
    /// Gaps between frames (ns).
    pub gaps: Histogram,
}

impl Trains {
    /// Frames less than `threshold` apart are of one train.
    pub fn new(threshold: Nanos) -> Self {
        Self { threshold, last: None, train: Train::default(), report: TrainsReport::default() }
    }

    /// Note frames that came together.
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

    /// Close the last train.
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
    fn frames_closer_than_the_threshold_are_one_train() {
        let mut trains = Trains::new(Nanos(10));
        [0, 9, 18, 28, 100, 100].into_iter().for_each(|at| trains.push(Nanos(at), 1, 64));
        let report = trains.finish();
        let lengths: Vec<_> = report.frames.buckets().map(|bucket| (bucket.low, bucket.count)).collect();
        assert_eq!(lengths, [(1, 1), (2, 1), (3, 1)]);
        assert_eq!((report.bytes.sum(), report.gaps.count()), (6 * 64, 5));
        assert_eq!((report.lengths.max(), report.lengths.sum()), (Some(18), 18));
        assert_eq!((report.intervals.min(), report.intervals.max()), (Some(28), Some(72)));
    }

    /// A long frame takes 1.23 ms at 10 Mbit/s; a threshold of half of that would make each a train.
    #[test]
    fn nine_frames_back_to_back_then_eleven_frame_times_idle_are_trains_of_nine_every_twenty() {
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
    fn frames_that_come_together_are_a_train_with_gaps_of_nothing() {
        let mut trains = Trains::new(Nanos(10));
        trains.push(Nanos(5), 44, 44 * 1_514);
        trains.push(Nanos(500), 2, 128);
        let report = trains.finish();
        assert_eq!((report.frames.max(), report.frames.count()), (Some(44), 2));
        assert_eq!((report.gaps.count(), report.gaps.max(), report.gaps.min()), (45, Some(495), Some(0)));
    }
}
