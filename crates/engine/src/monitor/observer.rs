//! All statistics of the frames of one measuring point and direction.
//!
//! Frames are counted as interfaces and captures count them: from the destination address on, without FCS. For a
//! line, FCS, padding, preamble and inter-frame gap are added.

use iolab_frame::{FCS_BYTES, SMALLEST_FRAME_BYTES};

use crate::error::EngineError;
use crate::histogram::Histogram;
use crate::time::Nanos;

use super::{
    Bins, BinsReport, BucketCurve, BufferLoss, Buffers, CurvePoint, Kept, Trains, TrainsReport, VirtualLine,
};

/// The requested statistics of a measuring point.
#[derive(Debug, Clone)]
pub struct ObserverConfig {
    /// Window lengths.
    pub windows: Vec<Nanos>,
    /// Rate of the virtual line (bit/s); none for the arrival view only.
    pub line_bps: Option<u64>,
    /// Maximum gap within a train: frames with smaller gaps belong to one train.
    pub train_gap: Nanos,
    /// Rates of the burstiness curve (bit/s).
    pub rates_bps: Vec<u64>,
    /// Depths of the buffers before the line (bytes).
    pub buffers_bytes: Vec<u64>,
    /// Memory limit for all individually stored windows (bytes).
    pub kept_bytes: usize,
}

/// The way in which frames are assigned to windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// Frames count at their arrival time.
    Arrival,
    /// Frames count while they are on the virtual line.
    Line,
}

/// The windows of one length, counted in one view.
#[derive(Debug)]
pub struct Windows {
    /// View of the windows.
    pub view: View,
    /// Counts of the windows.
    pub report: BinsReport,
    /// Histogram of bytes per window.
    pub histogram: Histogram,
    /// Nonempty windows.
    pub kept: Kept,
}

/// The results of the virtual line.
#[derive(Debug)]
pub struct Line {
    /// Busy time of the line.
    pub busy: Nanos,
    /// Minimum buffer before the line that holds the traffic without loss, counted with the line overhead.
    pub needs: CurvePoint,
    /// Loss of the configured buffers.
    pub losses: Vec<BufferLoss>,
}

/// The traffic statistics of a measuring point in one direction.
#[derive(Debug)]
#[non_exhaustive]
pub struct Observed {
    /// Time of the first frame.
    pub first: Option<Nanos>,
    /// Time of the last frame.
    pub last: Option<Nanos>,
    /// Windows, by length and view.
    pub windows: Vec<Windows>,
    /// Frame trains.
    pub trains: TrainsReport,
    /// Minimum token bucket at each rate, in bytes without line overhead.
    pub curve: Vec<CurvePoint>,
    /// Results of the virtual line, if configured.
    pub line: Option<Line>,
}

/// Collects the statistics of one measuring point and direction.
#[derive(Debug)]
pub struct Observer {
    first: Option<Nanos>,
    last: Option<Nanos>,
    arrival: Vec<Bins>,
    trains: Trains,
    curve: BucketCurve,
    line: Option<LineSide>,
}

#[derive(Debug)]
struct LineSide {
    line: VirtualLine,
    bins: Vec<Bins>,
    needs: BucketCurve,
    buffers: Buffers,
}

