//! Exact bytes and frames per time window: each byte is counted in one window.

use serde::Serialize;

use crate::error::EngineError;
use crate::histogram::Histogram;
use crate::time::Nanos;

use super::kept::Kept;
use super::line::LineSpan;

/// Counts bytes and frames in windows of equal length. Window n starts at n times its length on the caller's clock,
/// so that the windows of several measuring points coincide.
///
/// The time range is from the first to the last frame: no idle windows are counted before and after. Nonempty windows
/// are stored individually as long as there is room; the histogram includes all windows.
#[derive(Debug, Clone)]
pub struct Bins {
    window_ns: u64,
    /// Index of the current window; none before the first frame.
    current: Option<u64>,
    filling: (u64, u64),
    histogram: Histogram,
    kept: Kept,
    report: BinsReport,
}

/// The windows of one measuring point and direction.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct BinsReport {
    /// Length of a window (ns).
    pub window_ns: u64,
    /// Index of the first window.
    pub first: u64,
    /// Number of windows from the first to the last nonempty window.
    pub windows: u64,
    /// Number of empty windows between the first and the last nonempty window.
    pub idle_windows: u64,
    /// Total number of bytes.
    pub bytes: u64,
    /// Total number of frames.
    pub frames: u64,
    /// Sum of the squared number of frames per window.
    pub frames_squared: u64,
    /// Maximum number of bytes in a window.
    pub most_bytes: u64,
    /// Number of frames with a time before the current window; they are counted in the current window.
    pub late_frames: u64,
}

impl Bins {
    /// Create windows of length `window`; individually stored windows use at most `kept_bytes` of memory.
    pub fn new(window: Nanos, kept_bytes: usize) -> Result<Self, EngineError> {
        if window.0 == 0 {
            let allowed = "a window is at least 1 ns long; 12 us to 10 ms are usual";
            return Err(EngineError::Setting { what: "length of a window [ns]", seen: 0, allowed });
        }
        Ok(Self {
            window_ns: window.0,
            current: None,
            filling: (0, 0),
            histogram: Histogram::new(),
            kept: Kept::new(window, kept_bytes),
            report: BinsReport { window_ns: window.0, ..BinsReport::default() },
        })
    }

    /// Count frames at their arrival time, all in one window (arrival view).
    #[inline]
    pub fn push(&mut self, at: Nanos, frames: u64, bytes: u64) {
        let window = at.0 / self.window_ns;
        match self.current {
            Some(current) if window > current => self.turn(current, window),
            Some(current) if window < current => self.report.late_frames += frames,
            Some(_) => {}
            None => (self.current, self.report.first) = (Some(window), window),
        }
        self.filling.0 += frames;
        self.filling.1 += bytes;
    }

    /// Count frames over their transmission time on the line (line view). Each window gets its share of the time;
    /// rounding preserves the total.
    #[inline]
    pub fn push_span(&mut self, span: LineSpan, frames: u64, bytes: u64) {
        let length = span.end.since(span.begin).0;
        let share = |whole: u64, until: Nanos| {
            let part = u128::from(whole) * u128::from(until.since(span.begin).0) / u128::from(length.max(1));
            u64::try_from(part).unwrap_or(whole)
        };
        let (mut counted, mut begin) = ((0, 0), span.begin);
        while begin < span.end {
            let boundary = Nanos((begin.0 / self.window_ns + 1).saturating_mul(self.window_ns));
            if boundary >= span.end {
                break;
            }
            let until = (share(frames, boundary), share(bytes, boundary));
            self.push(begin, until.0 - counted.0, until.1 - counted.1);
            (counted, begin) = (until, boundary);
        }
        self.push(begin, frames - counted.0, bytes - counted.1);
    }

    /// Close the current window and return the results.
    pub fn finish(mut self) -> (BinsReport, Histogram, Kept) {
        if let Some(current) = self.current {
            self.close(current);
            self.report.windows = self.histogram.count();
        }
        self.report.most_bytes = self.histogram.max().unwrap_or(0);
        (self.report, self.histogram, self.kept)
    }

