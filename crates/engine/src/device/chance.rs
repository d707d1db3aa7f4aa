//! Seeded chance: loss, copies and reordering of known ratio.

use super::{Device, Fate};
use crate::error::EngineError;
use crate::random::Random;
use crate::time::Nanos;

/// Ratios are given in parts of this.
pub const PARTS: u32 = 1_000_000_000;

/// Drops frames independently with a fixed ratio.
#[derive(Debug, Clone)]
pub struct RandomLoss(Chance);

/// Doubles frames independently with a fixed ratio; both copies leave at once.
#[derive(Debug, Clone)]
pub struct RandomDuplicate(Chance);

/// Holds frames back independently with a fixed ratio, so that others overtake them.
#[derive(Debug, Clone)]
pub struct RandomExtraDelay {
    chance: Chance,
    delay: Nanos,
}

impl RandomLoss {
    /// Lose `ratio` parts in [`PARTS`], as `seed` draws them.
    pub fn new(ratio: u32, seed: u64) -> Result<Self, EngineError> {
        Chance::new(ratio, seed).map(Self)
    }
}

impl RandomDuplicate {
    /// Double `ratio` parts in [`PARTS`], as `seed` draws them.
    pub fn new(ratio: u32, seed: u64) -> Result<Self, EngineError> {
        Chance::new(ratio, seed).map(Self)
    }
}

impl RandomExtraDelay {
    /// Hold `ratio` parts in [`PARTS`] back by `delay`, as `seed` draws them.
    pub fn new(ratio: u32, delay: Nanos, seed: u64) -> Result<Self, EngineError> {
        Ok(Self { chance: Chance::new(ratio, seed)?, delay })
    }
}

impl Device for RandomLoss {
    fn push(&mut self, _frame_bytes: u16, now: Nanos) -> Fate {
        if self.0.draw() {
            Fate::Dropped
        } else {
            Fate::Forwarded(now)
        }
    }
}

impl Device for RandomDuplicate {
    fn push(&mut self, _frame_bytes: u16, now: Nanos) -> Fate {
        if self.0.draw() {
            Fate::Duplicated(now, now)
        } else {
            Fate::Forwarded(now)
        }
    }
}

impl Device for RandomExtraDelay {
    fn push(&mut self, _frame_bytes: u16, now: Nanos) -> Fate {
        Fate::Forwarded(if self.chance.draw() { now.plus(self.delay) } else { now })
    }
}

/// Says yes with a fixed ratio.
#[derive(Debug, Clone)]
struct Chance {
    ratio: u32,
    random: Random,
}

impl Chance {
    const fn new(ratio: u32, seed: u64) -> Result<Self, EngineError> {
        if ratio > PARTS {
            let allowed = "a ratio is at most 1 000 000 000 parts in 1 000 000 000";
            return Err(EngineError::Setting { what: "ratio", seen: ratio as u64, allowed });
        }
        Ok(Self { ratio, random: Random::new(seed) })
    }

    fn draw(&mut self) -> bool {
        self.random.below(PARTS) < self.ratio
    }
}
