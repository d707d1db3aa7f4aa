//! Impairments: what a path or a reference device does to frames, as small stages in a chain. A stage is given frames in the
//! order in which they arrive, with the time of each, and its seed; it reads no clock and holds no bytes. The same seed and
//! the same frames give the same decisions, in real and in virtual time. Chance is drawn by the number of a frame, not in turn:
//! what became of the frames before makes no difference.
//!
//! Time is that of the stage: one behind a delay is given a frame when the delay lets it go on, which may be later than now.

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

/// A frame on its way through a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passing {
    /// The caller's name for it; copies have the same.
    pub id: u64,
    /// Its place among the frames that arrived, which chance is drawn by; copies have the same.
    pub number: u64,
    /// Whether chance and full queues spare it: it is neither lost, damaged, copied nor held back by them.
    pub spared: bool,
    /// Length with FCS.
    pub frame_bytes: u32,
    /// When it is at the next stage.
    pub at: Nanos,
    /// Whether a queue may mark it in place of dropping it: ECT in its IP header (RFC 3168).
    pub ecn_capable: bool,
    /// Which of the classes of a pacer it belongs to, by their places.
    pub class: Option<u16>,
    /// What it takes at the pace that a pacer gave its class; 0: none spaced it (ns).
    pub takes_ns: u32,
    /// What was done to it.
    pub marks: Marks,
}

/// What is to be done to the bytes of a frame that leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Marks {
    /// Congestion experienced is set in its IP header (RFC 3168).
    pub congestion: bool,
    /// This bit of it is inverted, counted from its first.
    pub corrupted_bit: Option<u32>,
    /// It is a copy of another.
    pub copy: bool,
}

impl Passing {
    /// Frame number `id` that nothing was done to, arriving at `at`.
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

    /// The same, so much later.
    #[must_use]
    pub fn later(self, span: Nanos) -> Self {
        Self { at: self.at.plus(span), ..self }
    }

    /// The same, at another time.
    #[must_use]
    pub fn at(self, at: Nanos) -> Self {
        Self { at, ..self }
    }
}

/// Where a stage puts the frames that it has decided on.
#[derive(Debug, Default)]
pub struct Onward {
    decided: Vec<(Passing, bool)>,
}

impl Onward {
    /// The frame goes on, at its time.
    #[inline]
    pub fn pass(&mut self, frame: Passing) {
        self.decided.push((frame, true));
    }

    /// The frame is lost here.
    #[inline]
    pub fn lose(&mut self, frame: Passing) {
        self.decided.push((frame, false));
    }
}

/// One stage.
pub trait Impairment: std::fmt::Debug + Send {
    /// A frame arrives, no earlier than the one before. It is decided on now, or kept for [`Impairment::give`].
    fn take(&mut self, frame: Passing, onward: &mut Onward);

    /// When a frame that is kept is decided on next.
    fn due(&self) -> Option<Nanos> {
        None
    }

    /// Decide on what is due at `now`. All that arrived by then has been taken.
    fn give(&mut self, _now: Nanos, _onward: &mut Onward) {}

    /// Whether frames go on in the order in which they arrive.
    fn keeps_order(&self) -> bool {
        true
    }

    /// Decide on the frames to come as on the first that ever came, by draws from `seed`. Lines and stalls go on as they are.
    fn restart_draws(&mut self, _seed: u64) {}
}

#[cfg(test)]
mod testing {
    use super::*;

    /// When a frame of 64 B leaves that arrives at `at`; none when it is lost.
    pub fn fate(stage: &mut impl Impairment, at: u64) -> Option<u64> {
        let mut onward = Onward::default();
        stage.take(Passing::new(at, 64, Nanos(at)), &mut onward);
        let [(frame, passed)] = onward.decided[..] else { panic!("one decision: {:?}", onward.decided) };
        passed.then_some(frame.at.0)
    }

    /// The passed frames of `frames` that a stage decides on at once.
    pub fn passed(stage: &mut impl Impairment, frames: impl IntoIterator<Item = Passing>) -> Vec<Passing> {
        let mut onward = Onward::default();
        frames.into_iter().for_each(|frame| stage.take(frame, &mut onward));
        onward.decided.into_iter().filter_map(|(frame, passed)| passed.then_some(frame)).collect()
    }
}
