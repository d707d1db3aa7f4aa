//! A trial in virtual time: a generator, a device and a receiver, on a host that may stall. The same arguments give the
//! same trial. The code that decides is the one that runs in real time; only the clock and the wire are made up.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use iolab_frame::{Inspection, SizeMix, Stamp, FCS_BYTES};

use crate::device::{Device, Fate};
use crate::generator::{FramePlan, Generator};
use crate::pacer::Decision;
use crate::receiver::Receiver;
use crate::time::Nanos;

/// The machine that the generator runs on.
#[derive(Debug, Clone, Default)]
pub struct Host {
    /// What a turn of the sending loop takes: no two bursts leave closer than this.
    pub turn: Nanos,
    /// Begins and lengths of the times when the sending loop does not run, in order and apart.
    pub stalls: Vec<(Nanos, Nanos)>,
}

/// What the virtual wire did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WireCounts {
    /// Frames that the device dropped.
    pub dropped_frames: u64,
    /// Second copies that the device made.
    pub copied_frames: u64,
}

/// A frame under way: when it arrives, after how many others it was sent, what it carries.
type Flight = Reverse<(Nanos, u64, FlightStamp)>;

/// Stamp and length of a frame under way, in an order that only breaks ties.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct FlightStamp {
    flow: u16,
    sequence: u64,
    tx_time: Nanos,
    frame_bytes: u16,
}

/// Run `generator` from `start` to its end, its frames of `sizes` through `device` to `receiver`, until nothing is under
/// way. `observe` gets every frame sent.
pub fn simulate(
    generator: &mut Generator,
    sizes: &SizeMix,
    device: &mut impl Device,
    receiver: &mut Receiver,
    start: Nanos,
    host: &Host,
    mut observe: impl FnMut(&FramePlan),
) -> WireCounts {
    let mut wire = VirtualWire { flights: BinaryHeap::new(), counts: WireCounts::default(), sent: 0 };
    let mut stalls = host.stalls.iter().peekable();
    let mut now = start;
    loop {
        wire.deliver(receiver, now);
        let woken = match generator.poll(now) {
            Decision::Done => break,
            Decision::Send => {
                let plan = generator.take(now);
                observe(&plan);
                wire.send(&plan, sizes, device);
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
    wire.deliver(receiver, Nanos::MAX);
    wire.counts
}

/// Frames under way, and what became of the others.
struct VirtualWire {
    flights: BinaryHeap<Flight>,
    counts: WireCounts,
    sent: u64,
}

impl VirtualWire {
    fn send(&mut self, plan: &FramePlan, sizes: &SizeMix, device: &mut impl Device) {
        let FramePlan { size, flow, sequence, tx_time } = *plan;
        let frame_bytes = sizes.shares()[size].frame_bytes;
        let stamp = FlightStamp { flow, sequence, tx_time, frame_bytes };
        match device.push(frame_bytes, tx_time) {
            Fate::Dropped => self.counts.dropped_frames += 1,
            Fate::Forwarded(at) => self.fly(at, stamp),
            Fate::Duplicated(at, copy_at) => {
                self.counts.copied_frames += 1;
                self.fly(at, stamp);
                self.fly(copy_at, stamp);
            }
        }
    }

    fn fly(&mut self, at: Nanos, stamp: FlightStamp) {
        self.flights.push(Reverse((at, self.sent, stamp)));
        self.sent += 1;
    }

    fn deliver(&mut self, receiver: &mut Receiver, now: Nanos) {
        while self.flights.peek().is_some_and(|Reverse((at, ..))| *at <= now) {
            let Some(Reverse((at, _, flight))) = self.flights.pop() else { break };
            let FlightStamp { flow, sequence, tx_time, frame_bytes } = flight;
            let stamp = Stamp { tag: 0, flow, sequence, tx_time_ns: tx_time.0 };
            receiver.account(Inspection::Ours(stamp), usize::from(frame_bytes - FCS_BYTES), at);
        }
    }
}
