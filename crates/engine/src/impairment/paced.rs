//! Classes of frames that share a line, every frame of a class spaced: none leaves in a burst.
//!
//! A class that has frames gets its rate; what the others leave over is lent to those that may have more, in proportion to
//! their rates and up to their ceils. What a frame takes at the pace of its class is owed before the next of that class leaves,
//! in exact parts of a bit, so that the pace neither drifts nor forgets when it changes between two frames.

use super::queue::{Limit, Queue};
use super::{Impairment, Onward, Passing};
use crate::error::EngineError;
use crate::time::Nanos;

/// Parts of a bit in which frames are owed: a rate in bit/s pays as many of them in a nanosecond.
const PARTS_PER_BIT: i128 = 1_000_000_000;

/// What a class is sure to get, and may have. Rates are in bits of frames with FCS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacedClass {
    /// What it is sure to get (bit/s).
    pub rate_bps: u64,
    /// What it may have when others leave it over (bit/s).
    pub ceil_bps: u64,
    /// What may wait.
    pub limit: Limit,
}

/// A clock that is paid at a pace, and owes what has left.
#[derive(Debug, Clone, Copy, Default)]
struct ByteClock {
    pace_bps: u64,
    /// Negative: the next frame was due so much earlier.
    owed: i128,
}

impl ByteClock {
    fn pay(&mut self, span: Nanos) {
        self.owed -= i128::from(self.pace_bps) * i128::from(span.0);
    }

    fn owe(&mut self, frame_bytes: u32) {
        self.owed += i128::from(frame_bytes) * 8 * PARTS_PER_BIT;
    }

    /// What was not used is not saved, except for the nanosecond to which times are rounded.
    fn forget(&mut self, allowance_ns: i128) {
        self.owed = self.owed.max(-i128::from(self.pace_bps) * allowance_ns);
    }

    /// How long until nothing is owed; zero or less: that is so already.
    fn until_paid_ns(&self) -> i128 {
        let pace = i128::from(self.pace_bps.max(1));
        self.owed.div_euclid(pace) + i128::from(self.owed.rem_euclid(pace) > 0)
    }
}

#[derive(Debug)]
struct Class {
    spec: PacedClass,
    clock: ByteClock,
    waiting: Queue,
}

impl Class {
    /// Whether it uses its rate: a frame of it waits, or is still on its way by the pace of the class.
    fn is_active(&self) -> bool {
        self.waiting.first().is_some() || self.clock.owed > 0
    }
}

/// The classes of a line. Frames of no class leave when they arrive, beside the line.
#[derive(Debug)]
pub struct PacedClasses {
    classes: Vec<Class>,
    /// The line, on which one frame follows the other.
    line: ByteClock,
    now: Nanos,
}

impl PacedClasses {
    /// Classes on a line of `rate_bps`, which a frame names by their places.
    ///
    /// # Errors
    /// For a rate of 0, a ceil below the rate, and classes that are sure of more than the line has.
    pub fn new(rate_bps: u64, classes: &[PacedClass]) -> Result<Self, EngineError> {
        let most_sure: u128 = classes.iter().map(|class| u128::from(class.rate_bps)).sum();
        let wrong = |class: &&PacedClass| class.rate_bps == 0 || class.ceil_bps < class.rate_bps;
        if let Some(PacedClass { ceil_bps: seen, .. }) = classes.iter().find(wrong) {
            return Err(setting("ceil of a class [bit/s]", *seen, "at least its rate, which is above 0"));
        }
        if rate_bps == 0 || most_sure > u128::from(rate_bps) {
            return Err(setting(
                "rate of paced classes [bit/s]",
                rate_bps,
                "above 0, and all that the classes are sure of",
            ));
        }
        let class = |spec: &PacedClass| Class {
            spec: *spec,
            clock: ByteClock { pace_bps: spec.rate_bps, owed: 0 },
            waiting: Queue::default(),
        };
        let line = ByteClock { pace_bps: rate_bps, owed: 0 };
        Ok(Self { classes: classes.iter().map(class).collect(), line, now: Nanos::ZERO })
    }

    /// Pay the clocks until `now`. A class whose last frame is paid meanwhile leaves its rate to others from then on.
    fn run_to(&mut self, now: Nanos) {
        loop {
            let ends = self.classes.iter().filter(|class| class.waiting.first().is_none());
            let next =
                ends.filter(|class| class.clock.owed > 0).map(|class| class.clock.until_paid_ns()).min();
            let left = now.since(self.now);
            let span = next.and_then(|ns| u64::try_from(ns).ok()).map_or(left, |ns| Nanos(ns).min(left));
            self.pay(span);
            if span == left {
                return;
            }
        }
    }

