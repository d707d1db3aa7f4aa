//! The order of frames: sizes from a mix and flows from a list, round-robin or random from a seed.

use std::sync::Arc;

use iolab_frame::{SizeMix, FLOW_LIMIT};

use crate::error::EngineError;
use crate::random::Random;
use crate::share::Share;

/// The order of sizes or flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Round-robin; sizes are spread evenly over each round of the mix.
    Turns,
    /// Random and independent per frame, sizes by their weights; the same seed gives the same frames.
    Seeded(u64),
}

/// The sequence of sizes and flows.
#[derive(Debug, Clone)]
pub struct Schedule {
    pattern: Box<[u8]>,
    pattern_frames: u32,
    flow_count: u32,
    size_turn: u32,
    flow_turn: u32,
    share: Share,
    size_step: u32,
    sizes: Option<Random>,
    flows: Option<Random>,
    /// Flow of each frame of a recording, in recorded order.
    recorded: Option<Arc<[u32]>>,
}

impl Schedule {
    /// Create a sequence of frames of `sizes` over `flow_count` flows (1 to 2^20).
    pub fn new(
        sizes: &SizeMix,
        size_order: Order,
        flow_count: u32,
        flow_order: Order,
    ) -> Result<Self, EngineError> {
        Self::shared(sizes, size_order, flow_count, flow_order, Share::WHOLE)
    }

    /// Create the sequence of one of several senders. Each flow has one sender, which numbers its frames, so
    /// `flow_count` must be a multiple of the number of senders. In round-robin order, all senders together send the
    /// frames of [`Self::new`].
    pub fn shared(
        sizes: &SizeMix,
        size_order: Order,
        flow_count: u32,
        flow_order: Order,
        share: Share,
    ) -> Result<Self, EngineError> {
        if !(1..=FLOW_LIMIT).contains(&flow_count) {
            return Err(EngineError::FlowCount { seen: flow_count });
        }
        if share.place >= share.of || flow_count % share.of != 0 {
            return Err(EngineError::Share { place: share.place, of: share.of, flows: flow_count });
        }
        let random = |order| match order {
            Order::Turns => None,
            Order::Seeded(seed) => Some(Random::new(seed ^ u64::from(share.place) << 32)),
        };
        let pattern = sizes.pattern();
        // A mix has at most 4096 frames.
        let pattern_frames = u32::try_from(pattern.len()).unwrap_or(u32::MAX);
        Ok(Self {
            pattern_frames,
            pattern,
            flow_count,
            size_turn: share.place % pattern_frames,
            flow_turn: share.place,
            share,
            size_step: share.of % pattern_frames,
            sizes: random(size_order),
            flows: random(flow_order),
            recorded: None,
        })
    }

    /// Create the repeating sequence of a recording, with one size index per frame; `flows` has the flow of each
    /// frame, below `flow_count`.
    pub fn recorded(flows: Arc<[u32]>, flow_count: u32) -> Result<Self, EngineError> {
        let frames = u32::try_from(flows.len()).unwrap_or(u32::MAX);
        if !(1..=FLOW_LIMIT).contains(&flow_count) || flows.iter().any(|&flow| flow >= flow_count) {
            return Err(EngineError::FlowCount { seen: flow_count });
        }
        Ok(Self {
            pattern: Box::default(),
            pattern_frames: frames,
            flow_count,
            size_turn: 0,
            flow_turn: 0,
            share: Share::WHOLE,
            size_step: 1,
            sizes: None,
            flows: None,
            recorded: Some(flows),
        })
    }

    /// Return the share of the sender.
    pub const fn share(&self) -> Share {
        self.share
    }

    /// Return the number of flows, including those of other senders.
    pub const fn flow_count(&self) -> u32 {
        self.flow_count
    }

