//! Seeded chance: yes with a fixed ratio.

use super::Passing;
use crate::error::EngineError;
use crate::random::{below, Draws};

/// Ratios are given in parts of this.
pub const PARTS: u32 = 1_000_000_000;

/// Numbers drawn for one frame, or for one copy of it, by one stage.
pub const PER_FRAME: usize = Draws::LANES / 2;

/// What a stage draws for each frame: by the frame's number, so that what became of other frames makes no difference.
#[derive(Debug, Clone)]
pub struct FrameDraws(Draws);

impl FrameDraws {
    /// As `seed` says.
    pub const fn new(seed: u64) -> Self {
        Self(Draws::new(seed))
    }

    /// Number `turn`, below [`PER_FRAME`], of those drawn for a frame.
    #[inline]
    pub const fn of(&self, frame: &Passing, turn: usize) -> u64 {
        let lane = if frame.marks.copy { PER_FRAME + turn } else { turn };
        self.0.at(frame.number, lane)
    }

    /// Whether number `turn` of a frame says yes, with a ratio in parts of [`PARTS`].
    #[inline]
    pub const fn says(&self, frame: &Passing, turn: usize, ratio: u32) -> bool {
        below(self.of(frame, turn), PARTS) < ratio
    }
}

/// Says yes to frames independently with a fixed ratio.
#[derive(Debug, Clone)]
pub struct Chance {
    ratio: u32,
    draws: FrameDraws,
}

impl Chance {
    /// Say yes for `ratio` parts in [`PARTS`], as `seed` draws them.
    ///
    /// # Errors
    /// When the ratio is above 1.
    pub const fn new(ratio: u32, seed: u64) -> Result<Self, EngineError> {
        match checked(ratio) {
            Ok(ratio) => Ok(Self { ratio, draws: FrameDraws::new(seed) }),
            Err(error) => Err(error),
        }
    }

    /// Draw from `seed` from now on.
    pub const fn draw_from(&mut self, seed: u64) {
        self.draws = FrameDraws::new(seed);
    }

    /// Yes or no, by the first number of the frame.
    #[inline]
    pub const fn draw(&self, frame: &Passing) -> bool {
        self.draws.says(frame, 0, self.ratio)
    }

    /// The second number of the frame, below `limit`, which is above zero.
    #[inline]
    pub const fn number_below(&self, frame: &Passing, limit: u32) -> u32 {
        below(self.draws.of(frame, 1), limit)
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
