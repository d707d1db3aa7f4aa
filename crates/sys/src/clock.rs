//! Reads the kernel's clocks and measures the offset between two of them. Decides nothing.

/// `CLOCK_MONOTONIC` now: the clock of every stamp of this crate. (ns)
#[inline]
pub fn now_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// How long the calling thread has run. (ns)
pub fn thread_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// `CLOCK_MONOTONIC` for loops that stamp every frame: the CPU's counter between readings of the clock a millisecond
/// apart, where the kernel's own clock is that counter; elsewhere the clock itself. 9 ns instead of 22 were measured.
///
/// Its times never run backwards. They differ from [`now_ns`] by what a reading is uncertain by, some tens of ns.
#[derive(Debug, Clone)]
pub struct StampClock {
    ticks: bool,
    anchor_ticks: u64,
    anchor_ns: u64,
    /// nanoseconds per tick, in units of 2^-32
    slope: u64,
    last_ns: u64,
}

/// Ticks until the clock is read again: under a millisecond at 2 GHz and more.
const HORIZON_TICKS: u64 = 1 << 21;

/// How long the first slope is measured. (ns)
const CALIBRATION_NS: u64 = 2_000_000;

impl StampClock {
    /// Calibrates for two milliseconds.
    pub fn new() -> Self {
        let source =
            std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
        let mut this = Self { ticks: false, anchor_ticks: 0, anchor_ns: 0, slope: 0, last_ns: 0 };
        if !cfg!(target_arch = "x86_64") || !source.is_ok_and(|source| source.trim() == "tsc") {
            return this;
        }
        let (first_ticks, first_ns) = pair();
        while now_ns() < first_ns + CALIBRATION_NS {
            std::hint::spin_loop();
        }
        (this.anchor_ticks, this.anchor_ns) = pair();
        this.ticks = this.anchor_ticks > first_ticks;
        if this.ticks {
            this.slope = slope(this.anchor_ticks - first_ticks, this.anchor_ns - first_ns);
        }
        this
    }

    /// The time now. (ns)
    #[inline]
    pub fn now_ns(&mut self) -> u64 {
        if !self.ticks {
            return now_ns();
        }
        let passed = ticks().wrapping_sub(self.anchor_ticks);
        if passed > HORIZON_TICKS {
            return self.read_again();
        }
        // Below 2^21 ticks, so the product stays within 64 bits for counters of 0.001 GHz and more.
        self.last_ns = self.last_ns.max(self.anchor_ns + ((passed * self.slope) >> 32));
        self.last_ns
    }

    #[cold]
    fn read_again(&mut self) -> u64 {
        let (ticks, ns) = pair();
        let (ticks_passed, ns_passed) = (ticks - self.anchor_ticks, ns - self.anchor_ns);
        // A long stretch gives the slope better than a short one; the oldest half of what was known fades away.
        self.slope = self.slope.midpoint(slope(ticks_passed, ns_passed));
        (self.anchor_ticks, self.anchor_ns) = (ticks, ns);
        self.last_ns = self.last_ns.max(ns);
        self.last_ns
    }
}

impl Default for StampClock {
    fn default() -> Self {
        Self::new()
    }
}

/// One moment on the counter and on the clock: the tightest bracket of a few.
fn pair() -> (u64, u64) {
    let mut best = (u64::MAX, 0, 0);
    for _ in 0..4 {
        let before = ticks();
        let ns = now_ns();
        let after = ticks();
        best = best.min((after.wrapping_sub(before), before + after.wrapping_sub(before) / 2, ns));
    }
    (best.1, best.2)
}

fn slope(ticks: u64, ns: u64) -> u64 {
    u64::try_from((u128::from(ns) << 32) / u128::from(ticks.max(1))).unwrap_or(u64::MAX)
}

/// What to take from `CLOCK_REALTIME` to get `CLOCK_MONOTONIC`, as measured by a tight bracket of readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RealtimeOffset {
    /// `CLOCK_REALTIME` minus `CLOCK_MONOTONIC` (ns)
    pub offset_ns: i64,
    /// half the width of the bracket: the error is at most this (ns)
    pub error_ns: u64,
}

impl RealtimeOffset {
    /// Measures the offset: the best of some tries, so that a preempted one does not count.
    pub fn measure() -> Self {
        const TRIES: usize = 8;
        let mut best = Self::once();
        for _ in 1..TRIES {
            let next = Self::once();
            if next.error_ns < best.error_ns {
                best = next;
            }
        }
        best
    }

    fn once() -> Self {
        let before = now_ns();
        let realtime = clock_ns(libc::CLOCK_REALTIME);
        let after = now_ns();
        let middle = before + (after - before) / 2;
        Self {
            offset_ns: i64::from_ne_bytes(realtime.wrapping_sub(middle).to_ne_bytes()),
            error_ns: (after - before).div_ceil(2),
        }
    }

    /// Turns a `CLOCK_REALTIME` stamp into `CLOCK_MONOTONIC`. (ns)
    #[inline]
    pub fn to_monotonic(self, realtime_ns: u64) -> u64 {
        realtime_ns.saturating_add_signed(self.offset_ns.wrapping_neg())
    }
}

/// The time of one of the kernel's clocks. (ns)
fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the result; the clocks passed here exist on every kernel.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// The CPU's cycle counter, or 0 where it has none that programs may read.
#[inline]
fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has the instruction, and it touches no memory.
    return unsafe { std::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    return 0;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A wall-clock stamp taken now becomes the monotonic time of now, within the stated error.
    #[test]
    fn wall_clock_stamps_become_monotonic() {
        let offset = RealtimeOffset::measure();
        let before = now_ns();
        let stamp = offset.to_monotonic(clock_ns(libc::CLOCK_REALTIME));
        let after = now_ns();
        assert!(stamp + offset.error_ns + 1000 >= before && stamp <= after + offset.error_ns + 1000);
        assert!(offset.error_ns < 1_000_000);
    }

    /// The fast clock lies between two readings of the slow one, give or take a microsecond, and never runs backwards.
    #[test]
    fn the_fast_clock_agrees_with_the_slow_one() {
        let (mut clock, mut last_ns, mut agreed) = (StampClock::new(), 0, 0);
        for round in 0..2000 {
            let before = now_ns();
            let stamp = clock.now_ns();
            let after = now_ns();
            assert!(stamp >= last_ns);
            last_ns = stamp;
            agreed += u32::from(stamp + 1000 >= before && stamp <= after + 1000);
            if round % 100 == 0 {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
        // A virtual machine that is moved or stopped in between may disagree for a moment.
        assert!(agreed > 1980, "{agreed} of 2000");
    }
}
