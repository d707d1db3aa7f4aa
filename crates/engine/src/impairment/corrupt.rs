//! Bit errors.

use super::{Chance, Impairment, Marks, Onward, Passing};

/// Inverts one bit of each frame selected with a fixed probability; all bits are equally likely.
#[derive(Debug, Clone)]
pub struct Corrupt(pub Chance);

/// Length of the FCS, which the sending NIC computes, so that a stage cannot corrupt its bits (bytes).
const FCS_BYTES: u32 = 4;

impl Impairment for Corrupt {
    fn take(&mut self, frame: Passing, onward: &mut Onward) {
        if frame.spared || !self.0.draw(&frame) {
            return onward.pass(frame);
        }
        let bits = frame.frame_bytes.saturating_sub(FCS_BYTES).max(1).saturating_mul(8);
        let marks = Marks { corrupted_bit: Some(self.0.number_below(&frame, bits)), ..frame.marks };
        onward.pass(Passing { marks, ..frame });
    }

    fn restart_draws(&mut self, seed: u64) {
        self.0.draw_from(seed);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::passed;
    use super::*;
    use crate::time::Nanos;

    #[test]
    fn every_bit_before_the_fcs_is_corrupted_with_equal_probability() {
        let mut stage = Corrupt(Chance::new(super::super::PARTS, 1).unwrap());
        let mut seen = [0u32; 480];
        for frame in passed(&mut stage, (0..480_000).map(|id| Passing::new(id, 64, Nanos(id)))) {
            seen[frame.marks.corrupted_bit.unwrap() as usize] += 1;
        }
        assert!(seen.iter().all(|count| (800..1_200).contains(count)), "{seen:?}");
    }
}
