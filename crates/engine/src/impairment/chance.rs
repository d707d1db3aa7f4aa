//! Seeded random decisions with a fixed probability.

use super::Passing;
use crate::error::EngineError;
use crate::random::{below, Draws};

/// Denominator of all ratios.
pub const PARTS: u32 = 1_000_000_000;

/// Maximum number of random numbers per frame, or per copy, in one stage.
pub const PER_FRAME: usize = Draws::LANES / 2;

/// Random numbers of a stage, indexed by frame number, so that they do not depend on the fate of other frames.
#[derive(Debug, Clone)]
pub struct FrameDraws(Draws);

impl FrameDraws {
    /// Create the random numbers of `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(Draws::new(seed))
    }

    /// Return random number `turn` (below [`PER_FRAME`]) of a frame.
    #[inline]
    pub const fn of(&self, frame: &Passing, turn: usize) -> u64 {
        let lane = if frame.marks.copy { PER_FRAME + turn } else { turn };
        self.0.at(frame.number, lane)
    }

    /// Whether random number `turn` of a frame is a hit with the probability `ratio` / [`PARTS`].
    #[inline]
    pub const fn says(&self, frame: &Passing, turn: usize, ratio: u32) -> bool {
        below(self.of(frame, turn), PARTS) < ratio
    }
}

/// Independent random decisions per frame with a fixed probability.
#[derive(Debug, Clone)]
pub struct Chance {
    ratio: u32,
    draws: FrameDraws,
}

impl Chance {
    /// Create decisions with the probability `ratio` / [`PARTS`], drawn from `seed`.
    ///
    /// # Errors
    /// Fails if the ratio is above 1.
    pub const fn new(ratio: u32, seed: u64) -> Result<Self, EngineError> {
        match checked(ratio) {
            Ok(ratio) => Ok(Self { ratio, draws: FrameDraws::new(seed) }),
            Err(error) => Err(error),
        }
    }

    /// Use `seed` for all following draws.
    pub const fn draw_from(&mut self, seed: u64) {
        self.draws = FrameDraws::new(seed);
    }

    /// Return the random decision on the frame, drawn from the frame's first number.
    #[inline]
    pub const fn draw(&self, frame: &Passing) -> bool {
        self.draws.says(frame, 0, self.ratio)
    }

    /// Return the frame's second random number, scaled to below `limit`, which must be above zero.
    #[inline]
    pub const fn number_below(&self, frame: &Passing, limit: u32) -> u32 {
        below(self.draws.of(frame, 1), limit)
    }
}

/// Return the ratio, or an error if it is above 1.
pub const fn checked(ratio: u32) -> Result<u32, EngineError> {
    if ratio > PARTS {
        let allowed = "a ratio is at most 1 000 000 000 parts in 1 000 000 000";
        return Err(EngineError::Setting { what: "ratio", seen: ratio as u64, allowed });
    }
    Ok(ratio)
}
