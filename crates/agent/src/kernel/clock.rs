//! The one clock of the agent: `CLOCK_MONOTONIC`. Nothing else reads a clock for what is reported.

use nix::time::{clock_gettime, ClockId};

/// Now (ns).
pub fn now_ns() -> u64 {
    // The kernel has no way to refuse this clock; zero would be seen at once in every observation.
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |time| {
        let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
        seconds * 1_000_000_000 + u64::try_from(time.tv_nsec()).unwrap_or(0)
    })
}
