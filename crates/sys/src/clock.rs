//! Readings of the kernel's clocks, and the offset between two clocks.

/// Return the current time of `CLOCK_MONOTONIC` in ns. All timestamps of this crate use this clock.
#[inline]
pub fn now_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// Return the CPU time of the calling thread in ns.
pub fn thread_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// A fast `CLOCK_MONOTONIC` for loops that timestamp every frame.
///
/// If the kernel's clock source is the TSC, the clock interpolates with the TSC between readings of the kernel's clock,
/// which are one millisecond apart. With a different clock source, the clock reads the kernel's clock each time. A
/// timestamp took 9 ns instead of 22 ns in a measurement.
///
/// The timestamps of the clock never decrease. The timestamps differ from [`now_ns`] by the uncertainty of a reading,
/// some tens of ns.
#[derive(Debug, Clone)]
pub struct StampClock {
    ticks: bool,
    anchor_ticks: u64,
    anchor_ns: u64,
    /// Nanoseconds per tick, in units of 2^-32.
    slope: u64,
    last_ns: u64,
}

/// Number of ticks until the next reading of the kernel's clock: about a millisecond at 2 GHz.
const HORIZON_TICKS: u64 = 1 << 21;

/// Duration of the first calibration of the slope, in ns.
const CALIBRATION_NS: u64 = 2_000_000;

impl StampClock {
    /// Create a clock and calibrate it for two milliseconds.
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

    /// Return the current time in ns.
    #[inline]
    pub fn now_ns(&mut self) -> u64 {
        if !self.ticks {
            return now_ns();
        }
        let passed = ticks().wrapping_sub(self.anchor_ticks);
        if passed > HORIZON_TICKS {
            return self.read_again();
        }
        // `passed` is at most 2^21, so the product fits into 64 bits for counters of 0.001 GHz or more.
        self.last_ns = self.last_ns.max(self.anchor_ns + ((passed * self.slope) >> 32));
        self.last_ns
    }

    #[cold]
    fn read_again(&mut self) -> u64 {
        let (ticks, ns) = pair();
        let (ticks_passed, ns_passed) = (ticks - self.anchor_ticks, ns - self.anchor_ns);
        // A longer interval gives a more accurate slope; each reading halves the weight of the previous
        // slope.
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

/// Return a TSC value and the clock time at the same instant: of four readings, the one with the smallest uncertainty.
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

/// The difference between `CLOCK_REALTIME` and `CLOCK_MONOTONIC`, from one reading of the former between two
/// readings of the latter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RealtimeOffset {
    /// `CLOCK_REALTIME` minus `CLOCK_MONOTONIC`, in ns.
    pub offset_ns: i64,
    /// Maximum error of the offset: half the time between the two outer readings, in ns.
    pub error_ns: u64,
}

impl RealtimeOffset {
    /// Measure the offset: the most accurate of eight readings, so that preempted readings are ignored.
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

    /// Convert a `CLOCK_REALTIME` timestamp to `CLOCK_MONOTONIC`, both in ns.
    #[inline]
    pub fn to_monotonic(self, realtime_ns: u64) -> u64 {
        realtime_ns.saturating_add_signed(self.offset_ns.wrapping_neg())
    }
}

/// Return the current time of a kernel clock in ns.
fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for the result; all kernels have the clocks that the callers pass.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Return the CPU's timestamp counter (TSC), or 0 on architectures other than x86-64.
#[inline]
fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 CPU has the instruction, and it accesses no memory.
    return unsafe { std::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    return 0;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A wall-clock timestamp taken now is converted to the current monotonic time, within the stated error.
    #[test]
    fn wall_clock_stamps_are_converted_to_monotonic_time() {
        let offset = RealtimeOffset::measure();
        let before = now_ns();
        let stamp = offset.to_monotonic(clock_ns(libc::CLOCK_REALTIME));
        let after = now_ns();
        assert!(stamp + offset.error_ns + 1000 >= before && stamp <= after + offset.error_ns + 1000);
        assert!(offset.error_ns < 1_000_000);
    }

    /// A reading of the fast clock lies between two readings of the kernel's clock, to within a microsecond, and the
    /// fast clock never decreases.
    #[test]
    fn fast_clock_agrees_with_the_system_clock() {
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
