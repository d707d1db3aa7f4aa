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
    /// Send the request that was meant for this time. [ns]
    Send(u64),
    /// Nothing before this time. [ns]
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

    /// Leave out the requests that are more than `most_late_ns` late; return how many those are.
    pub fn skip_late(&mut self, now_ns: u64, most_late_ns: u64) -> u64 {
        let kept_ns = now_ns.saturating_sub(most_late_ns).saturating_sub(self.begin_ns);
        let first = kept_ns.div_ceil(self.interval_ns).max(self.next);
        let skipped = first - self.next;
        self.next = first;
        skipped
    }

    /// How many requests are meant to leave before `end_ns` that have not.
    pub fn left_before(&self, end_ns: u64) -> u64 {
        end_ns.saturating_sub(self.begin_ns).div_ceil(self.interval_ns).saturating_sub(self.next)
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
    fn what_is_too_late_is_left_out_and_counted() {
        let mut schedule = Schedule::new(0, 10);
        assert_eq!(schedule.skip_late(9, 10), 0);
        assert_eq!(schedule.skip_late(55, 10), 5);
        assert_eq!(schedule.step(55), Step::Send(50));
        assert_eq!(schedule.skip_late(55, 10), 0);
    }

    #[test]
    fn what_is_left_of_a_time_is_counted() {
        let mut schedule = Schedule::new(100, 10);
        assert_eq!(schedule.left_before(100), 0);
        assert_eq!(schedule.left_before(101), 1);
        assert_eq!(schedule.left_before(200), 10);
        schedule.advance();
        assert_eq!(schedule.left_before(200), 9);
        assert_eq!(schedule.left_before(0), 0);
    }
}
