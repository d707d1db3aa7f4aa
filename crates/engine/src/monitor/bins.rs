//! Bytes per window of time, exactly: each byte is in one window.

use serde::Serialize;

use crate::error::EngineError;
use crate::histogram::Histogram;
use crate::time::Nanos;

use super::line::LineSpan;

/// Counts bytes in windows of equal length, one after the other from an origin.
///
/// The first windows are kept one by one, as many as room was taken for; all of them, empty ones too, are in the
/// histogram.
#[derive(Debug, Clone)]
pub struct Bins {
    origin: Nanos,
    window_ns: u64,
    /// The number of the window that is being filled, and the bytes in it.
    current: u64,
    filling_bytes: u64,
    series: Vec<u32>,
    kept_windows: usize,
    histogram: Histogram,
    idle_windows: u64,
    total_bytes: u64,
    early_bytes: u64,
}

/// The windows of one point and direction.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct BinsReport {
    /// When the first window begins.
    pub origin: Nanos,
    /// The length of a window [ns].
    pub window_ns: u64,
    /// Bytes in each of the first windows; those after the last are in the histogram only.
    pub series_bytes: Vec<u32>,
    /// Windows by their bytes.
    pub histogram: Histogram,
    /// The number of windows.
    pub windows: u64,
    /// How many of them were empty.
    pub idle_windows: u64,
    /// The bytes in all windows.
    pub total_bytes: u64,
    /// Bytes before the origin, or in a window already closed; they are in no window.
    pub early_bytes: u64,
}

impl Bins {
    /// Windows of `window` from `origin`, the first `kept_windows` of which are kept one by one (4 B each).
    pub fn new(origin: Nanos, window: Nanos, kept_windows: usize) -> Result<Self, EngineError> {
        if window.0 == 0 {
            let allowed = "a window is at least 1 ns long; 12 us to 10 ms are usual";
            return Err(EngineError::Setting { what: "length of a window [ns]", seen: 0, allowed });
        }
        Ok(Self {
            origin,
            window_ns: window.0,
            current: 0,
            filling_bytes: 0,
            series: Vec::with_capacity(kept_windows),
            kept_windows,
            histogram: Histogram::new(),
            idle_windows: 0,
            total_bytes: 0,
            early_bytes: 0,
        })
    }

    /// Count a frame of `bytes` in the window of `at`: memory's view, all at once.
    #[inline]
    pub fn push(&mut self, at: Nanos, bytes: u32) {
        let window = at.since(self.origin).0 / self.window_ns;
        if at < self.origin || window < self.current {
            self.early_bytes += u64::from(bytes);
            return;
        }
        if window > self.current {
            self.close_until(window);
        }
        self.filling_bytes += u64::from(bytes);
        self.total_bytes += u64::from(bytes);
    }

    /// Count `bytes` over the time that a frame takes on the line: the line's view. Each window gets its share of the
    /// time, rounded so that the shares sum up to the bytes.
    #[inline]
    pub fn push_span(&mut self, span: LineSpan, bytes: u32) {
        let mut counted = 0;
        let mut begin = span.begin;
        while begin < span.end && begin >= self.origin {
            let window = begin.since(self.origin).0 / self.window_ns;
            let boundary = self.origin.plus(Nanos((window + 1).saturating_mul(self.window_ns)));
            if boundary >= span.end {
                break;
            }
            let share = u64::from(bytes) * boundary.since(span.begin).0 / span.end.since(span.begin).0;
            let share = u32::try_from(share).unwrap_or(bytes);
            self.push(begin, share - counted);
            (counted, begin) = (share, boundary);
        }
        self.push(begin, bytes - counted);
    }

