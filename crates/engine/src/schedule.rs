//! Which frame comes next: its size from a mix, its flow from a list; in turn, or drawn from a seed.

use iolab_wire::SizeMix;

use crate::error::EngineError;
use crate::random::Random;

const FLOW_LIMIT: u32 = 1 << 16;

/// In which order sizes and flows come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// One after the other; sizes spread evenly over each round of the mix.
    Turns,
    /// Drawn independently for every frame, sizes by their weights; the same seed gives the same frames.
    Seeded(u64),
}

/// The sequence of sizes and flows.
#[derive(Debug, Clone)]
pub struct Schedule {
    pattern: Box<[u8]>,
    pattern_frames: u32,
    flow_count: u32,
    size_turn: usize,
    flow_turn: u32,
    sizes: Option<Random>,
    flows: Option<Random>,
}

impl Schedule {
    /// Frames of `sizes` over `flow_count` flows (1 to 65536).
    pub fn new(
        sizes: &SizeMix,
        size_order: Order,
        flow_count: u32,
        flow_order: Order,
    ) -> Result<Self, EngineError> {
        if !(1..=FLOW_LIMIT).contains(&flow_count) {
            return Err(EngineError::FlowCount { seen: flow_count });
        }
        let random = |order| match order {
            Order::Turns => None,
            Order::Seeded(seed) => Some(Random::new(seed)),
        };
        let pattern = sizes.pattern();
        Ok(Self {
            // A mix is at most 4096 frames long.
            pattern_frames: u32::try_from(pattern.len()).unwrap_or(u32::MAX),
            pattern,
            flow_count,
            size_turn: 0,
            flow_turn: 0,
            sizes: random(size_order),
            flows: random(flow_order),
        })
    }

    /// The number of flows.
    pub const fn flow_count(&self) -> u32 {
        self.flow_count
    }

    /// The size (its index in the mix) and the flow of the next frame.
    #[inline]
    #[expect(
        clippy::should_implement_trait,
        reason = "the sequence has no end, so there is no Option to return"
    )]
    #[expect(clippy::cast_possible_truncation, reason = "a flow is below 65536")]
    pub fn next(&mut self) -> (usize, u16) {
        let size = match &mut self.sizes {
            None => {
                let turn = self.size_turn;
                self.size_turn = if turn + 1 == self.pattern.len() { 0 } else { turn + 1 };
                turn
            }
            Some(random) => random.below(self.pattern_frames) as usize,
        };
        let flow = match &mut self.flows {
            None => {
                let turn = self.flow_turn;
                self.flow_turn = if turn + 1 == self.flow_count { 0 } else { turn + 1 };
                turn
            }
            Some(random) => random.below(self.flow_count),
        };
        (usize::from(self.pattern[size]), flow as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(mut schedule: Schedule, frames: usize) -> ([usize; 3], Vec<usize>) {
        let mut sizes = [0; 3];
        let mut flows = vec![0; schedule.flow_count() as usize];
        for _ in 0..frames {
            let (size, flow) = schedule.next();
            sizes[size] += 1;
            flows[usize::from(flow)] += 1;
        }
        (sizes, flows)
    }

    fn imix(size_order: Order, flow_order: Order) -> Schedule {
        Schedule::new(&SizeMix::simple_imix(), size_order, 10_000, flow_order).expect("a schedule")
    }

    #[test]
    fn in_turns_every_flow_and_every_weight_comes_exactly() {
        let (sizes, flows) = counts(imix(Order::Turns, Order::Turns), 120_000);
        assert_eq!(sizes, [70_000, 40_000, 10_000]);
        assert!(flows.iter().all(|&frames| frames == 12));
    }

    #[test]
    fn drawn_sizes_follow_the_weights_and_the_seed() {
        let (sizes, flows) = counts(imix(Order::Seeded(1), Order::Seeded(2)), 120_000);
        assert!(sizes.iter().zip([70_000, 40_000, 10_000]).all(|(&seen, meant)| seen.abs_diff(meant) < 700));
        assert!(flows.iter().all(|&frames| frames < 40));
        assert_eq!(counts(imix(Order::Seeded(1), Order::Seeded(2)), 120_000).0, sizes);
        assert_ne!(counts(imix(Order::Seeded(9), Order::Seeded(2)), 120_000).0, sizes);
    }

    #[test]
    fn no_flow_and_too_many_flows_are_refused() {
        for seen in [0, 65_537] {
            let refused = Schedule::new(&SizeMix::simple_imix(), Order::Turns, seen, Order::Turns);
            assert_eq!(refused.map(|_| ()), Err(EngineError::FlowCount { seen }));
        }
    }
}
