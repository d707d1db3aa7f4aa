//! When the thread of a wire was kept from its CPU, by what owes nothing to its frames: two readings of the clock with nothing
//! but a few steps of its own between them were far apart, or a call of the kernel that hands over a few frames took much longer
//! than that.
//!
//! The first kind is the host's alone. The second may be the kernel's own work for the thread: where it is as frequent in a
//! second of calls as the first in a second of waiting, it is the host's, too. A thread that sleeps and is woken late chose to
//! sleep: that is a kind of its own.

use std::collections::VecDeque;

use iolab_protocol::wire::{StallKind, WireStall, WireStalls, WireTime};

/// Readings of the clock that follow each other are so far apart at most while the thread has its CPU (ns).
const AWAKE_NS: u64 = 5_000;
/// Calls for a few frames take so long at most, another CPU woken for them included, and so late is a thread woken (ns).
const CALL_NS: u64 = 20_000;
/// The last so many are kept: those of some seconds.
const KEPT: usize = 8_192;

/// The stalls of a thread. It says what it did since it said so before; a thread that keeps no exact times need not.
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
    /// None yet; the clock says `now_ns`.
    pub fn new(now_ns: u64) -> Self {
        let [waiting, calls, sleeps] = [WireTime::default(); 3];
        Self { on: false, since_ns: now_ns, waiting, calls, sleeps, last: VecDeque::with_capacity(KEPT) }
    }

    /// Log them from now on, or no more.
    pub const fn log(&mut self, on: bool, now_ns: u64) {
        (self.on, self.since_ns) = (on, now_ns);
    }

    /// It did nothing but look at the clock.
    #[inline]
    pub fn waited(&mut self, now_ns: u64) {
        let span_ns = self.passed(now_ns);
        self.waiting.span_ns += span_ns;
        if span_ns > AWAKE_NS && self.on {
            self.note(StallKind::Waiting, span_ns);
        }
    }

    /// It called the kernel.
    #[inline]
    pub fn called(&mut self, now_ns: u64) {
        let span_ns = self.passed(now_ns);
        self.calls.span_ns += span_ns;
        if span_ns > CALL_NS && self.on {
            self.note(StallKind::Call, span_ns);
        }
    }

    /// It slept, and wanted to be awake `over_ns` ago.
    pub fn slept(&mut self, now_ns: u64, over_ns: u64) {
        self.sleeps.span_ns += self.passed(now_ns);
        if over_ns > CALL_NS && self.on {
            self.note(StallKind::Sleep, over_ns);
        }
    }

    /// It did something that has nothing to do with frames.
    pub const fn skip(&mut self, now_ns: u64) {
        self.since_ns = now_ns;
    }

    const fn passed(&mut self, now_ns: u64) -> u64 {
        let span_ns = now_ns.saturating_sub(self.since_ns);
        self.since_ns = now_ns;
        span_ns
    }

    /// A stall that ends now.
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

    /// What to tell of them: those one by one that ended at `since_ns` or later, none where that is absent.
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
    fn only_what_is_longer_than_a_thread_with_its_cpu_needs_is_a_stall() {
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
    fn the_last_are_told_one_by_one_and_all_are_counted() {
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
