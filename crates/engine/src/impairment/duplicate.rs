//! Duplication of frames.

use super::{Chance, Impairment, Marks, Onward, Passing};

/// Duplicates each frame with a fixed probability; the copy follows directly after its frame.
#[derive(Debug, Clone)]
pub struct Duplicate(pub Chance);

impl Impairment for Duplicate {
    fn take(&mut self, frame: Passing, onward: &mut Onward) {
        onward.pass(frame);
        if !frame.spared && self.0.draw(&frame) {
            onward.pass(Passing { marks: Marks { copy: true, ..frame.marks }, ..frame });
        }
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
    fn duplicate_follows_its_frame_and_is_marked() {
        let mut stage = Duplicate(Chance::new(500_000_000, 1).unwrap());
        let frames = passed(&mut stage, (0..10_000).map(|id| Passing::new(id, 64, Nanos(id))));
        let copies: Vec<_> = frames.iter().enumerate().filter(|(_, frame)| frame.marks.copy).collect();
        assert!((4_800..5_200).contains(&copies.len()), "{}", copies.len());
        for (place, copy) in copies {
            assert_eq!((frames[place - 1].id, frames[place - 1].at), (copy.id, copy.at));
        }
    }
}
