//! Reads the kernel's clocks, measures the offset between two of them, and pins threads. Decides nothing.

use std::io;

use crate::sys;

/// CLOCK_MONOTONIC now: the clock of every stamp of this crate. [ns]
#[inline]
pub fn now_ns() -> u64 {
    sys::clock_ns(libc::CLOCK_MONOTONIC)
}

/// Keeps the calling thread on one CPU.
///
/// # Errors
/// When there is no such CPU, or it is not allowed to this process.
pub fn pin_thread(cpu: usize) -> io::Result<()> {
    sys::pin_to(cpu)
}

/// What to take from CLOCK_REALTIME to get CLOCK_MONOTONIC, as measured by a tight bracket of readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RealtimeOffset {
    /// CLOCK_REALTIME minus CLOCK_MONOTONIC [ns]
    pub offset_ns: i64,
    /// half the width of the bracket: the error is at most this [ns]
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
        let realtime = sys::clock_ns(libc::CLOCK_REALTIME);
        let after = now_ns();
        let middle = before + (after - before) / 2;
        Self { offset_ns: realtime.wrapping_sub(middle).cast_signed(), error_ns: (after - before).div_ceil(2) }
    }

    /// Turns a CLOCK_REALTIME stamp into CLOCK_MONOTONIC. [ns]
    #[inline]
    pub fn to_monotonic(self, realtime_ns: u64) -> u64 {
        realtime_ns.saturating_add_signed(self.offset_ns.wrapping_neg())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A wall-clock stamp taken now becomes the monotonic time of now, within the stated error.
    #[test]
    fn wall_clock_stamps_become_monotonic() {
        let offset = RealtimeOffset::measure();
        let before = now_ns();
        let stamp = offset.to_monotonic(sys::clock_ns(libc::CLOCK_REALTIME));
        let after = now_ns();
        assert!(stamp + offset.error_ns + 1000 >= before && stamp <= after + offset.error_ns + 1000);
        assert!(offset.error_ns < 1_000_000);
    }
}
