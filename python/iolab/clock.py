"""Clocks that are passed as arguments: the system's clock, and a clock for tests that is advanced manually."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Interface of clocks for code that needs the time."""

    def now_ns(self) -> int:
        """Return monotonic time [ns]."""

    def wall(self) -> datetime:
        """Return the current date and time with the time zone."""


class SystemClock:
    """The clocks of the host."""

    def now_ns(self) -> int:
        """Return CLOCK_MONOTONIC [ns]."""
        return time.monotonic_ns()

    def wall(self) -> datetime:
        """Return local date and time with the time zone."""
        return datetime.now(UTC).astimezone()


@dataclass
class VirtualClock:
    """A clock that changes only when it is advanced."""

    now: int = 0
    """Monotonic time [ns]."""
    start: datetime = datetime(2020, 1, 1, tzinfo=UTC)
    """Wall-clock time at which `now` was 0."""

    def now_ns(self) -> int:
        """Return the current time of this clock [ns]."""
        return self.now

    def wall(self) -> datetime:
        """Return `start` plus the current time of this clock."""
        return self.start + timedelta(microseconds=self.now / 1000)

    def advance(self, duration_ns: int) -> None:
        """Advance the clock [ns]."""
        self.now += duration_ns
