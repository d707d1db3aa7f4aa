"""Time as an argument: the one place that reads a clock, and a clock for tests that moves when told."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """What the stages are given when they need time."""

    def now_ns(self) -> int:
        """Return monotonic time [ns]."""

    def wall(self) -> datetime:
        """Return the date and time, with zone."""


class SystemClock:
    """The computer's clocks."""

    def now_ns(self) -> int:
        """Return CLOCK_MONOTONIC [ns]."""
        return time.monotonic_ns()

    def wall(self) -> datetime:
        """Return local date and time with zone."""
        return datetime.now(UTC).astimezone()


@dataclass
class VirtualClock:
    """A clock that stands still until it is advanced."""

    now: int = 0
    """Monotonic time [ns]."""
    start: datetime = datetime(2020, 1, 1, tzinfo=UTC)
    """Wall time at `now` = 0."""

    def now_ns(self) -> int:
        """Return the time it was advanced to [ns]."""
        return self.now

    def wall(self) -> datetime:
        """Return `start` plus the time advanced."""
        return self.start + timedelta(microseconds=self.now / 1000)

    def advance(self, duration_ns: int) -> None:
        """Move on [ns]."""
        self.now += duration_ns
