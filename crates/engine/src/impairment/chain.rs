//! Stages one behind the other.

use super::{Impairment, Onward, Passing, Timeline};
use crate::time::Nanos;

/// What became of a frame, or of a copy of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It leaves the chain at its time.
    Leaves(Passing),
    /// The stage at this place lost it.
    Lost(Passing, usize),
}

/// What a stage did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StageCounts {
    /// Frames that arrived at it.
    pub arrived_frames: u64,
    /// Frames that it lost.
    pub lost_frames: u64,
}

/// A path made of stages; none at all is a path where every frame leaves when it arrives.
#[derive(Debug, Default)]
pub struct Chain {
    stages: Vec<Place>,
    outcomes: Vec<Outcome>,
    now: Nanos,
}

/// A stage in its place.
#[derive(Debug)]
struct Place {
    stage: Box<dyn Impairment>,
    /// Frames on their way from a stage that does not keep their order.
    before: Option<Timeline<Passing>>,
    counts: StageCounts,
    onward: Onward,
}

impl Chain {
    /// The stages in the order in which frames pass them.
    pub fn new(stages: impl IntoIterator<Item = Box<dyn Impairment>>) -> Self {
        let mut ordered = true;
        let place = |stage: Box<dyn Impairment>| {
            let before = (!ordered).then(Timeline::default);
            ordered = stage.keeps_order();
            Place { stage, before, counts: StageCounts::default(), onward: Onward::default() }
        };
        Self { stages: stages.into_iter().map(place).collect(), ..Self::default() }
    }

    /// A frame arrives, no earlier than the one before and than the last `now` of [`Chain::advance`].
    pub fn push(&mut self, frame: Passing) {
        let at = frame.at.max(self.now);
        if self.due().is_some_and(|due| due <= at) {
            self.advance(at);
        }
        self.enter(0, frame.at(at));
    }

    /// Let the stages decide on what they kept until `now`. All that arrived by then has been pushed.
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

    /// When a stage decides on a frame next.
    pub fn due(&self) -> Option<Nanos> {
        self.next().map(|(due, _)| due)
    }

    /// What was decided since this was asked last, in the order of deciding; the times may be in any order.
    pub fn decided(&mut self) -> impl Iterator<Item = Outcome> + '_ {
        self.outcomes.drain(..)
    }

    /// What each stage did.
    pub fn counts(&self) -> impl Iterator<Item = StageCounts> + '_ {
        self.stages.iter().map(|place| place.counts)
    }

    /// Whether frames leave in the order in which they arrive.
    pub fn keeps_order(&self) -> bool {
        self.stages.iter().all(|place| place.stage.keeps_order())
    }

    /// Let each stage decide on the frames to come as on the first that ever came, by draws from its seed.
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

    /// Let a stage work, and hand on what it decided.
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
        self.stages[index].onward = onward; // its memory serves again
    }
}
