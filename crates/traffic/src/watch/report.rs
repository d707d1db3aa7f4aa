//! The results of a watch and their conversion to protocol types.

use iolab_engine::{BinsReport, CurvePoint, Histogram, Kept, Nanos, Observed, TrainsReport, View};
use iolab_port::{Beyond, FlowKey};
use iolab_protocol::watch::{
    WatchBucket, WatchCounted, WatchFlow, WatchLine, WatchLoss, WatchRead, WatchStolen, WatchTrains,
    WatchView, WatchWindows, Watched, WatchedPoint,
};

use crate::report::histogram;

/// The results of a watch.
#[derive(Debug)]
pub struct Seen {
    pub points: Vec<SeenPoint>,
    pub stolen: Vec<WatchStolen>,
    pub cpu_ns: u64,
    pub begin_ns: u64,
    pub end_ns: u64,
}

/// The results of one measuring point.
#[derive(Debug)]
pub struct SeenPoint {
    pub by: &'static str,
    pub beyond: Beyond,
    pub counted: WatchCounted,
    pub observed: Observed,
    pub flows: Vec<SeenFlow>,
}

/// The results of one flow at a measuring point; without a key, of all flows that share the last slot.
#[derive(Debug)]
pub struct SeenFlow {
    pub key: Option<FlowKey>,
    pub windows: (BinsReport, Histogram, Kept),
}

impl Seen {
    /// Return the individually stored windows.
    pub fn kept(&self, asked: &WatchRead) -> Option<&Kept> {
        let point = self.points.get(asked.point)?;
        match asked.flow {
            Some(flow) => point.flows.get(flow).filter(|_| asked.windows == 0).map(|flow| &flow.windows.2),
            None => point.observed.windows.get(asked.windows).map(|windows| &windows.kept),
        }
    }

    pub fn describe(&self) -> Watched {
        Watched {
            points: self.points.iter().map(point).collect(),
            stolen: self.stolen.clone(),
            cpu_ns: self.cpu_ns,
            begin_ns: self.begin_ns,
            end_ns: self.end_ns,
        }
    }
}

fn point(of: &SeenPoint) -> WatchedPoint {
    let seen = &of.observed;
    let windows = |view, (report, histogram, kept): (&BinsReport, &Histogram, &Kept)| {
        told(view, report, histogram, kept)
    };
    WatchedPoint {
        by: of.by.to_owned(),
        first_ns: seen.first.map(|Nanos(at)| at),
        last_ns: seen.last.map(|Nanos(at)| at),
        added_bytes: of.beyond.added_bytes,
        added_frames: of.beyond.added_frames,
        lost_frames: of.beyond.lost_frames,
        lost_bytes: of.beyond.lost_bytes,
        unstamped_frames: of.beyond.unstamped_frames,
        counted: of.counted,
        windows: (seen.windows.iter())
            .map(|each| windows(each.view, (&each.report, &each.histogram, &each.kept)))
            .collect(),
        trains: trains(&seen.trains),
        curve: seen.curve.iter().map(bucket).collect(),
        line: seen.line.as_ref().map(|line| WatchLine {
            busy_ns: line.busy.0,
            needs: bucket(&line.needs),
            losses: line
                .losses
                .iter()
                .map(|loss| WatchLoss {
                    depth_bytes: loss.depth_bytes,
                    lost_bytes: loss.lost_bytes,
                    offered_bytes: loss.offered_bytes,
                })
                .collect(),
        }),
        flows: of.flows.iter().map(flow).collect(),
    }
}

fn told(view: View, report: &BinsReport, of: &Histogram, kept: &Kept) -> WatchWindows {
    WatchWindows {
        view: match view {
            View::Arrival => WatchView::Arrival,
            View::Line => WatchView::Line,
        },
        window_ns: report.window_ns,
        first: report.first,
        windows: report.windows,
        idle_windows: report.idle_windows,
        bytes: report.bytes,
        frames: report.frames,
        frames_squared: report.frames_squared,
        late_frames: report.late_frames,
        left_out: kept.left_out(),
        histogram: histogram(of),
    }
}

fn trains(of: &TrainsReport) -> WatchTrains {
    WatchTrains {
        frames: histogram(&of.frames),
        bytes: histogram(&of.bytes),
        lengths_ns: histogram(&of.lengths),
        intervals_ns: histogram(&of.intervals),
        gaps_ns: histogram(&of.gaps),
    }
}

const fn bucket(of: &CurvePoint) -> WatchBucket {
    WatchBucket { rate_bps: of.rate_bps, depth_bytes: of.depth_bytes, left_bytes: of.left_bytes }
}

fn flow(of: &SeenFlow) -> WatchFlow {
    let address = |pick: fn(&FlowKey) -> String| of.key.as_ref().map(pick).unwrap_or_default();
    let number = |pick: fn(&FlowKey) -> u16| of.key.as_ref().map_or(0, pick);
    let (report, histogram, kept) = &of.windows;
    WatchFlow {
        source: address(|key| key.source.to_string()),
        destination: address(|key| key.destination.to_string()),
        source_port: number(|key| key.source_port),
        destination_port: number(|key| key.destination_port),
        protocol: of.key.map_or(0, |key| key.protocol),
        rest: of.key.is_none(),
        windows: told(View::Arrival, report, histogram, kept),
    }
}