    fn turn(&mut self, current: u64, window: u64) {
        self.close(current);
        let empty = window - current - 1;
        self.histogram.record_many(0, empty);
        self.report.idle_windows += empty;
        self.current = Some(window);
    }

    fn close(&mut self, window: u64) {
        let (frames, bytes) = std::mem::take(&mut self.filling);
        self.histogram.record(bytes);
        self.report.idle_windows += u64::from(bytes == 0);
        self.report.frames += frames;
        self.report.bytes += bytes;
        self.report.frames_squared = self.report.frames_squared.saturating_add(frames.saturating_mul(frames));
        self.kept.push(window, frames, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::VirtualLine;
    use crate::random::Random;

    fn bins() -> Bins {
        Bins::new(Nanos(100), 1 << 23).expect("windows")
    }

    #[test]
    fn each_frame_is_counted_in_the_window_of_its_time() {
        let mut bins = bins();
        for (at, bytes) in [(1_000, 64), (1_099, 64), (1_100, 1518), (1_399, 10), (1_350, 20), (1_250, 5)] {
            bins.push(Nanos(at), 1, bytes);
        }
        let (report, histogram, kept) = bins.finish();
        assert_eq!(kept.windows(), [(10, 2, 128), (11, 1, 1518), (13, 3, 35)]);
        assert_eq!((report.first, report.windows, report.idle_windows), (10, 4, 1));
        assert_eq!((report.bytes, report.frames, report.late_frames), (1_681, 6, 1));
        assert_eq!((report.frames_squared, report.most_bytes, histogram.count()), (14, 1_518, 4));
    }

    #[test]
    fn frame_on_the_line_is_distributed_over_windows_by_its_duration() {
        let mut bins = bins();
        bins.push_span(LineSpan { begin: Nanos(1_050), end: Nanos(1_350) }, 6, 3_001);
        let expected = [(10, 1, 500), (11, 2, 1_000), (12, 2, 1_000), (13, 1, 501)];
        assert_eq!(bins.finish().2.windows(), expected);
    }

    #[test]
    fn windows_contain_every_byte_of_any_traffic() {
        let mut random = Random::new(1);
        let (mut raw, mut spread) = (bins(), bins());
        let mut line = VirtualLine::new(1_000_000_000).expect("a line");
        let (mut at, mut bytes) = (Nanos(1_000), 0);
        for _ in 0..20_000 {
            at = at.plus(Nanos(u64::from(random.below(12_000))));
            let frame = 64 + random.below(1_455);
            bytes += u64::from(frame);
            raw.push(at, 1, u64::from(frame));
            spread.push_span(line.push(at, 1, u64::from(frame)), 1, u64::from(frame));
        }
        for (report, histogram, kept) in [raw.finish(), spread.finish()] {
            assert_eq!((report.bytes, report.frames, report.late_frames), (bytes, 20_000, 0));
            assert_eq!((histogram.sum(), histogram.count()), (bytes, report.windows));
            let kept = kept.windows();
            assert_eq!(kept.iter().map(|&(_, _, bytes)| bytes).sum::<u64>(), bytes);
            assert_eq!(kept.iter().map(|&(_, frames, _)| frames).sum::<u64>(), 20_000);
        }
    }

    #[test]
    fn no_line_window_contains_more_than_the_line_rate() {
        let mut bins = Bins::new(Nanos::from_micros(12), 1 << 16).expect("windows");
        let mut line = VirtualLine::new(1_000_000_000).expect("a line");
        (0..100).for_each(|_| bins.push_span(line.push(Nanos::ZERO, 1, 1_518), 1, 1_518));
        let (report, _, _) = bins.finish();
        assert!(report.most_bytes <= 1_500, "12 us at 1 Gbit/s are 1500 B");
        assert_eq!(report.bytes, 151_800);
    }
}
