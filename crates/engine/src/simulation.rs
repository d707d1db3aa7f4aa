//! A trial in virtual time: a generator, a path and a receiver, on a host that may stall. The same arguments give the
//! same trial. The decisions are made by the code of real trials; only the clock and the path are simulated.

use iolab_frame::{Inspection, SizeMix, Stamp, FCS_BYTES};

use crate::generator::{FramePlan, Generator};
use crate::impairment::{Chain, Outcome, Passing, Timeline};
use crate::pacer::Decision;
use crate::receiver::Receiver;
use crate::time::Nanos;

/// The simulated host of the generator.
#[derive(Debug, Clone, Default)]
pub struct Host {
    /// Duration of one iteration of the transmit loop, the minimum distance between two bursts.
    pub turn: Nanos,
    /// Start times and lengths of stalls of the transmit loop, in order and without overlap.
    pub stalls: Vec<(Nanos, Nanos)>,
}

/// The frame counters of the simulated path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PathCounts {
    /// Number of lost frames.
    pub dropped_frames: u64,
    /// Number of duplicated frames.
    pub copied_frames: u64,
}

/// Stamp and length of a frame in flight.
#[derive(Debug, Clone, Copy)]
struct FlightStamp {
    flow: u32,
    sequence: u64,
    tx_time: Nanos,
    frame_bytes: u16,
}

/// Run `generator` from `start` to its end and pass its frames of `sizes` through `path` to `receiver`, until no
/// frame is in flight. `observe` is called for every sent frame.
pub fn simulate(
    generator: &mut Generator,
    sizes: &SizeMix,
    path: Chain,
    receiver: &mut Receiver,
    start: Nanos,
    host: &Host,
    mut observe: impl FnMut(&FramePlan),
) -> PathCounts {
    let mut path = VirtualPath {
        chain: path,
        stamps: Vec::new(),
        flights: Timeline::default(),
        counts: PathCounts::default(),
    };
    let mut stalls = host.stalls.iter().peekable();
    let mut now = start;
    loop {
        path.deliver(receiver, now);
        let woken = match generator.poll(now) {
            Decision::Done => break,
            Decision::Send => {
                let plan = generator.take(now);
                observe(&plan);
                path.send(&plan, sizes);
                continue;
            }
            Decision::Wait(until) => until.max(now.plus(host.turn)),
        };
        now = woken;
        while let Some(&&(begin, length)) = stalls.peek() {
            if begin > now {
                break;
            }
            now = now.max(begin.plus(length));
            stalls.next();
        }
    }
    path.deliver(receiver, Nanos::MAX);
    path.counts
}

/// The path with the frames in flight and the counters.
struct VirtualPath {
    chain: Chain,
    /// stamp data of each frame, indexed by its number on the path
    stamps: Vec<FlightStamp>,
    flights: Timeline<u64>,
    counts: PathCounts,
}

impl VirtualPath {
    fn send(&mut self, plan: &FramePlan, sizes: &SizeMix) {
        let FramePlan { size, flow, sequence, tx_time } = *plan;
        let frame_bytes = sizes.shares()[size].frame_bytes;
        self.chain.push(Passing::new(self.stamps.len() as u64, frame_bytes.into(), tx_time));
        self.stamps.push(FlightStamp { flow, sequence, tx_time, frame_bytes });
        self.collect();
    }

    fn collect(&mut self) {
        for outcome in self.chain.decided() {
            match outcome {
                Outcome::Lost(..) => self.counts.dropped_frames += 1,
                Outcome::Leaves(frame) => {
                    self.counts.copied_frames += u64::from(frame.marks.copy);
                    self.flights.insert(frame.at, frame.id);
                }
            }
        }
    }

    fn deliver(&mut self, receiver: &mut Receiver, now: Nanos) {
        self.chain.advance(now);
        self.collect();
        while let Some((at, id)) = self.flights.pop(now) {
            let place = usize::try_from(id).unwrap_or(usize::MAX);
            let FlightStamp { flow, sequence, tx_time, frame_bytes } = self.stamps[place];
            let stamp = Stamp { tag: 0, flow, sequence, tx_time_ns: tx_time.0 };
            receiver.account(Inspection::Ours(stamp), usize::from(frame_bytes - FCS_BYTES), at);
        }
    }
}