impl Observer {
    /// Create an observer for the statistics in `config`.
    pub fn new(config: &ObserverConfig) -> Result<Self, EngineError> {
        let views = config.windows.len() * if config.line_bps.is_some() { 2 } else { 1 };
        // Shorter windows are more numerous, so memory is divided in proportion to the number of windows.
        let weight = |window: Nanos| 1e9 / window.0.max(1) as f64;
        let total: f64 = config.windows.iter().map(|&window| weight(window)).sum();
        let bins = || {
            let made = config.windows.iter().map(|&window| {
                let share = config.kept_bytes as f64 * weight(window) / total;
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a part of kept_bytes"
                )]
                let kept_bytes = (share * config.windows.len() as f64 / views as f64) as usize;
                Bins::new(window, kept_bytes)
            });
            made.collect::<Result<Vec<_>, _>>()
        };
        let side = |line_bps| {
            Ok::<_, EngineError>(LineSide {
                line: VirtualLine::new(line_bps)?,
                bins: bins()?,
                needs: BucketCurve::new(&[line_bps])?,
                buffers: Buffers::new(line_bps, &config.buffers_bytes)?,
            })
        };
        Ok(Self {
            first: None,
            last: None,
            arrival: bins()?,
            trains: Trains::new(config.train_gap),
            curve: BucketCurve::new(&config.rates_bps)?,
            line: config.line_bps.map(side).transpose()?,
        })
    }

    /// Add frames that arrived together.
    #[inline]
    pub fn push(&mut self, at: Nanos, frames: u64, bytes: u64) {
        self.first = self.first.or(Some(at));
        self.last = self.last.max(Some(at));
        for bins in &mut self.arrival {
            bins.push(at, frames, bytes);
        }
        self.trains.push(at, frames, bytes);
        self.curve.push(at, bytes);
        if let Some(side) = &mut self.line {
            let whole = (bytes + frames * u64::from(FCS_BYTES)).max(frames * u64::from(SMALLEST_FRAME_BYTES));
            let span = side.line.push(at, frames, whole);
            for bins in &mut side.bins {
                bins.push_span(span, frames, bytes);
            }
            let on_line = whole + frames * u64::from(iolab_frame::LINE_OVERHEAD_BYTES);
            side.needs.push(at, on_line);
            side.buffers.push(at, on_line);
        }
    }

    /// Return the collected statistics.
    pub fn finish(self) -> Observed {
        let windows = |view, bins: Vec<Bins>| {
            bins.into_iter().map(move |bins| {
                let (report, histogram, kept) = bins.finish();
                Windows { view, report, histogram, kept }
            })
        };
        let mut found: Vec<Windows> = windows(View::Arrival, self.arrival).collect();
        let line = self.line.map(|side| {
            found.extend(windows(View::Line, side.bins));
            let needs = side.needs.points().next();
            let needs = needs.unwrap_or(CurvePoint { rate_bps: 0, depth_bytes: 0, left_bytes: 0 });
            Line { busy: side.line.busy(), needs, losses: side.buffers.losses().collect() }
        });
        Observed {
            first: self.first,
            last: self.last,
            windows: found,
            trains: self.trains.finish(),
            curve: self.curve.points().collect(),
            line,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> ObserverConfig {
        ObserverConfig {
            windows: vec![Nanos::from_micros(12), Nanos::from_micros(100)],
            line_bps: Some(1_000_000_000),
            train_gap: Nanos::from_micros(6),
            rates_bps: vec![100_000_000, 1_000_000_000],
            buffers_bytes: vec![10_000, 125_000],
            kept_bytes: 1 << 20,
        }
    }

    /// At 100 Mbit/s htb sends sixteen frames at once every 2 ms; a pacer sends one every 125 us.
    #[test]
    fn bursts_and_evenly_spaced_frames_of_equal_rate_are_distinguished() {
        let mut bursts = Observer::new(&config()).unwrap();
        let mut even = Observer::new(&config()).unwrap();
        for turn in 1..=100 {
            bursts.push(Nanos::from_millis(2 * turn), 16, 16 * 1_514);
            (0..16).for_each(|place| even.push(Nanos::from_micros(2_000 * turn + 125 * place), 1, 1_514));
        }
        let (bursts, even) = (bursts.finish(), even.finish());
        assert_eq!((bursts.trains.frames.max(), even.trains.frames.max()), (Some(16), Some(1)));
        assert_eq!((bursts.curve[0].depth_bytes, even.curve[0].depth_bytes), (16 * 1_514, 1_514));
        let lost =
            |seen: &Observed| seen.line.as_ref().unwrap().losses.iter().map(|loss| loss.lost_bytes).collect();
        let (some, none): (Vec<u64>, Vec<u64>) = (lost(&bursts), lost(&even));
        assert!(some[0] > 0 && some[1] == 0 && none == [0, 0], "{some:?} {none:?}");
        for seen in [&bursts, &even] {
            assert!(seen.windows.iter().all(|windows| windows.report.bytes == 1_600 * 1_514));
            // Each frame occupies the line for 1538 B, which is 12.304 us.
            assert_eq!(seen.line.as_ref().unwrap().busy, Nanos(1_600 * 12_304));
        }
        let longest = |seen: &Observed, view| {
            seen.windows.iter().find(|windows| windows.view == view).unwrap().report.most_bytes
        };
        assert_eq!(longest(&bursts, View::Arrival), 16 * 1_514);
        assert!(longest(&bursts, View::Line) <= 1_500);
    }

    #[test]
    fn observer_without_frames_has_no_windows() {
        let seen = Observer::new(&config()).unwrap().finish();
        assert!(seen.first.is_none() && seen.windows.iter().all(|windows| windows.report.windows == 0));
    }
}
