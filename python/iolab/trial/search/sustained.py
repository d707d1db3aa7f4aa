"""What a device forwards without end, and what it takes up at once beyond that, by trials that saw it at its limit."""

from collections.abc import Sequence
from dataclasses import dataclass

from .types import NS_PER_S, TAKEN_UP_RATIO, Goal, LoadResult

SLACK = 1.2
"""A burst may be this much larger than it was seen: part of its credit was used up before."""
LEAST_FRAMES = 64
"""Smaller bursts are none: a kernel takes as many frames at a time [frames]."""


@dataclass(frozen=True, slots=True)
class Sustained:
    """A device at its limit."""

    fps: float | None = None
    """What it forwards without end [frames/s]; None: it was never seen at its limit."""
    burst_frames: float = 0.0
    """What it passes on at once beyond that, per direction: a token bucket's credit, as large as ever seen [frames]."""
    failed: tuple[tuple[float, int], ...] = ()
    """Loads that it was at its limit at [frames/s], and for how long [ns]."""

    def seen(self, result: LoadResult) -> "Sustained":
        """Return what is known after a trial at the limit, too: the best that was seen."""
        if not result.at_limit or not result.sustained_fps:
            return self
        burst = result.burst_frames
        if burst < max(LEAST_FRAMES, TAKEN_UP_RATIO * result.offered_fps * result.duration_ns / NS_PER_S):
            burst = 0.0
        return Sustained(
            max(self.fps or 0.0, result.sustained_fps),
            max(self.burst_frames, burst),
            (*self.failed, (result.offered_fps, result.duration_ns)),
        )

    def hides(self, result: LoadResult, goal: Goal) -> float | None:
        """Return the loss without end of a trial that met the goal, if a burst may have hidden it, or None.

        A burst did where a trial twice as long failed at this load or below: it used up what this one did not.
        """
        if self.fps is None or not result.offered_fps:
            return None
        loss_ratio = 1.0 - self.fps / result.offered_fps
        if loss_ratio <= goal.loss_ratio + TAKEN_UP_RATIO:
            return None
        beyond = loss_ratio * result.offered_fps * result.duration_ns / NS_PER_S
        outlasted = any(
            fps <= result.offered_fps * (1.0 + TAKEN_UP_RATIO) and duration_ns >= 2 * result.duration_ns
            for fps, duration_ns in self.failed
        )
        return loss_ratio if outlasted or beyond <= SLACK * self.burst_frames else None

    def exceeded_by(self, rate_fps: float | None, goal: Goal) -> bool:
        """Return whether a rate is more than the device forwards without end, by a burst and beyond the width."""
        if self.fps is None or rate_fps is None or not self.burst_frames:
            return False
        return rate_fps * (1.0 - goal.loss_ratio) > self.fps * (1.0 + goal.relative_width)


UNKNOWN = Sustained()


def sustained_of(results: Sequence[LoadResult]) -> Sustained:
    """Return what all of these trials say together."""
    known = UNKNOWN
    for result in results:
        known = known.seen(result)
    return known
