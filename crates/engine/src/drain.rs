//! The barrier at the end of a trial: counters are read when nothing arrives any more, and not before.

use crate::time::Nanos;

/// Watches a counter until it rests.
#[derive(Debug, Clone, Copy)]
pub struct Drain {
    quiet: Nanos,
    deadline: Nanos,
    seen: u64,
    since: Nanos,
}

/// Whether the counter rests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrainState {
    /// Frames may still be under way: go on receiving, and ask again by this time.
    Draining(Nanos),
    /// Nothing has arrived for as long as was asked.
    Quiet,
    /// The time is over and frames still arrive: the trial's counts are not closed.
    StillArriving,
}

impl Drain {
    /// From `now` on, wait until a counter that is at `count` rests for `quiet`, at most for `limit`. A frame that the
    /// system under test holds for longer than `quiet` counts as lost.
    pub const fn new(now: Nanos, count: u64, quiet: Nanos, limit: Nanos) -> Self {
        Self { quiet, deadline: now.plus(limit), seen: count, since: now }
    }

    /// The counter is at `count` at `now`.
    pub fn poll(&mut self, now: Nanos, count: u64) -> DrainState {
        if count != self.seen {
            (self.seen, self.since) = (count, now);
        }
        let rests = self.since.plus(self.quiet);
        if now >= rests {
            DrainState::Quiet
        } else if now >= self.deadline {
            DrainState::StillArriving
        } else {
            DrainState::Draining(rests.min(self.deadline))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_when_nothing_came_for_the_time_asked() {
        let mut drain = Drain::new(Nanos(100), 5, Nanos(10), Nanos(1_000));
        assert_eq!(drain.poll(Nanos(105), 5), DrainState::Draining(Nanos(110)));
        assert_eq!(drain.poll(Nanos(109), 6), DrainState::Draining(Nanos(119)));
        assert_eq!(drain.poll(Nanos(119), 6), DrainState::Quiet);
    }

    #[test]
    fn it_ends_by_its_limit_even_if_frames_never_stop() {
        let mut drain = Drain::new(Nanos(0), 0, Nanos(10), Nanos(25));
        let states = [9, 18, 25].map(|at| drain.poll(Nanos(at), at));
        assert_eq!(states[1..], [DrainState::Draining(Nanos(25)), DrainState::StillArriving]);
    }
}