    /// Close the windows that end until `end`, and the one being filled if it holds something.
    pub fn finish(mut self, end: Nanos) -> BinsReport {
        let ended = end.since(self.origin).0 / self.window_ns;
        self.close_until(ended.max(self.current + u64::from(self.filling_bytes > 0)));
        BinsReport {
            origin: self.origin,
            window_ns: self.window_ns,
            series_bytes: self.series,
            windows: self.histogram.count(),
            histogram: self.histogram,
            idle_windows: self.idle_windows,
            total_bytes: self.total_bytes,
            early_bytes: self.early_bytes,
        }
    }

    /// Close all windows before the number `window`: the one being filled, then empty ones, all of these at once.
    fn close_until(&mut self, window: u64) {
        if window <= self.current {
            return;
        }
        let bytes = std::mem::take(&mut self.filling_bytes);
        self.histogram.record(bytes);
        let empty = window - self.current - 1;
        self.histogram.record_many(0, empty);
        self.idle_windows += u64::from(bytes == 0) + empty;
        let room = self.kept_windows - self.series.len();
        if room > 0 {
            self.series.push(u32::try_from(bytes).unwrap_or(u32::MAX));
            let kept = usize::try_from(empty).unwrap_or(usize::MAX).min(room - 1);
            self.series.resize(self.series.len() + kept, 0);
        }
        self.current = window;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::VirtualLine;
    use crate::random::Random;

    fn bins(kept: usize) -> Bins {
        Bins::new(Nanos(1_000), Nanos(100), kept).expect("windows")
    }

    #[test]
    fn each_frame_is_in_the_window_of_its_time() {
        let mut bins = bins(10);
        for (at, bytes) in
            [(999, 7), (1_000, 64), (1_099, 64), (1_100, 1518), (1_399, 10), (1_350, 20), (1_250, 5)]
        {
            bins.push(Nanos(at), bytes);
        }
        let report = bins.finish(Nanos(1_650));
        assert_eq!(report.series_bytes, [128, 1518, 0, 30, 0, 0]);
        assert_eq!((report.windows, report.idle_windows), (6, 3));
        assert_eq!((report.total_bytes, report.early_bytes), (1_676, 12));
    }

    #[test]
    fn a_frame_on_the_line_fills_windows_by_its_time_there() {
        let mut bins = bins(10);
        bins.push_span(LineSpan { begin: Nanos(1_050), end: Nanos(1_350) }, 3_001);
        assert_eq!(bins.finish(Nanos(1_400)).series_bytes, [500, 1_000, 1_000, 501]);
    }

    #[test]
    fn windows_hold_every_byte_whatever_the_frames_do() {
        let mut random = Random::new(1);
        let (mut raw, mut spread) = (bins(100_000), bins(100_000));
        let mut line = VirtualLine::new(1_000_000_000).expect("a line");
        let (mut at, mut bytes) = (Nanos(1_000), 0);
        for _ in 0..20_000 {
            at = at.plus(Nanos(u64::from(random.below(12_000))));
            let frame = 64 + random.below(1_455);
            bytes += u64::from(frame);
            raw.push(at, frame);
            spread.push_span(line.push(at, frame), frame);
        }
        for report in [raw.finish(at), spread.finish(at)] {
            assert_eq!((report.total_bytes, report.early_bytes), (bytes, 0));
            assert_eq!(report.histogram.sum(), bytes);
            assert_eq!(report.windows, report.histogram.count());
        }
    }

    #[test]
    fn on_the_line_no_window_holds_more_than_the_line_carries() {
        let mut bins = Bins::new(Nanos::ZERO, Nanos::from_micros(12), 1_000).expect("windows");
        let mut line = VirtualLine::new(1_000_000_000).expect("a line");
        (0..100).for_each(|_| bins.push_span(line.push(Nanos::ZERO, 1_518), 1_518));
        let report = bins.finish(Nanos::ZERO);
        assert!(report.series_bytes.iter().all(|&bytes| bytes <= 1_500), "12 us at 1 Gbit/s are 1500 B");
        assert_eq!(report.total_bytes, 151_800);
    }
}
