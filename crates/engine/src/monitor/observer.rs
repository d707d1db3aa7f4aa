//! Everything that is made of the frames of one point and direction, put together.
//!
//! Frames are counted as interfaces and captures count them: from the destination address on, without FCS. Where a line is
//! meant, FCS, padding, preamble and gap are added.

use iolab_frame::{FCS_BYTES, SMALLEST_FRAME_BYTES};

use crate::error::EngineError;
use crate::histogram::Histogram;
use crate::time::Nanos;

use super::{
    Bins, BinsReport, BucketCurve, BufferLoss, Buffers, CurvePoint, Kept, Trains, TrainsReport, VirtualLine,
};

/// What is asked of a point.
#[derive(Debug, Clone)]
pub struct ObserverConfig {
    /// The lengths of windows.
    pub windows: Vec<Nanos>,
    /// Rate of the line that is thought of (bit/s); none: windows are of memory's view alone.
    pub line_bps: Option<u64>,
    /// Frames less than that apart are of one train.
    pub train_gap: Nanos,
    /// Rates of the curve (bit/s).
    pub rates_bps: Vec<u64>,
    /// Depths of buffers before the line (bytes).
    pub buffers_bytes: Vec<u64>,
    /// What windows that are kept one by one may take, all together (bytes).
    pub kept_bytes: usize,
}

/// How a window is filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// With frames as they come.
    Arrival,
    /// With frames while they are on the line.
    Line,
}

/// The windows of one length and view.
#[derive(Debug)]
pub struct Windows {
    /// How they were filled.
    pub view: View,
    /// What is counted.
    pub report: BinsReport,
    /// Windows by their bytes.
    pub histogram: Histogram,
    /// Those that carried something.
    pub kept: Kept,
}

/// What a line would have seen.
#[derive(Debug)]
pub struct Line {
    /// How long it would have been busy.
    pub busy: Nanos,
    /// The buffer before it that just holds the traffic, as long as it is on the line.
    pub needs: CurvePoint,
    /// What smaller ones would lose.
    pub losses: Vec<BufferLoss>,
}

/// What passed a point in one direction.
#[derive(Debug)]
#[non_exhaustive]
pub struct Observed {
    /// When the first frame came.
    pub first: Option<Nanos>,
    /// When the last frame came.
    pub last: Option<Nanos>,
    /// Windows, by length and view.
    pub windows: Vec<Windows>,
    /// Trains.
    pub trains: TrainsReport,
    /// The smallest token bucket at each rate, of bytes as they are counted.
    pub curve: Vec<CurvePoint>,
    /// Where a line was thought of.
    pub line: Option<Line>,
}

/// Looks at one point and direction.
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
    /// One that makes what `config` asks for.
    pub fn new(config: &ObserverConfig) -> Result<Self, EngineError> {
        let views = config.windows.len() * if config.line_bps.is_some() { 2 } else { 1 };
        // Shorter windows are more: each gets its share by how many there are of it.
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

    /// Note frames that came together.
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

    /// What it comes to.
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

    /// Sixteen frames at once every 2 ms are what htb makes of 100 Mbit/s; one every 125 us is what a pacer makes of it.
    #[test]
    fn bursts_and_even_frames_of_one_rate_are_told_apart() {
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
            // 1538 B of each frame are 12.304 us of the line.
            assert_eq!(seen.line.as_ref().unwrap().busy, Nanos(1_600 * 12_304));
        }
        let longest = |seen: &Observed, view| {
            seen.windows.iter().find(|windows| windows.view == view).unwrap().report.most_bytes
        };
        assert_eq!(longest(&bursts, View::Arrival), 16 * 1_514);
        assert!(longest(&bursts, View::Line) <= 1_500);
    }

    #[test]
    fn a_point_that_nothing_passes_has_no_windows() {
        let seen = Observer::new(&config()).unwrap().finish();
        assert!(seen.first.is_none() && seen.windows.iter().all(|windows| windows.report.windows == 0));
    }
}
