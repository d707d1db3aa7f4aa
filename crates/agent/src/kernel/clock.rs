//! The agent's only clock: `CLOCK_MONOTONIC`. All reported times come from this clock.

use nix::time::{clock_gettime, ClockId};

/// Return the current time in ns.
pub fn now_ns() -> u64 {
    // Reading this clock never fails; a time of zero would be obvious in every observation.
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |time| {
        let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
        seconds * 1_000_000_000 + u64::try_from(time.tv_nsec()).unwrap_or(0)
    })
}
