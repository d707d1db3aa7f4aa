//! Trains: runs of frames that follow each other closer than a threshold.

use serde::Serialize;

use crate::histogram::Histogram;
use crate::time::Nanos;

/// Collects trains. A usual threshold is half the gap of evenly spaced frames.
#[derive(Debug, Clone)]
pub struct Trains {
    threshold: Nanos,
    last: Option<Nanos>,
    frames: u64,
    bytes: u64,
    report: TrainsReport,
}

/// The trains of one point and direction. A single frame is a train of one.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct TrainsReport {
    /// Trains by their number of frames.
    pub frames: Histogram,
    /// Trains by their bytes.
    pub bytes: Histogram,
    /// Gaps between frames [ns].
    pub gaps: Histogram,
}

impl Trains {
    /// Frames less than `threshold` apart are of one train.
    pub fn new(threshold: Nanos) -> Self {
        let report =
            TrainsReport { frames: Histogram::new(), bytes: Histogram::new(), gaps: Histogram::new() };
        Self { threshold, last: None, frames: 0, bytes: 0, report }
    }

    /// Note a frame of `bytes` at `at`.
    #[inline]
    pub fn push(&mut self, at: Nanos, bytes: u32) {
        if let Some(last) = self.last.replace(at) {
            let gap = at.since(last);
            self.report.gaps.record(gap.0);
            if gap >= self.threshold {
                self.close();
            }
        }
        self.frames += 1;
        self.bytes += u64::from(bytes);
    }

    /// Close the last train.
    pub fn finish(mut self) -> TrainsReport {
        if self.frames > 0 {
            self.close();
        }
        self.report
    }

    #[inline]
    fn close(&mut self) {
        self.report.frames.record(std::mem::take(&mut self.frames));
        self.report.bytes.record(std::mem::take(&mut self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_closer_than_the_threshold_are_one_train() {
        let mut trains = Trains::new(Nanos(10));
        [0, 9, 18, 28, 100, 100].into_iter().for_each(|at| trains.push(Nanos(at), 64));
        let report = trains.finish();
        let lengths: Vec<_> = report.frames.buckets().map(|bucket| (bucket.low, bucket.count)).collect();
        assert_eq!(lengths, [(1, 1), (2, 1), (3, 1)]);
        assert_eq!((report.bytes.sum(), report.gaps.count()), (6 * 64, 5));
    }
}
