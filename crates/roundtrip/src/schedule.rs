//! When requests are meant to leave. Pure: time is an argument.

/// Requests at equal distances, the first at `begin_ns`.
#[derive(Debug, Clone, Copy)]
pub struct Schedule {
    begin_ns: u64,
    interval_ns: u64,
    next: u64,
}

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Send the request that was meant for this time. (ns)
    Send(u64),
    /// Nothing before this time. (ns)
    Wait(u64),
}

impl Schedule {
    /// Requests from `begin_ns` on, an interval that is not 0 apart.
    pub const fn new(begin_ns: u64, interval_ns: u64) -> Self {
        Self { begin_ns, interval_ns, next: 0 }
    }

    /// The next request, due or not.
    pub const fn step(&self, now_ns: u64) -> Step {
        let due_ns = self.due_ns(self.next);
        if now_ns >= due_ns {
            Step::Send(due_ns)
        } else {
            Step::Wait(due_ns)
        }
    }

    /// The request of `step` has left, or cannot any more.
    pub fn advance(&mut self) {
        self.next += 1;
    }

    /// Leave out the requests that are more than `most_late_ns` late.
    pub fn skip_late(&mut self, now_ns: u64, most_late_ns: u64) {
        self.next = self.next.max(self.before(now_ns.saturating_sub(most_late_ns)));
    }

    /// How many requests are meant to leave from `from_ns` on and before `end_ns` that have not.
    pub fn left_between(&self, from_ns: u64, end_ns: u64) -> u64 {
        self.before(end_ns).saturating_sub(self.before(from_ns).max(self.next))
    }

    /// How many requests are meant to leave before this time.
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
    fn requests_are_due_at_equal_distances() {
        let mut schedule = Schedule::new(100, 10);
        assert_eq!(schedule.step(99), Step::Wait(100));
        assert_eq!(schedule.step(100), Step::Send(100));
        schedule.advance();
        assert_eq!(schedule.step(100), Step::Wait(110));
        assert_eq!(schedule.step(500), Step::Send(110));
    }

    #[test]
    fn what_is_too_late_is_left_out() {
        let mut schedule = Schedule::new(0, 10);
        schedule.skip_late(9, 10);
        assert_eq!(schedule.step(9), Step::Send(0));
        schedule.skip_late(55, 10);
        assert_eq!(schedule.step(55), Step::Send(50));
        schedule.skip_late(55, 10);
        assert_eq!(schedule.step(55), Step::Send(50));
    }

    #[test]
    fn what_is_left_of_a_time_is_counted() {
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