    /// Return the size index and the flow of the next frame.
    #[inline]
    #[expect(
        clippy::should_implement_trait,
        reason = "the sequence has no end, so there is no Option to return"
    )]
    pub fn next(&mut self) -> (usize, u32) {
        let size = match &mut self.sizes {
            None => {
                let turn = self.size_turn;
                self.size_turn = turn + self.size_step;
                if self.size_turn >= self.pattern_frames {
                    self.size_turn -= self.pattern_frames;
                }
                turn
            }
            Some(random) => random.below(self.pattern_frames),
        };
        if let Some(flows) = &self.recorded {
            return (size as usize, flows[size as usize]);
        }
        let flow = match &mut self.flows {
            None => {
                let turn = self.flow_turn;
                // The number of flows is a multiple of the step, so the turn returns to its first value.
                self.flow_turn = turn + self.share.of;
                if self.flow_turn >= self.flow_count {
                    self.flow_turn = self.share.place;
                }
                turn
            }
            Some(random) => self.share.place + self.share.of * random.below(self.flow_count / self.share.of),
        };
        (usize::from(self.pattern[size as usize]), flow)
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
            flows[flow as usize] += 1;
        }
        (sizes, flows)
    }

    fn imix(size_order: Order, flow_order: Order) -> Schedule {
        Schedule::new(&SizeMix::simple_imix(), size_order, 10_000, flow_order).expect("a schedule")
    }

    #[test]
    fn in_round_robin_order_every_flow_and_size_has_its_exact_share() {
        let (sizes, flows) = counts(imix(Order::Turns, Order::Turns), 120_000);
        assert_eq!(sizes, [70_000, 40_000, 10_000]);
        assert!(flows.iter().all(|&frames| frames == 12));
    }

    #[test]
    fn randomly_drawn_frame_sizes_follow_their_weights() {
        let (sizes, flows) = counts(imix(Order::Seeded(1), Order::Seeded(2)), 120_000);
        assert!(sizes.iter().zip([70_000, 40_000, 10_000]).all(|(&seen, meant)| seen.abs_diff(meant) < 700));
        assert!(flows.iter().all(|&frames| frames < 40));
        assert_eq!(counts(imix(Order::Seeded(1), Order::Seeded(2)), 120_000).0, sizes);
        assert_ne!(counts(imix(Order::Seeded(9), Order::Seeded(2)), 120_000).0, sizes);
    }

    #[test]
    fn shares_of_several_senders_add_up_to_the_whole_schedule() {
        for of in [1, 2, 3, 7] {
            let flows = 10 * of;
            let sizes = SizeMix::simple_imix();
            let mut whole = Schedule::new(&sizes, Order::Turns, flows, Order::Turns).expect("a schedule");
            let mut shares: Vec<_> = Share::all(of)
                .map(|share| Schedule::shared(&sizes, Order::Turns, flows, Order::Turns, share))
                .collect::<Result<_, _>>()
                .expect("schedules");
            for frame in 0..1000 {
                assert_eq!(shares[frame % of as usize].next(), whole.next(), "frame {frame} of {of} senders");
            }
        }
    }

    #[test]
    fn each_seeded_flow_belongs_to_one_sender() {
        let sizes = SizeMix::simple_imix();
        for share in Share::all(3) {
            let drawn = Order::Seeded(5);
            let mut schedule = Schedule::shared(&sizes, drawn, 12, drawn, share).expect("a schedule");
            assert!((0..500).all(|_| schedule.next().1 % 3 == share.place));
        }
        let uneven = Schedule::shared(&sizes, Order::Turns, 4, Order::Turns, Share { place: 0, of: 3 });
        assert_eq!(uneven.map(|_| ()), Err(EngineError::Share { place: 0, of: 3, flows: 4 }));
    }

    #[test]
    fn recorded_frames_are_repeated_in_their_recorded_order() {
        let mut schedule = Schedule::recorded(Arc::new([1, 0, 1]), 2).expect("a schedule");
        let seen: Vec<_> = (0..5).map(|_| schedule.next()).collect();
        assert_eq!(seen, [(0, 1), (1, 0), (2, 1), (0, 1), (1, 0)]);
        assert!(Schedule::recorded(Arc::new([2]), 2).is_err());
    }

    #[test]
    fn zero_flows_and_too_many_flows_are_refused() {
        for seen in [0, FLOW_LIMIT + 1] {
            let refused = Schedule::new(&SizeMix::simple_imix(), Order::Turns, seen, Order::Turns);
            assert_eq!(refused.map(|_| ()), Err(EngineError::FlowCount { seen }));
        }
    }
}
