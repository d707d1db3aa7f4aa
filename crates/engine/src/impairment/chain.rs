//! A chain of impairment stages.

use super::{Impairment, Onward, Passing, Timeline};
use crate::time::Nanos;

/// The outcome of a frame or of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The frame leaves the chain at its time.
    Leaves(Passing),
    /// The stage with this index lost the frame.
    Lost(Passing, usize),
}

/// The frame counters of one stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StageCounts {
    /// Number of frames that arrived at the stage.
    pub arrived_frames: u64,
    /// Number of frames that the stage lost.
    pub lost_frames: u64,
}

/// A path of stages; without stages, every frame leaves at its arrival time.
#[derive(Debug, Default)]
pub struct Chain {
    stages: Vec<Place>,
    outcomes: Vec<Outcome>,
    now: Nanos,
}

/// A stage at its position in the chain.
#[derive(Debug)]
struct Place {
    stage: Box<dyn Impairment>,
    /// Frames in flight from the previous stage, if that stage may reorder frames.
    before: Option<Timeline<Passing>>,
    counts: StageCounts,
    onward: Onward,
}

impl Chain {
    /// Create a chain of `stages`, in the order in which frames pass them.
    pub fn new(stages: impl IntoIterator<Item = Box<dyn Impairment>>) -> Self {
        let mut ordered = true;
        let place = |stage: Box<dyn Impairment>| {
            let before = (!ordered).then(Timeline::default);
            ordered = stage.keeps_order();
            Place { stage, before, counts: StageCounts::default(), onward: Onward::default() }
        };
        Self { stages: stages.into_iter().map(place).collect(), ..Self::default() }
    }

    /// Add an arriving frame, whose time must not be earlier than the time of the previous frame or the last `now` of
    /// [`Chain::advance`].
    pub fn push(&mut self, frame: Passing) {
        let at = frame.at.max(self.now);
        if self.due().is_some_and(|due| due <= at) {
            self.advance(at);
        }
        self.enter(0, frame.at(at));
    }

    /// Let the stages decide on stored frames up to `now`. All frames that arrived by `now` must have been pushed.
    pub fn advance(&mut self, now: Nanos) {
        self.now = self.now.max(now);
        while let Some((due, index)) = self.next().filter(|(due, _)| *due <= now) {
            let place = &mut self.stages[index];
            match place.before.as_mut().and_then(|before| before.pop(due)) {
                Some((_, frame)) => self.take(index, frame),
                None => self.work(index, |stage, onward| stage.give(due, onward)),
            }
        }
    }

    /// Return the time of the next decision of a stage.
    pub fn due(&self) -> Option<Nanos> {
        self.next().map(|(due, _)| due)
    }

    /// Return the outcomes since the last call, in the order of the decisions; their times need not be in order.
    pub fn decided(&mut self) -> impl Iterator<Item = Outcome> + '_ {
        self.outcomes.drain(..)
    }

    /// Return the counters of each stage.
    pub fn counts(&self) -> impl Iterator<Item = StageCounts> + '_ {
        self.stages.iter().map(|place| place.counts)
    }

    /// Whether frames leave in arrival order.
    pub fn keeps_order(&self) -> bool {
        self.stages.iter().all(|place| place.stage.keeps_order())
    }

    /// Restart the random decisions of each stage with a new seed.
    pub fn restart_draws(&mut self, seeds: impl IntoIterator<Item = u64>) {
        self.stages.iter_mut().zip(seeds).for_each(|(place, seed)| place.stage.restart_draws(seed));
    }

    fn next(&self) -> Option<(Nanos, usize)> {
        let first = |place: &Place| {
            let waiting = place.before.as_ref().and_then(Timeline::due);
            waiting.into_iter().chain(place.stage.due()).min()
        };
        self.stages.iter().enumerate().filter_map(|(index, place)| Some((first(place)?, index))).min()
    }

    fn enter(&mut self, index: usize, frame: Passing) {
        match self.stages.get_mut(index) {
            None => self.outcomes.push(Outcome::Leaves(frame)),
            Some(Place { before: Some(before), .. }) => before.insert(frame.at, frame),
            Some(_) => self.take(index, frame),
        }
    }

    fn take(&mut self, index: usize, frame: Passing) {
        self.stages[index].counts.arrived_frames += 1;
        self.work(index, |stage, onward| stage.take(frame, onward));
    }

    /// Run `work` on a stage and forward its decisions.
    fn work(&mut self, index: usize, work: impl FnOnce(&mut dyn Impairment, &mut Onward)) {
        let place = &mut self.stages[index];
        let mut onward = std::mem::take(&mut place.onward);
        work(&mut *place.stage, &mut onward);
        for &(frame, passed) in &onward.decided {
            if !passed {
                self.stages[index].counts.lost_frames += 1;
                self.outcomes.push(Outcome::Lost(frame, index));
                continue;
            }
            self.enter(index + 1, frame);
        }
        onward.decided.clear();
        self.stages[index].onward = onward; // reuse the allocation
    }
}
