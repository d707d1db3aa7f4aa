//! When a real-time thread that polls is a thread among others for a moment. Kernels take the CPU away from one that never
//! sleeps, for 50 ms of each second: before Linux 6.12 and where groups have real-time budgets (`CONFIG_RT_GROUP_SCHED`) by
//! `kernel.sched_rt_runtime_us` (sched(7)), even when nobody else wants the CPU, and otherwise for work that starves. A thread
//! that gives up its priority for more than that by itself keeps a CPU for which nobody waits. One that slept as much has no
//! need to.

/// From one time without priority to the next (ns).
const ROUND_NS: u64 = 100_000_000;
/// So much of each round it has none: 7 %, above the 5 % that a kernel takes (ns).
const AMONG_OTHERS_NS: u64 = 7_000_000;
/// And the rest of it before all others (ns).
const REAL_TIME_NS: u64 = ROUND_NS - AMONG_OTHERS_NS;

/// What the thread is to be from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// One among others.
    AmongOthers,
    /// Before all others.
    RealTime,
}

/// The turns of a thread that is a real-time thread at first.
#[derive(Debug)]
pub struct Shift {
    now: Turn,
    ends_ns: u64,
    /// How long it had run in all when the turn began.
    run_ns: u64,
}

impl Shift {
    /// From `now_ns` on, of a thread that has run for `run_ns`.
    pub const fn new(now_ns: u64, run_ns: u64) -> Self {
        Self { now: Turn::RealTime, ends_ns: now_ns + REAL_TIME_NS, run_ns }
    }

    /// What changes at `now_ns`. Who asks late is among others for as long as ever: a kernel counts what was used.
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

    /// However often it is asked, no second holds so much real time that a kernel takes the CPU away.
    #[test]
    fn no_second_is_real_time_for_longer_than_a_kernel_allows() {
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
    fn it_has_its_priority_back_after_a_time_without() {
        let mut shift = Shift::new(5, 0);
        let mut change = |at| shift.change(at, || at);
        assert_eq!(change(93 * MS), None);
        assert_eq!(change(94 * MS), Some(Turn::AmongOthers));
        assert_eq!((change(100 * MS), change(101 * MS)), (None, Some(Turn::RealTime)));
        assert_eq!(change(110 * MS), None);
    }

    /// A thread that sleeps for a tenth of the time by itself keeps its priority, until it sleeps no more.
    #[test]
    fn who_sleeps_keeps_its_priority() {
        let mut shift = Shift::new(0, 0);
        for at in (0..1_000 * MS).step_by(100_000) {
            assert_eq!(shift.change(at, || at / 10 * 9), None);
        }
        let begins = (1_000..1_300).find(|at| shift.change(at * MS, || (at - 100) * MS).is_some());
        assert!(begins.is_some_and(|at| at <= 1_200), "{begins:?}");
    }
}
