//! Reordering: some frames are held back, so that others overtake them.

use super::{Chance, Impairment, Onward, Passing};
use crate::time::Nanos;

/// Holds frames back independently with a fixed ratio.
#[derive(Debug, Clone)]
pub struct Reorder {
    /// Which frames.
    pub chance: Chance,
    /// How long they are held.
    pub by: Nanos,
}

impl Impairment for Reorder {
    fn take(&mut self, frame: Passing, onward: &mut Onward) {
        let held = !frame.spared && self.chance.draw(&frame);
        onward.pass(if held { frame.later(self.by) } else { frame });
    }

    fn keeps_order(&self) -> bool {
        self.by == Nanos::ZERO
    }

    fn restart_draws(&mut self, seed: u64) {
        self.chance.draw_from(seed);
    }
}
