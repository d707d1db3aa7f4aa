//! Reference devices of known behaviour: what a system under test does to each frame, as pure functions of time.
//!
//! They serve simulations and a real forwarder alike: the caller holds the frame until the time that the device gave.

mod bucket;
mod chance;
mod stall;

use crate::time::Nanos;

pub use bucket::TokenBucket;
pub use chance::{RandomDuplicate, RandomExtraDelay, RandomLoss, PARTS};
pub use stall::{EndlessStalls, Stalls};

/// What becomes of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is dropped.
    Dropped,
    /// It leaves at this time.
    Forwarded(Nanos),
    /// Two copies of it leave, at these times.
    Duplicated(Nanos, Nanos),
}

/// Something that frames pass through.
pub trait Device {
    /// Decide what becomes of a frame of `frame_bytes` (with FCS) that arrives at `now`, no earlier than the one before.
    fn push(&mut self, frame_bytes: u16, now: Nanos) -> Fate;

    /// This device and `next` behind it. `next` sees frames in the order of arrival here, not of leaving: put devices
    /// that reorder last.
    fn then<D: Device>(self, next: D) -> Chain<Self, D>
    where
        Self: Sized,
    {
        Chain { first: self, second: next }
    }
}

/// A wire: every frame leaves when it arrives.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wire;

impl Device for Wire {
    fn push(&mut self, _frame_bytes: u16, now: Nanos) -> Fate {
        Fate::Forwarded(now)
    }
}

/// The same delay for every frame.
#[derive(Debug, Clone, Copy)]
pub struct FixedDelay(pub Nanos);

impl Device for FixedDelay {
    fn push(&mut self, _frame_bytes: u16, now: Nanos) -> Fate {
        Fate::Forwarded(now.plus(self.0))
    }
}

/// Two devices, one behind the other.
#[derive(Debug, Clone)]
pub struct Chain<A, B> {
    first: A,
    second: B,
}

impl<A: Device, B: Device> Device for Chain<A, B> {
    fn push(&mut self, frame_bytes: u16, now: Nanos) -> Fate {
        let at = match self.first.push(frame_bytes, now) {
            Fate::Dropped => return Fate::Dropped,
            Fate::Forwarded(at) => return self.second.push(frame_bytes, at),
            Fate::Duplicated(at, copy_at) => (at, copy_at),
        };
        match (self.second.push(frame_bytes, at.0), self.second.push(frame_bytes, at.1)) {
            (Fate::Dropped, fate) | (fate, Fate::Dropped) => fate,
            // More than two copies are cut to two.
            (
                Fate::Forwarded(at) | Fate::Duplicated(at, _),
                Fate::Forwarded(copy_at) | Fate::Duplicated(copy_at, _),
            ) => Fate::Duplicated(at, copy_at),
        }
    }
}
