//! Classes of frames that share a line, with each class paced: no class sends bursts.
//!
//! An active class gets its rate. Unused bandwidth is lent to the classes below their ceil, in proportion to their
//! rates. The clock of a class counts the debt of each frame in exact fractions of a bit, so the pace does not drift,
//! and no fraction is lost when the pace changes between two frames.

use super::queue::{Limit, Queue};
use super::{Impairment, Onward, Passing};
use crate::error::EngineError;
use crate::time::Nanos;

/// Fractions of a bit in the clocks: at a rate of n bit/s, one nanosecond repays n fractions.
const PARTS_PER_BIT: i128 = 1_000_000_000;

/// Guaranteed and maximum rate of a class. Rates count the bits of frames with FCS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacedClass {
    /// Guaranteed rate (bit/s).
    pub rate_bps: u64,
    /// Maximum rate with borrowed bandwidth (bit/s).
    pub ceil_bps: u64,
    /// Queue limit.
    pub limit: Limit,
}

/// A clock whose debt grows with each frame and is repaid at its pace.
#[derive(Debug, Clone, Copy, Default)]
struct ByteClock {
    pace_bps: u64,
    /// Debt in fractions of a bit; negative if the next frame was due earlier.
    owed: i128,
}

impl ByteClock {
    fn pay(&mut self, span: Nanos) {
        self.owed -= i128::from(self.pace_bps) * i128::from(span.0);
    }

    fn owe(&mut self, frame_bytes: u32) {
        self.owed += i128::from(frame_bytes) * 8 * PARTS_PER_BIT;
    }

    /// Discard unused credit, except for the nanosecond to which times are rounded.
    fn forget(&mut self, allowance_ns: i128) {
        self.owed = self.owed.max(-i128::from(self.pace_bps) * allowance_ns);
    }

    /// Return the time until the debt is repaid (ns); zero or less if it is repaid.
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
    /// Whether the class uses its rate: a frame is queued, or the last frame is still being sent at the pace of the
    /// class.
    fn is_active(&self) -> bool {
        self.waiting.first().is_some() || self.clock.owed > 0
    }
}

/// The classes of a line. Frames without a class bypass the line and leave on arrival.
#[derive(Debug)]
pub struct PacedClasses {
    classes: Vec<Class>,
    /// The clock of the line, on which frames are sent one after the other.
    line: ByteClock,
    now: Nanos,
}

impl PacedClasses {
    /// Create classes on a line of `rate_bps`; frames refer to a class by its index.
    ///
    /// # Errors
    /// Fails if a rate is 0, a ceil is below the rate, or the sum of the guaranteed rates exceeds the line rate.
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
                "above 0, and at least the sum of the guaranteed rates",
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

    /// Repay the clocks until `now`. A class whose last frame is repaid before `now` releases its rate to the other
    /// classes at that time.
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

    /// Set the pace of each class: its rate plus a part of the unused bandwidth in proportion to its rate, up to its
    /// ceil.
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

    /// Return the class that sends next, and its time: among the classes that are due when the line is free, the one
    /// with the earliest due time.
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

/// Return the transmission time of a frame at a pace (ns).
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
