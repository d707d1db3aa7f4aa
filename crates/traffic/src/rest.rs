//! When a thread that waits awake sleeps for a moment. A kernel takes the CPU away from a real-time thread that never
//! sleeps, for 50 ms of each second: by `kernel.sched_rt_runtime_us` (sched(7)), or, from Linux 6.12 on, for other work
//! that starves. Sleeping as much in many small pieces costs some frames microseconds, and other work need not starve. Long
//! gaps are slept through, as far as the thread is sure to wake in time: what is measured may have no other CPU.

/// Of the time awake, a thread sleeps one part of this many: 6.7 %, above the 5 % that a kernel takes.
const AWAKE_PER_SLEEP: u64 = 14;
/// So much is asked for at once: enough that a virtual CPU sleeps at all before the timer runs out (ns).
const NAP_NS: u64 = 15_000;
/// A nap within a gap may be so short.
const LEAST_NS: u64 = 10_000;
/// A gap so long is slept through.
const LONG_GAP_NS: u64 = 100_000;
/// By how much a thread is woken late at worst is remembered, and less of it with each nap: one part of this many.
const FORGETTING: u64 = 64;
/// A nap that was longer by more was held up, and says nothing of others.
const MOST_OVER_NS: u64 = 4 * NAP_NS;
/// More is not kept for later. It is where a thread begins: from one trial to the next its CPU has rested for longer.
const MOST_CREDIT_NS: i64 = 30_000_000;
/// More is not made up for.
const MOST_OWED_NS: i64 = 20_000_000;

/// What a thread has slept of what it should.
#[derive(Debug)]
pub struct Rest {
    /// When it woke.
    owed_ns: i64,
    woken_ns: u64,
    /// How much longer naps lasted than they were asked for, smoothed.
    over_ns: u64,
    /// How much longer one of the last naps lasted at worst.
    worst_over_ns: u64,
    /// So late the thread may be without harm.
    allowed_ns: u64,
}

/// One nap.
#[derive(Debug, Clone, Copy)]
pub struct Nap {
    /// So much was asked for.
    pub asked_ns: u64,
    /// When it began.
    pub begin_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// So long the thread was on the CPU meanwhile: to go to sleep, and to wake.
    pub run_ns: u64,
}

impl Rest {
    /// Of a thread that is awake from `now_ns` on and may be `allowed_ns` late.
    pub const fn new(now_ns: u64, allowed_ns: u64) -> Self {
        Self {
            owed_ns: -MOST_CREDIT_NS,
            woken_ns: now_ns,
            over_ns: NAP_NS,
            worst_over_ns: MOST_OVER_NS,
            allowed_ns,
        }
    }

    /// How long to sleep at `now_ns` when nothing is to be done for `gap_ns`: in the gap, always in a long one, or a little
    /// beyond it when it is time. None when enough was slept, or frames would be too late.
    #[inline]
    pub fn due(&self, now_ns: u64, gap_ns: u64) -> Option<u64> {
        let sure_ns = gap_ns.saturating_sub(self.worst_over_ns);
        if gap_ns >= LONG_GAP_NS && sure_ns >= LEAST_NS {
            return Some(sure_ns);
        }
        let owed_ns = self.owed(now_ns);
        if owed_ns <= 0 {
            return None;
        }
        let within_ns = gap_ns.saturating_sub(2 * self.over_ns);
        if within_ns >= LEAST_NS {
            return Some(within_ns);
        }
        (owed_ns >= NAP_NS as i64 && self.allowed_ns > NAP_NS + self.over_ns).then_some(NAP_NS)
    }

    /// Note what became of a nap.
    pub fn slept(&mut self, nap: Nap) {
        let over_ns = nap.end_ns.saturating_sub(nap.begin_ns + nap.asked_ns);
        self.worst_over_ns = over_ns.max(self.worst_over_ns - self.worst_over_ns / FORGETTING);
        let lasted_ns = nap.end_ns.saturating_sub(nap.begin_ns).min(nap.asked_ns + MOST_OVER_NS);
        let slept_ns = lasted_ns.saturating_sub(nap.run_ns);
        let owed_ns = self.owed(nap.begin_ns + nap.run_ns) - slept_ns as i64;
        self.owed_ns = owed_ns.clamp(-MOST_CREDIT_NS, MOST_OWED_NS);
        self.woken_ns = nap.end_ns;
        self.over_ns = (7 * self.over_ns + lasted_ns.saturating_sub(nap.asked_ns)) / 8;
    }

