//! Stalls of the forwarding thread that its frames did not cause: a large difference between two consecutive readings
//! of the clock, or a system call for a few frames that took much longer than usual.
//!
//! Stalls of the first kind are caused by the host. Stalls of the second kind may be work of the kernel for the thread;
//! if they are as frequent per second of calls as the first kind per second of waiting, they are also caused by the
//! host. Late wakeups are a third kind, because the thread chose to sleep.

use std::collections::VecDeque;

use iolab_protocol::wire::{StallKind, WireStall, WireStalls, WireTime};

/// Maximum difference between consecutive readings of the clock without a stall (ns).
const AWAKE_NS: u64 = 5_000;
/// Maximum duration of a call for a few frames, including the wakeup of a different CPU, and maximum wakeup latency,
/// without a stall (ns).
const CALL_NS: u64 = 20_000;
/// Maximum number of logged stalls, which covers some seconds.
const KEPT: usize = 8_192;

/// The stalls of a thread. The thread reports its last activity after each step; a thread without exact due times may
/// omit this.
#[derive(Debug)]
pub struct Stalls {
    on: bool,
    since_ns: u64,
    waiting: WireTime,
    calls: WireTime,
    sleeps: WireTime,
    last: VecDeque<WireStall>,
}

impl Stalls {
    /// Create an empty log at time `now_ns`.
    pub fn new(now_ns: u64) -> Self {
        let [waiting, calls, sleeps] = [WireTime::default(); 3];
        Self { on: false, since_ns: now_ns, waiting, calls, sleeps, last: VecDeque::with_capacity(KEPT) }
    }

    /// Enable or disable the log from `now_ns` on.
    pub const fn log(&mut self, on: bool, now_ns: u64) {
        (self.on, self.since_ns) = (on, now_ns);
    }

    /// Record that the thread only read the clock.
    #[inline]
    pub fn waited(&mut self, now_ns: u64) {
        let span_ns = self.passed(now_ns);
        self.waiting.span_ns += span_ns;
        if span_ns > AWAKE_NS && self.on {
            self.note(StallKind::Waiting, span_ns);
        }
    }

    /// Record that the thread made a system call.
    #[inline]
    pub fn called(&mut self, now_ns: u64) {
        let span_ns = self.passed(now_ns);
        self.calls.span_ns += span_ns;
        if span_ns > CALL_NS && self.on {
            self.note(StallKind::Call, span_ns);
        }
    }

    /// Record that the thread slept and woke up `over_ns` late.
    pub fn slept(&mut self, now_ns: u64, over_ns: u64) {
        self.sleeps.span_ns += self.passed(now_ns);
        if over_ns > CALL_NS && self.on {
            self.note(StallKind::Sleep, over_ns);
        }
    }

    /// Exclude the time since the last report, in which the thread did other work.
    pub const fn skip(&mut self, now_ns: u64) {
        self.since_ns = now_ns;
    }

    const fn passed(&mut self, now_ns: u64) -> u64 {
        let span_ns = now_ns.saturating_sub(self.since_ns);
        self.since_ns = now_ns;
        span_ns
    }

    /// Log a stall that ends now.
    #[cold]
    fn note(&mut self, kind: StallKind, span_ns: u64) {
        let total = match kind {
            StallKind::Waiting => &mut self.waiting,
            StallKind::Call => &mut self.calls,
            StallKind::Sleep => &mut self.sleeps,
        };
        total.stalls += 1;
        total.stalled_ns += span_ns;
        if self.last.len() == KEPT {
            self.last.pop_front();
        }
        let (begin_ns, end_ns) = (self.since_ns - span_ns, self.since_ns);
        self.last.push_back(WireStall { kind, begin_ns, end_ns });
    }

    /// Return the totals, and the individual stalls that ended at `since_ns` or later; no individual stalls if it is
    /// absent.
    pub fn told(&self, since_ns: Option<u64>) -> WireStalls {
        let from = since_ns
            .map_or(self.last.len(), |since_ns| self.last.partition_point(|stall| stall.end_ns < since_ns));
        let log = self.last.range(from..).copied().collect();
        WireStalls { waiting: self.waiting, calls: self.calls, sleeps: self.sleeps, log }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_delays_beyond_the_normal_wake_up_time_are_stalls() {
        let mut stalls = Stalls::new(0);
        stalls.log(true, 0);
        stalls.waited(AWAKE_NS);
        stalls.called(AWAKE_NS + CALL_NS);
        stalls.slept(95_000, CALL_NS);
        assert_eq!(stalls.told(Some(0)).log, []);
        stalls.waited(101_000);
        stalls.called(122_000);
        stalls.slept(200_000, 21_000);
        let told = stalls.told(Some(0));
        let stall = |kind, begin_ns, end_ns| WireStall { kind, begin_ns, end_ns };
        let waiting = stall(StallKind::Waiting, 95_000, 101_000);
        let call = stall(StallKind::Call, 101_000, 122_000);
        assert_eq!(told.log, [waiting, call, stall(StallKind::Sleep, 179_000, 200_000)]);
        assert_eq!(told.waiting, WireTime { span_ns: 11_000, stalls: 1, stalled_ns: 6_000 });
        assert_eq!(told.calls, WireTime { span_ns: 41_000, stalls: 1, stalled_ns: 21_000 });
        assert_eq!(told.sleeps, WireTime { span_ns: 148_000, stalls: 1, stalled_ns: 21_000 });
    }

    #[test]
    fn latest_stalls_are_listed_and_all_are_counted() {
        let mut stalls = Stalls::new(0);
        stalls.log(true, 0);
        for turn in 1..=KEPT as u64 + 10 {
            stalls.skip(turn * 10_000);
            stalls.waited(turn * 10_000 + 6_000);
        }
        assert_eq!((stalls.told(None).log.len(), stalls.told(Some(0)).log.len()), (0, KEPT));
        let told = stalls.told(Some((KEPT as u64 + 6) * 10_000));
        assert_eq!((told.log.len(), told.waiting.stalls), (5, KEPT as u64 + 10));
    }
}
