//! Short sleeps of a busy-polling thread. The kernel throttles a real-time thread that never sleeps for 50 ms of each
//! second: by `kernel.sched_rt_runtime_us` (sched(7)) or, since Linux 6.12, for the benefit of starving tasks. The
//! same total sleep in many short naps delays some frames by microseconds only, and prevents starvation. The thread
//! also sleeps through long gaps, as far as it will certainly wake up in time, because the system under test may
//! share its CPU.

/// Ratio of awake time to sleep: 6.7 % sleep, above the 5 % for which the kernel throttles.
const AWAKE_PER_SLEEP: u64 = 14;
/// Requested length of a nap: long enough that a virtual CPU goes idle before the timer expires (ns).
const NAP_NS: u64 = 15_000;
/// Minimum length of a nap within a gap (ns).
const LEAST_NS: u64 = 10_000;
/// Minimum gap that is always used for sleep (ns).
const LONG_GAP_NS: u64 = 100_000;
/// Divisor of the decay: with each nap, the remembered worst wakeup latency shrinks by one part in this many.
const FORGETTING: u64 = 64;
/// Maximum wakeup latency of an undisturbed nap (ns); a longer nap was disturbed and is not representative.
const MOST_OVER_NS: u64 = 4 * NAP_NS;
/// Maximum sleep credit, and the initial credit: the CPU was idle for longer between trials (ns).
const MOST_CREDIT_NS: i64 = 30_000_000;
/// Maximum sleep debt that is made up for (ns).
const MOST_OWED_NS: i64 = 20_000_000;

/// The sleep debt of a thread.
#[derive(Debug)]
pub struct Rest {
    /// Sleep debt at the last wakeup (ns), and the time of that wakeup.
    owed_ns: i64,
    woken_ns: u64,
    /// Smoothed wakeup latency (ns).
    over_ns: u64,
    /// Decaying maximum wakeup latency (ns).
    worst_over_ns: u64,
    /// Lateness that the thread may have without harm (ns).
    allowed_ns: u64,
}

/// The measurement of one nap.
#[derive(Debug, Clone, Copy)]
pub struct Nap {
    /// Requested length (ns).
    pub asked_ns: u64,
    /// Start time (ns).
    pub begin_ns: u64,
    /// End time (ns).
    pub end_ns: u64,
    /// CPU time of the thread during the nap, for going to sleep and waking up (ns).
    pub run_ns: u64,
}

impl Rest {
    /// Create the state of a thread that is awake from `now_ns` on and may be late by `allowed_ns`.
    pub const fn new(now_ns: u64, allowed_ns: u64) -> Self {
        Self {
            owed_ns: -MOST_CREDIT_NS,
            woken_ns: now_ns,
            over_ns: NAP_NS,
            worst_over_ns: MOST_OVER_NS,
            allowed_ns,
        }
    }

    /// Return the length of a nap at `now_ns` before an idle gap of `gap_ns` (ns): always within a long gap; within a
    /// short gap, or slightly beyond it, if sleep is owed. Return none if no sleep is owed, or frames would be too
    /// late.
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

    /// Record a nap.
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

    /// Simulate a thread for one second. The thread has work every `gap_ns`; its CPU wakes it `over_ns` late and needs
    /// half of that time to sleep and to wake. Return the naps of the thread and its time off the CPU.
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

    /// At every rate the thread is off the CPU for more than the 5 % that the kernel requires, even without its initial
    /// credit.
    #[test]
    fn thread_sleeps_more_than_the_realtime_throttle_requires() {
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
    fn thread_sleeps_through_long_gaps() {
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

    /// After a late wake-up, the thread wakes earlier for a time.
    #[test]
    fn thread_that_woke_late_sleeps_less_for_a_while() {
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
    fn naps_in_long_gaps_delay_no_frame() {
        let (naps, _) = second(100_000, 0, 20_000);
        assert!(!naps.is_empty());
        assert!(naps.iter().skip(20).all(|nap| nap.end_ns - nap.begin_ns <= 100_000));
    }

    #[test]
    fn naps_that_would_delay_frames_too_much_are_skipped() {
        assert_eq!(second(2_000, 30_000, 20_000).0.len(), 0);
        assert!(second(2_000, 40_000, 20_000).0.len() > 1000);
    }

    #[test]
    fn short_trial_is_sent_without_a_nap() {
        let (naps, _) = second(10_000, 640_000, 20_000);
        assert!(naps[0].begin_ns > 400 * MS, "{:?}", naps[0]);
    }

    /// A single nap that was prolonged to 50 ms does not end the use of naps.
    #[test]
    fn single_long_nap_does_not_prevent_later_naps() {
        let mut rest = Rest::new(0, 640_000);
        let begin_ns = 500 * MS;
        let asked_ns = rest.due(begin_ns, 10_000).unwrap();
        rest.slept(Nap { asked_ns, begin_ns, end_ns: begin_ns + 50 * MS, run_ns: 10_000 });
        assert!(rest.due(begin_ns + 60 * MS, 10_000).is_some());
    }
}