    #[inline]
    const fn owed(&self, now_ns: u64) -> i64 {
        self.owed_ns + (now_ns.saturating_sub(self.woken_ns) / AWAKE_PER_SLEEP) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A thread that has nothing to do for `gap_ns` every `gap_ns`, for a second, on a CPU that wakes it `over_ns` late and
    /// takes half of that to sleep and to wake; its naps, and how long it was off the CPU.
    fn second(gap_ns: u64, allowed_ns: u64, over_ns: u64) -> (Vec<Nap>, u64) {
        let mut rest = Rest::new(0, allowed_ns);
        let (mut now_ns, mut naps, mut off_ns) = (0, Vec::new(), 0);
        while now_ns < 1000 * MS {
            let next_ns = (now_ns / gap_ns + 1) * gap_ns;
            if let Some(asked_ns) = rest.due(now_ns, next_ns - now_ns) {
                let end_ns = now_ns + asked_ns + over_ns;
                let nap = Nap { asked_ns, begin_ns: now_ns, end_ns, run_ns: over_ns / 2 };
                rest.slept(nap);
                naps.push(nap);
                off_ns += asked_ns + over_ns / 2;
                now_ns = end_ns;
            }
            now_ns = now_ns.max(next_ns);
        }
        (naps, off_ns)
    }

    /// At every rate it is off the CPU for more than the 5 % that a kernel takes, beside what it rested before.
    #[test]
    fn a_thread_sleeps_more_than_a_kernel_takes() {
        for gap_ns in [2_000, 10_000, 50_000, 99_000] {
            for over_ns in [3_000, 20_000] {
                let (_, off_ns) = second(gap_ns, 128_000, over_ns);
                let least_ns = 1000 * MS / 15 - MOST_CREDIT_NS as u64;
                assert!((least_ns - MS..2 * least_ns).contains(&off_ns), "{gap_ns} {over_ns}: {off_ns}");
            }
        }
    }

    /// A program that shares its CPU never waits for long.
    #[test]
    fn long_gaps_are_slept_through() {
        for gap_ns in [100_000, 200_000, 450_000] {
            for over_ns in [3_000, 20_000] {
                let (naps, off_ns) = second(gap_ns, 0, over_ns);
                let asleep_ns = naps.iter().skip(500).map(|nap| nap.end_ns - nap.begin_ns).min();
                assert!(
                    asleep_ns >= Some(gap_ns - 2 * over_ns - LEAST_NS),
                    "{gap_ns} {over_ns}: {asleep_ns:?}"
                );
                assert!(naps.iter().all(|nap| nap.end_ns - nap.begin_ns <= gap_ns), "nothing is late");
                assert!(off_ns > 1000 * MS / 2, "{gap_ns} {over_ns}: {off_ns}");
            }
        }
    }

    /// Once woken late, it is awake earlier for a time.
    #[test]
    fn a_thread_that_was_woken_late_sleeps_less_of_a_gap_for_a_while() {
        let mut rest = Rest::new(0, 0);
        let nap = |rest: &mut Rest, begin_ns: u64, over_ns: u64| {
            let asked_ns = rest.due(begin_ns, 200_000)?;
            rest.slept(Nap { asked_ns, begin_ns, end_ns: begin_ns + asked_ns + over_ns, run_ns: 1_000 });
            Some(asked_ns)
        };
        let first_ns = nap(&mut rest, 0, 150_000).unwrap();
        let after_ns = nap(&mut rest, MS, 5_000).unwrap();
        assert!(first_ns >= 140_000 && after_ns <= 50_000, "{first_ns} {after_ns}");
        let later_ns = (2..300).filter_map(|at| nap(&mut rest, at * MS, 5_000)).last().unwrap();
        assert!(later_ns > 180_000, "{later_ns}");
    }

    #[test]
    fn naps_in_a_long_gap_make_nothing_late() {
        let (naps, _) = second(100_000, 0, 20_000);
        assert!(!naps.is_empty());
        assert!(naps.iter().skip(20).all(|nap| nap.end_ns - nap.begin_ns <= 100_000));
    }

    #[test]
    fn naps_that_would_make_frames_too_late_are_left_out() {
        assert_eq!(second(2_000, 30_000, 20_000).0.len(), 0);
        assert!(second(2_000, 40_000, 20_000).0.len() > 1000);
    }

    #[test]
    fn a_short_trial_is_sent_without_a_nap() {
        let (naps, _) = second(10_000, 640_000, 20_000);
        assert!(naps[0].begin_ns > 400 * MS, "{:?}", naps[0]);
    }

    /// A nap that was held up for 50 ms is no reason to sleep no more.
    #[test]
    fn one_long_nap_says_nothing_of_the_next() {
        let mut rest = Rest::new(0, 640_000);
        let begin_ns = 500 * MS;
        let asked_ns = rest.due(begin_ns, 10_000).unwrap();
        rest.slept(Nap { asked_ns, begin_ns, end_ns: begin_ns + 50 * MS, run_ns: 10_000 });
        assert!(rest.due(begin_ns + 60 * MS, 10_000).is_some());
    }
}
