//! Impairments of a path or a reference device, as small stages in a chain. A stage receives frames in arrival order
//! with their times, and has a seed; it reads no clock and stores no bytes. The same seed and frames give the same
//! decisions in real and in virtual time. Random numbers depend on the frame number only, not on the fate of earlier
//! frames.
//!
//! Time is local to a stage: a stage after a delay receives a frame with its time of departure from the delay, which
//! may be in the future.

mod catch_up;
mod chain;
mod chance;
mod codel;
mod corrupt;
mod delay;
mod duplicate;
mod line;
mod loss;
mod normal;
mod paced;
mod queue;
mod reorder;
mod stall;
mod timeline;
mod trace;

use crate::time::Nanos;

pub use catch_up::CatchUp;
pub use chain::{Chain, Outcome, StageCounts};
pub use chance::{Chance, PARTS};
pub use codel::{CodelLine, CodelTarget};
pub use corrupt::Corrupt;
pub use delay::{Delay, Jitter, Order as DelayOrder};
pub use duplicate::Duplicate;
pub use line::{Line, LineClock};
pub use loss::{GilbertElliott, Loss};
pub use paced::{PacedClass, PacedClasses};
pub use queue::{Limit as QueueLimit, Queue};
pub use reorder::Reorder;
pub use stall::{PeriodicStalls, Stalls};
pub use timeline::Timeline;
pub use trace::{DeliveryTrace, RateTrace};

/// A frame on its path through a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passing {
    /// Identifier chosen by the caller; copies have the same identifier.
    pub id: u64,
    /// Position among the arrived frames, which selects the random numbers; copies have the same number.
    pub number: u64,
    /// Whether the frame is exempt from random impairments and full queues: it is not lost, corrupted, duplicated or
    /// delayed by them.
    pub spared: bool,
    /// Length with FCS (bytes).
    pub frame_bytes: u32,
    /// Arrival time at the next stage.
    pub at: Nanos,
    /// Whether a queue may mark the frame instead of dropping it: its IP header has an ECT codepoint (RFC 3168).
    pub ecn_capable: bool,
    /// Index of the pacer class of the frame, if any.
    pub class: Option<u16>,
    /// Transmission time at the pace of its class; 0 if no pacer spaced the frame (ns).
    pub takes_ns: u32,
    /// Changes that stages have applied to the frame.
    pub marks: Marks,
}

/// Changes to be applied to the bytes of a frame that leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Marks {
    /// Whether the ECN codepoint CE (congestion experienced) is set (RFC 3168).
    pub congestion: bool,
    /// Index of the bit that is inverted, from the first bit of the frame.
    pub corrupted_bit: Option<u32>,
    /// Whether the frame is a copy.
    pub copy: bool,
}

impl Passing {
    /// Create an unchanged frame with number `id` that arrives at `at`.
    pub fn new(id: u64, frame_bytes: u32, at: Nanos) -> Self {
        Self {
            id,
            number: id,
            spared: false,
            frame_bytes,
            at,
            ecn_capable: false,
            class: None,
            takes_ns: 0,
            marks: Marks::default(),
        }
    }

    /// Return the frame delayed by `span`.
    #[must_use]
    pub fn later(self, span: Nanos) -> Self {
        Self { at: self.at.plus(span), ..self }
    }

    /// Return the frame with its time set to `at`.
    #[must_use]
    pub fn at(self, at: Nanos) -> Self {
        Self { at, ..self }
    }
}

/// The output of a stage: the frames on which it has decided.
#[derive(Debug, Default)]
pub struct Onward {
    decided: Vec<(Passing, bool)>,
}

impl Onward {
    /// Forward the frame at its time.
    #[inline]
    pub fn pass(&mut self, frame: Passing) {
        self.decided.push((frame, true));
    }

    /// Drop the frame.
    #[inline]
    pub fn lose(&mut self, frame: Passing) {
        self.decided.push((frame, false));
    }
}

/// One impairment stage.
pub trait Impairment: std::fmt::Debug + Send {
    /// Accept an arriving frame, in order of arrival. The stage decides on it now, or stores it for
    /// [`Impairment::give`].
    fn take(&mut self, frame: Passing, onward: &mut Onward);

    /// Return the time of the next decision on a stored frame.
    fn due(&self) -> Option<Nanos> {
        None
    }

    /// Decide on the frames due at `now`. All frames that arrived by `now` must have been passed to `take`.
    fn give(&mut self, _now: Nanos, _onward: &mut Onward) {}

    /// Whether frames leave the stage in arrival order.
    fn keeps_order(&self) -> bool {
        true
    }

    /// Restart the random decisions with `seed`. Lines and stalls keep their state.
    fn restart_draws(&mut self, _seed: u64) {}
}

#[cfg(test)]
mod testing {
    use super::*;

    /// Return the departure time of a frame of 64 B that arrives at `at`; none if the frame is lost.
    pub fn fate(stage: &mut impl Impairment, at: u64) -> Option<u64> {
        let mut onward = Onward::default();
        stage.take(Passing::new(at, 64, Nanos(at)), &mut onward);
        let [(frame, passed)] = onward.decided[..] else { panic!("one decision: {:?}", onward.decided) };
        passed.then_some(frame.at.0)
    }

    /// Return the frames of `frames` that pass a stage which decides on them at once.
    pub fn passed(stage: &mut impl Impairment, frames: impl IntoIterator<Item = Passing>) -> Vec<Passing> {
        let mut onward = Onward::default();
        frames.into_iter().for_each(|frame| stage.take(frame, &mut onward));
        onward.decided.into_iter().filter_map(|(frame, passed)| passed.then_some(frame)).collect()
    }
}
