//! The impairments of one direction of an emulated link, and the frames held in their stages.

use iolab_engine::impairment::Chain;
use iolab_engine::Nanos;
use iolab_protocol::impairment::{Impairment, Jitter};
use iolab_protocol::wire::WireWay;
use iolab_protocol::ErrorObject;

use super::spacing::Spacing;
use crate::faults::bad_params;
use crate::held::Held;
use crate::impairments::{chain, seed_of_way, stage_seeds};

/// Minimum frame length on a line (bytes).
const SHORTEST_BYTES: usize = 64;
/// Minimum memory for the frames of a direction: room for one super-frame of each sender (bytes).
const LEAST_MEMORY: u64 = 1 << 20;
/// Maximum memory for the frames of a direction: 10 Gbit/s for 50 s (bytes).
const MOST_MEMORY: u64 = 1 << 36;
/// Maximum number of held frames, because their metadata also takes memory: two seconds at 2 million frames/s.
const MOST_FRAMES: usize = 1 << 22;
/// Minimum delay at which frames need not be read at once, because they are stamped on arrival (ns).
const LONG_DELAY_NS: u64 = 200_000;

/// The impairments of a direction: the stages and their kinds.
#[derive(Debug)]
pub struct Does {
    pub(super) chain: Chain,
    kinds: Vec<&'static str>,
    pub(super) held: Held,
    /// Spacing of frames, if a pacer is configured.
    pub(super) spacing: Option<Spacing>,
    /// Whether every frame is delayed for so long that it may be read late.
    pub(super) delays: bool,
    /// Number of the next frame.
    pub(super) number: u64,
}

impl Does {
    /// Create the impairments in `way`; each direction derives separate random seeds.
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

    /// Restart frame numbers at 0 and random draws with this seed.
    pub(super) fn restart_draws(&mut self, seed: u64, index: u64) {
        self.number = 0;
        self.chain.restart_draws(stage_seeds(&self.kinds, seed_of_way(seed, index)));
    }

    /// Return the time of the next action if no further frame arrives.
    pub(super) fn due(&self) -> Option<Nanos> {
        let decided = self.chain.due().map(|due| due.plus(self.held.shifted()));
        self.leaves().into_iter().chain(decided).min()
    }

    /// Return the stage time at `now`: it stands still while departures are shifted.
    pub(super) fn stage_time(&self, now: Nanos) -> Nanos {
        now.since(self.held.shifted())
    }

    /// If the departures are too far behind schedule to catch up, shift them; return the shift.
    pub(super) fn slip(&mut self, now: Nanos) -> Nanos {
        let Self { spacing, held, .. } = self;
        spacing.as_mut().map_or(Nanos::ZERO, |spacing| spacing.slip(held, now))
    }

    /// Return the departure time of the first decided frame.
    pub(super) fn leaves(&self) -> Option<Nanos> {
        self.spacing.as_ref().map_or_else(|| self.held.due(), |spacing| spacing.due(&self.held))
    }

    /// Return the number of frames lost in each stage, with its kind.
    pub(super) fn losses(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.kinds.iter().copied().zip(self.chain.counts().map(|count| count.lost_frames))
    }
}
