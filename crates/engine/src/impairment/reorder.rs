//! Reordering: some frames are delayed, so that others overtake them.

use super::{Chance, Impairment, Onward, Passing};
use crate::time::Nanos;

/// Delays frames selected independently with a fixed probability.
#[derive(Debug, Clone)]
pub struct Reorder {
    /// Random selection of the frames.
    pub chance: Chance,
    /// Delay of a selected frame.
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
