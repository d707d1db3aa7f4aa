//! Seeded chance: yes with a fixed ratio.

use crate::error::EngineError;
use crate::random::Random;

/// Ratios are given in parts of this.
pub const PARTS: u32 = 1_000_000_000;

/// Says yes independently with a fixed ratio.
#[derive(Debug, Clone)]
pub struct Chance {
    ratio: u32,
    random: Random,
}

impl Chance {
    /// Say yes for `ratio` parts in [`PARTS`], as `seed` draws them.
    ///
    /// # Errors
    /// When the ratio is above 1.
    pub const fn new(ratio: u32, seed: u64) -> Result<Self, EngineError> {
        match checked(ratio) {
            Ok(ratio) => Ok(Self { ratio, random: Random::new(seed) }),
            Err(error) => Err(error),
        }
    }

    /// Yes or no.
    #[inline]
    pub fn draw(&mut self) -> bool {
        self.random.below(PARTS) < self.ratio
    }
}

/// The ratio, which is at most 1.
pub const fn checked(ratio: u32) -> Result<u32, EngineError> {
    if ratio > PARTS {
        let allowed = "a ratio is at most 1 000 000 000 parts in 1 000 000 000";
        return Err(EngineError::Setting { what: "ratio", seen: ratio as u64, allowed });
    }
    Ok(ratio)
}
