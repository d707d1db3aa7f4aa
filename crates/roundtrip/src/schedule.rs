//! Intended send times of requests. The functions are pure: the current time is an argument.

/// Requests at constant intervals, the first of them at `begin_ns`.
#[derive(Debug, Clone, Copy)]
pub struct Schedule {
    begin_ns: u64,
    interval_ns: u64,
    next: u64,
}

/// The next action of the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Send the request that is due at this intended send time, in ns.
    Send(u64),
    /// Wait until this time, in ns.
    Wait(u64),
}

impl Schedule {
    /// Create a schedule that starts at `begin_ns`. The interval must not be 0.
    pub const fn new(begin_ns: u64, interval_ns: u64) -> Self {
        Self { begin_ns, interval_ns, next: 0 }
    }

    /// Return the next action: send the next request, or wait until it is due.
    pub const fn step(&self, now_ns: u64) -> Step {
        let due_ns = self.due_ns(self.next);
        if now_ns >= due_ns {
            Step::Send(due_ns)
        } else {
            Step::Wait(due_ns)
        }
    }

    /// Continue with the next request after the current one was sent or has failed.
    pub fn advance(&mut self) {
        self.next += 1;
    }

    /// Skip the requests that are more than `most_late_ns` late.
    pub fn skip_late(&mut self, now_ns: u64, most_late_ns: u64) {
        self.next = self.next.max(self.before(now_ns.saturating_sub(most_late_ns)));
    }

    /// Return the number of unsent requests that are due from `from_ns` on and before `end_ns`.
    pub fn left_between(&self, from_ns: u64, end_ns: u64) -> u64 {
        self.before(end_ns).saturating_sub(self.before(from_ns).max(self.next))
    }

    /// Return the number of requests that are due before the given time.
    const fn before(&self, time_ns: u64) -> u64 {
        time_ns.saturating_sub(self.begin_ns).div_ceil(self.interval_ns)
    }

    const fn due_ns(&self, number: u64) -> u64 {
        self.begin_ns.saturating_add(number.saturating_mul(self.interval_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_due_at_equal_intervals() {
        let mut schedule = Schedule::new(100, 10);
        assert_eq!(schedule.step(99), Step::Wait(100));
        assert_eq!(schedule.step(100), Step::Send(100));
        schedule.advance();
        assert_eq!(schedule.step(100), Step::Wait(110));
        assert_eq!(schedule.step(500), Step::Send(110));
    }

    #[test]
    fn overdue_requests_are_skipped() {
        let mut schedule = Schedule::new(0, 10);
        schedule.skip_late(9, 10);
        assert_eq!(schedule.step(9), Step::Send(0));
        schedule.skip_late(55, 10);
        assert_eq!(schedule.step(55), Step::Send(50));
        schedule.skip_late(55, 10);
        assert_eq!(schedule.step(55), Step::Send(50));
    }

    #[test]
    fn remaining_requests_of_an_interval_are_counted() {
        let mut schedule = Schedule::new(100, 10);
        assert_eq!(schedule.left_between(0, 100), 0);
        assert_eq!(schedule.left_between(0, 101), 1);
        assert_eq!(schedule.left_between(100, 200), 10);
        assert_eq!(schedule.left_between(101, 200), 9);
        schedule.advance();
        assert_eq!(schedule.left_between(0, 200), 9);
        assert_eq!(schedule.left_between(150, 200), 5);
        assert_eq!(schedule.left_between(0, 0), 0);
    }
}
