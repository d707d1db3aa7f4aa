//! What one way of a wire does to frames: its stages, and the frames that stay in them.

use iolab_engine::impairment::Chain;
use iolab_engine::Nanos;
use iolab_protocol::impairment::{Impairment, Jitter};
use iolab_protocol::wire::WireWay;
use iolab_protocol::ErrorObject;

use super::spacing::Spacing;
use crate::faults::bad_params;
use crate::held::Held;
use crate::impairments::{chain, seed_of_way, stage_seeds};

/// The shortest frame of a line (bytes).
const SHORTEST_BYTES: usize = 64;
/// What the frames of a way may take: less has no room for one super-frame of each sender (bytes).
const LEAST_MEMORY: u64 = 1 << 20;
/// More needs no wire of any lab: 10 Gbit/s for 50 s (bytes).
const MOST_MEMORY: u64 = 1 << 36;
/// Two seconds at 2 million frames a second: what is kept of each beside its bytes takes memory, too.
const MOST_FRAMES: usize = 1 << 22;
/// Frames that stay as long at least need not be read at once: they are stamped when they come (ns).
const LONG_DELAY_NS: u64 = 200_000;

/// What a way does to frames: the stages, and what each is called.
#[derive(Debug)]
pub struct Does {
    pub(super) chain: Chain,
    kinds: Vec<&'static str>,
    pub(super) held: Held,
    /// Where it spaces its frames.
    pub(super) spacing: Option<Spacing>,
    /// Whether every frame stays for a while.
    pub(super) delays: bool,
    /// The number of the next frame.
    pub(super) number: u64,
}

impl Does {
    /// What `way` says; the two ways draw from parts of the seed of their own.
    pub fn new(way: &WireWay, index: u64, start: Nanos) -> Result<Self, ErrorObject> {
        let kinds = way.impairments.iter().map(iolab_protocol::impairment::Impairment::kind).collect();
        let chain = chain(&way.impairments, seed_of_way(way.seed, index), start)?;
        if !(LEAST_MEMORY..=MOST_MEMORY).contains(&way.memory_bytes) {
            return Err(bad_params("memory_bytes", &format!("{LEAST_MEMORY} to {MOST_MEMORY} bytes")));
        }
        let memory_bytes = usize::try_from(way.memory_bytes).unwrap_or(usize::MAX);
        let mut held = Held::new((memory_bytes / SHORTEST_BYTES).min(MOST_FRAMES), memory_bytes);
        held.prepare();
        let spacing = Spacing::of(&way.impairments)?;
        let long = |stage: &Impairment| matches!(stage, Impairment::Delay { delay_ns, jitter: Jitter::None, .. } if *delay_ns >= LONG_DELAY_NS);
        let delays = way.impairments.iter().any(long);
        Ok(Self { chain, kinds, held, spacing, delays, number: 0 })
    }

    /// Number the frames to come from 0, and draw chance from this seed.
    pub(super) fn restart_draws(&mut self, seed: u64, index: u64) {
        self.number = 0;
        self.chain.restart_draws(stage_seeds(&self.kinds, seed_of_way(seed, index)));
    }

    /// When it has something to do next, if nothing comes.
    pub(super) fn due(&self) -> Option<Nanos> {
        let decided = self.chain.due().map(|due| due.plus(self.held.shifted()));
        self.leaves().into_iter().chain(decided).min()
    }

    /// The time of the stages at `now`: it stands still while the times of frames are shifted.
    pub(super) fn stage_time(&self, now: Nanos) -> Nanos {
        now.since(self.held.shifted())
    }

    /// Shift the times of frames where they are later than may be caught up; by how much.
    pub(super) fn slip(&mut self, now: Nanos) -> Nanos {
        let Self { spacing, held, .. } = self;
        spacing.as_mut().map_or(Nanos::ZERO, |spacing| spacing.slip(held, now))
    }

    /// When the first of the frames that are decided on leaves.
    pub(super) fn leaves(&self) -> Option<Nanos> {
        self.spacing.as_ref().map_or_else(|| self.held.due(), |spacing| spacing.due(&self.held))
    }

    /// Frames that its stages lost, by their kinds.
    pub(super) fn losses(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.kinds.iter().copied().zip(self.chain.counts().map(|count| count.lost_frames))
    }
}
