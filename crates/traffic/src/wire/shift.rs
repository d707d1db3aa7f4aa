//! Alternation of a polling thread between real-time and normal priority. The kernel throttles a real-time thread that
//! never sleeps for 50 ms of each second: before Linux 6.12 and with `CONFIG_RT_GROUP_SCHED` by
//! `kernel.sched_rt_runtime_us` (sched(7)), even without other runnable tasks, and otherwise for the benefit of
//! starving tasks. A thread that gives up its priority for a longer time keeps its CPU if no other task needs it. A
//! thread that has slept for this time need not give up its priority.

/// Length of a round (ns).
const ROUND_NS: u64 = 100_000_000;
/// Time with normal priority per round: 7 %, above the 5 % for which the kernel throttles (ns).
const AMONG_OTHERS_NS: u64 = 7_000_000;
/// Time with real-time priority per round (ns).
const REAL_TIME_NS: u64 = ROUND_NS - AMONG_OTHERS_NS;

/// The scheduling class of the thread in a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Normal priority (`SCHED_OTHER`).
    AmongOthers,
    /// Real-time priority.
    RealTime,
}

/// The turns of a thread that starts with real-time priority.
#[derive(Debug)]
pub struct Shift {
    now: Turn,
    ends_ns: u64,
    /// Total CPU time of the thread at the start of the turn (ns).
    run_ns: u64,
}

impl Shift {
    /// Start the turns at `now_ns`, for a thread with a total CPU time of `run_ns`.
    pub const fn new(now_ns: u64, run_ns: u64) -> Self {
        Self { now: Turn::RealTime, ends_ns: now_ns + REAL_TIME_NS, run_ns }
    }

    /// Return the change of the scheduling class at `now_ns`, if any. A late call does not shorten the turn with
    /// normal priority, because the kernel counts the time that was used.
    #[inline]
    pub fn change(&mut self, now_ns: u64, has_run_ns: impl FnOnce() -> u64) -> Option<Turn> {
        if now_ns < self.ends_ns {
            return None;
        }
        let run_ns = has_run_ns();
        let used_ns = run_ns.saturating_sub(std::mem::replace(&mut self.run_ns, run_ns));
        let late_ns = now_ns - self.ends_ns;
        let (next, lasts_ns) = match self.now {
            Turn::RealTime if used_ns + AMONG_OTHERS_NS < REAL_TIME_NS + late_ns => {
                self.ends_ns = now_ns + REAL_TIME_NS;
                return None;
            }
            Turn::RealTime => (Turn::AmongOthers, AMONG_OTHERS_NS),
            Turn::AmongOthers => (Turn::RealTime, REAL_TIME_NS),
        };
        (self.now, self.ends_ns) = (next, now_ns + lasts_ns);
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// For any number of requests, no second contains so much real-time work that the kernel throttles the thread.
    #[test]
    fn real_time_share_stays_below_the_kernel_limit() {
        for every_ns in [1_000, 300_000, 2 * MS] {
            let (mut shift, mut real_time, mut steps) = (Shift::new(0, 0), true, Vec::new());
            for at in (0..5_000 * MS).step_by(usize::try_from(every_ns).unwrap()) {
                if let Some(turn) = shift.change(at, || at) {
                    real_time = turn == Turn::RealTime;
                }
                steps.push(u64::from(real_time) * every_ns);
            }
            let of_a_second = usize::try_from(1_000 * MS / every_ns).unwrap();
            let mut used: u64 = steps[..of_a_second].iter().sum();
            let mut most = used;
            for at in of_a_second..steps.len() {
                used = used + steps[at] - steps[at - of_a_second];
                most = most.max(used);
            }
            assert!(most < 950 * MS && most > 900 * MS, "{every_ns}: {most}");
        }
    }

    #[test]
    fn real_time_priority_is_restored_after_a_pause() {
        let mut shift = Shift::new(5, 0);
        let mut change = |at| shift.change(at, || at);
        assert_eq!(change(93 * MS), None);
        assert_eq!(change(94 * MS), Some(Turn::AmongOthers));
        assert_eq!((change(100 * MS), change(101 * MS)), (None, Some(Turn::RealTime)));
        assert_eq!(change(110 * MS), None);
    }

    /// A thread that sleeps for a tenth of the time by itself keeps its priority until it stops sleeping.
    #[test]
    fn sleeping_thread_keeps_its_priority() {
        let mut shift = Shift::new(0, 0);
        for at in (0..1_000 * MS).step_by(100_000) {
            assert_eq!(shift.change(at, || at / 10 * 9), None);
        }
        let begins = (1_000..1_300).find(|at| shift.change(at * MS, || (at - 100) * MS).is_some());
        assert!(begins.is_some_and(|at| at <= 1_200), "{begins:?}");
    }
}