    fn pay(&mut self, span: Nanos) {
        self.now = self.now.plus(span);
        self.line.pay(span);
        self.line.forget(1);
        let mut ended = false;
        for class in &mut self.classes {
            let before = class.is_active();
            class.clock.pay(span);
            if class.waiting.first().is_none() {
                class.clock.forget(0);
            }
            ended |= before && !class.is_active();
        }
        if ended {
            self.share();
        }
    }

    /// Set the pace of each class: its rate, and of what is left over a part in proportion to its rate, up to its ceil.
    fn share(&mut self) {
        let sure = |class: &Class| if class.is_active() { class.spec.rate_bps } else { 0 };
        let mut spare = self.line.pace_bps.saturating_sub(self.classes.iter().map(sure).sum());
        self.classes.iter_mut().for_each(|class| class.clock.pace_bps = class.spec.rate_bps);
        let may_have_more = |class: &Class| class.is_active() && class.clock.pace_bps < class.spec.ceil_bps;
        loop {
            let open = self.classes.iter().filter(|class| may_have_more(class));
            let weight: u128 = open.map(|class| u128::from(class.spec.rate_bps)).sum();
            let (mut given, mut bounded) = (0, false);
            for class in self.classes.iter_mut().filter(|class| may_have_more(class)) {
                let part = u128::from(spare) * u128::from(class.spec.rate_bps) / weight;
                let room = class.spec.ceil_bps - class.clock.pace_bps;
                let more = u64::try_from(part).unwrap_or(u64::MAX).min(room);
                class.clock.pace_bps += more;
                given += more;
                bounded |= more == room;
            }
            spare -= given;
            if !bounded || spare == 0 {
                return;
            }
        }
    }

    /// The class that leaves next, and when: of those whose time has come when the line is free, the one that is due first.
    fn next(&self) -> Option<(Nanos, usize)> {
        let waiting = self.classes.iter().enumerate().filter(|(_, class)| class.waiting.first().is_some());
        let (due_ns, index) = waiting.map(|(index, class)| (class.clock.until_paid_ns(), index)).min()?;
        let in_ns = due_ns.max(self.line.until_paid_ns()).max(0);
        Some((self.now.plus(Nanos(u64::try_from(in_ns).unwrap_or(u64::MAX))), index))
    }

    fn leave(&mut self, index: usize, onward: &mut Onward) {
        let class = &mut self.classes[index];
        if let Some((_, frame)) = class.waiting.pop() {
            class.clock.owe(frame.frame_bytes);
            self.line.owe(frame.frame_bytes);
            let takes_ns = takes_ns(frame.frame_bytes, class.clock.pace_bps);
            onward.pass(Passing { takes_ns, ..frame.at(self.now) });
        }
    }

    fn leave_until(&mut self, now: Nanos, onward: &mut Onward) {
        while let Some((due, index)) = self.next().filter(|(due, _)| *due <= now) {
            self.run_to(due);
            self.leave(index, onward);
        }
        self.run_to(now);
    }
}

/// What a frame takes at a pace (ns).
fn takes_ns(frame_bytes: u32, pace_bps: u64) -> u32 {
    let parts = u128::from(frame_bytes) * 8 * PARTS_PER_BIT.unsigned_abs();
    u32::try_from(parts / u128::from(pace_bps.max(1))).unwrap_or(u32::MAX)
}

fn setting(what: &'static str, seen: u64, allowed: &'static str) -> EngineError {
    EngineError::Setting { what, seen, allowed }
}

impl Impairment for PacedClasses {
    fn take(&mut self, frame: Passing, onward: &mut Onward) {
        self.leave_until(frame.at, onward);
        let Some(class) = frame.class.and_then(|index| self.classes.get_mut(usize::from(index))) else {
            return onward.pass(frame);
        };
        let active = class.is_active();
        let wait = Nanos(u64::from(active));
        if !frame.spared && !class.waiting.has_room(class.spec.limit, frame.frame_bytes, wait) {
            return onward.lose(frame);
        }
        class.waiting.push(frame.at, frame);
        if !active {
            self.share();
        }
        self.leave_until(frame.at, onward);
    }

    fn due(&self) -> Option<Nanos> {
        self.next().map(|(due, _)| due)
    }

    fn give(&mut self, now: Nanos, onward: &mut Onward) {
        self.leave_until(now, onward);
    }
}

#[cfg(test)]
mod tests;
