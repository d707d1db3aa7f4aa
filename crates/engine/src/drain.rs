//! The drain phase at the end of a trial: counters are read only after frames have stopped arriving.

use crate::time::Nanos;

/// Monitors a frame counter until it is stable.
#[derive(Debug, Clone, Copy)]
pub struct Drain {
    quiet: Nanos,
    deadline: Nanos,
    seen: u64,
    since: Nanos,
}

/// The state of the drain phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrainState {
    /// Frames may still be in flight: continue to receive, and poll again by this time.
    Draining(Nanos),
    /// No frame has arrived for the configured quiet time.
    Quiet,
    /// The time limit has passed and frames still arrive: the counts of the trial are not final.
    StillArriving,
}

impl Drain {
    /// Start a drain at `now` with a counter value of `count`: wait until the counter is stable for `quiet`, but at
    /// most for `limit`. Frames that the system under test holds for longer than `quiet` count as lost.
    pub const fn new(now: Nanos, count: u64, quiet: Nanos, limit: Nanos) -> Self {
        Self { quiet, deadline: now.plus(limit), seen: count, since: now }
    }

    /// Update the state with the counter value `count` at `now`.
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
    fn drain_ends_after_the_quiet_time() {
        let mut drain = Drain::new(Nanos(100), 5, Nanos(10), Nanos(1_000));
        assert_eq!(drain.poll(Nanos(105), 5), DrainState::Draining(Nanos(110)));
        assert_eq!(drain.poll(Nanos(109), 6), DrainState::Draining(Nanos(119)));
        assert_eq!(drain.poll(Nanos(119), 6), DrainState::Quiet);
    }

    #[test]
    fn drain_ends_at_its_time_limit_if_frames_keep_arriving() {
        let mut drain = Drain::new(Nanos(0), 0, Nanos(10), Nanos(25));
        let states = [9, 18, 25].map(|at| drain.poll(Nanos(at), at));
        assert_eq!(states[1..], [DrainState::Draining(Nanos(25)), DrainState::StillArriving]);
    }
}
