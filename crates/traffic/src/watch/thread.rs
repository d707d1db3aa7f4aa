//! The thread of a watch: reads the bins of all measuring points periodically and passes them to the observers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use iolab_engine::{Bins, EngineError, Nanos, Observer, ObserverConfig};
use iolab_port::{Beyond, FlowKey, PortError, LAG_US};
use iolab_sys::clock;

use super::eye::{Eye, Sight};
use super::report::{Seen, SeenFlow, SeenPoint};
use super::stolen::StolenTime;

/// Period of reading the bins; the rings hold at least 300 ms.
const PERIOD: Duration = Duration::from_millis(20);
/// Time for which a program that was running during its detachment may still count (us). Such a program needs about one
/// microsecond.
const LAST_US: u64 = 2_000;

/// The state of the watch thread.
#[derive(Debug)]
pub struct Work {
    points: Vec<Point>,
    pub(super) begin_ns: u64,
}

/// A measuring point with the statistics of its frames.
#[derive(Debug)]
struct Point {
    eye: Eye,
    observer: Observer,
    /// Windows of each flow, then of the shared slot; empty if flows are not counted.
    flows: Vec<Bins>,
    window_ns: u64,
}

impl Work {
    pub fn new(config: &ObserverConfig, flows: usize, eyes: Vec<Eye>) -> Result<Self, EngineError> {
        let first = config.windows.first().copied().unwrap_or(Nanos::ZERO);
        let point = |eye| {
            // If flows are counted, half of the memory is for their windows.
            let share = if flows > 0 { config.kept_bytes / 2 } else { config.kept_bytes };
            let observer = Observer::new(&ObserverConfig { kept_bytes: share, ..config.clone() })?;
            let count = if flows > 0 { flows + 1 } else { 0 };
            let bins = (0..count).map(|_| Bins::new(first, share / count.max(1)));
            Ok(Point { eye, observer, flows: bins.collect::<Result<_, _>>()?, window_ns: first.0 })
        };
        let points = eyes.into_iter().map(point).collect::<Result<_, EngineError>>()?;
        Ok(Self { points, begin_ns: clock::now_ns() })
    }

    /// Read the bins until `stop` is set, and return the results.
    pub fn run(mut self, stop: &AtomicBool) -> Result<Seen, String> {
        let mut stolen = StolenTime::new();
        // Acquire: pairs with the Release in `stop`.
        while !stop.load(Ordering::Acquire) {
            let until_us = (clock::now_ns() / 1_000).saturating_sub(LAG_US);
            let read = self.points.iter_mut().try_for_each(|point| point.read(until_us));
            read.map_err(|error| error.to_string())?;
            stolen.look();
            std::thread::sleep(PERIOD); // the kernel continues to count
        }
        let counted: Vec<_> = self.points.iter_mut().map(|point| point.eye.close()).collect();
        let end_ns = clock::now_ns();
        // A program that was already running on a different CPU may still count.
        std::thread::sleep(Duration::from_micros(LAST_US));
        let until_us = clock::now_ns() / 1_000;
        let close = |(mut point, counted): (Point, Option<_>)| {
            point.read(until_us).map_err(|error| error.to_string())?;
            let counted = counted.ok_or("the interface it watched is gone")?;
            Ok::<_, String>(point.finish(counted))
        };
        let points = self.points.into_iter().zip(counted).map(close).collect::<Result<_, _>>()?;
        let (stolen, cpu_ns) = (stolen.finish(), clock::thread_ns());
        Ok(Seen { points, stolen, cpu_ns, begin_ns: self.begin_ns, end_ns })
    }
}

impl Point {
    fn read(&mut self, until_us: u64) -> Result<(), PortError> {
        let Self { eye, observer, flows, window_ns } = self;
        let rest = flows.len().saturating_sub(1);
        let mut of_flow = |number: usize, at: Nanos, frames: u64, bytes: u64| {
            if let Some(bins) = flows.get_mut(number.min(rest)) {
                bins.push(at, frames, bytes);
            }
        };
        match &mut eye.sight {
            Sight::Kernel(watch) => watch.read(
                until_us,
                |us, frames, bytes| observer.push(Nanos(us * 1_000), u64::from(frames), bytes),
                |number, window, frames, bytes| {
                    of_flow(number, Nanos(window * *window_ns), u64::from(frames), bytes);
                },
            ),
            Sight::Packet(packets) => packets.read(|seen| {
                observer.push(Nanos(seen.at_ns), seen.frames, seen.bytes);
                of_flow(seen.flow, Nanos(seen.at_ns), seen.frames, seen.bytes);
            })?,
        }
        Ok(())
    }

    fn finish(mut self, counted: iolab_protocol::watch::WatchCounted) -> SeenPoint {
        let by = self.eye.by();
        let (keys, beyond): (Vec<FlowKey>, Beyond) = match &mut self.eye.sight {
            Sight::Kernel(watch) => (watch.flows(), watch.beyond()),
            Sight::Packet(packets) => (packets.flows(), packets.beyond()),
        };
        let rest = self.flows.len().saturating_sub(1);
        let flows = self.flows.into_iter().enumerate().filter_map(|(number, bins)| {
            let key = keys.get(number).copied().filter(|_| number < rest);
            (key.is_some() || number == rest).then(|| SeenFlow { key, windows: bins.finish() })
        });
        SeenPoint { by, beyond, counted, flows: flows.collect(), observed: self.observer.finish() }
    }
}
