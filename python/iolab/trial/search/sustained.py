"""What a device forwards without end, and what it takes up at once beyond that, by trials that saw it at its limit."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from iolab.results.search import TAKEN_UP_RATIO, Goal, LoadResult
from iolab.units import NS_PER_S

SLACK = 1.2
"""A burst may be this much larger than it was seen: part of its credit was used up before."""
LEAST_FRAMES = 64
"""Smaller bursts are none: a kernel takes as many frames at a time [frames]."""


@dataclass(frozen=True, slots=True)
class AtLimit:
    """A trial that saw the device at its limit."""

    fps: float
    """What came out there [frames/s]."""
    offered_fps: float
    """The load [frames/s]."""
    duration_ns: int
    """How long it was sent [ns]."""


@dataclass(frozen=True, slots=True)
class Sustained:
    """A device at its limit."""

    trials: tuple["AtLimit", ...] = ()
    """The trials that saw it there."""
    burst_frames: float = 0.0
    """What it passes on at once beyond that, per direction: a token bucket's credit, as large as ever seen [frames]."""

    @property
    def fps(self) -> float | None:
        """What it forwards without end: in the middle trial [frames/s]; None: it was never seen at its limit."""
        return statistics.median(each.fps for each in self.trials) if self.trials else None

    def seen(self, result: LoadResult) -> "Sustained":
        """Return what is known after another trial: the middle rate, and the largest burst of all."""
        if not result.at_limit or not result.sustained_fps:
            return self
        burst = result.burst_frames
        if burst < max(LEAST_FRAMES, TAKEN_UP_RATIO * result.offered_fps * result.duration_ns / NS_PER_S):
            burst = 0.0
        return Sustained(
            (*self.trials, AtLimit(result.sustained_fps, result.offered_fps, result.duration_ns)),
            max(self.burst_frames, burst),
        )

    def hides(self, result: LoadResult, goal: Goal) -> float | None:
        """Return the loss without end of a trial that met the goal, if a burst may have hidden it, or None.

        A burst did where a longer trial failed at this load or below: it used up what this one did not. A bucket
        saves up credit while the host holds the sender up: the mean load counts, and it may be below the rate.
        """
        fps = self.fps
        load_fps = result.intended_fps * (1.0 - result.short_ratio)
        if fps is None or not load_fps or not result.offered_frames:
            return None
        loss_ratio = 1.0 - fps / load_fps
        if loss_ratio <= goal.loss_ratio + TAKEN_UP_RATIO:
            return None
        beyond = (result.offered_fps - fps) * result.duration_ns / NS_PER_S
        # Where a burst was seen, a trial before may have left the longer one less of it.
        longer = 0.9 if self.burst_frames else 2.0
        outlasted = any(
            each.offered_fps <= result.offered_fps * (1.0 + TAKEN_UP_RATIO)
            and each.duration_ns >= longer * result.duration_ns
            for each in self.trials
        )
        taken_up = self.burst_frames > 0 and beyond <= SLACK * self.burst_frames
        return loss_ratio if outlasted or taken_up else None

    def exceeded_by(self, rate_fps: float | None, goal: Goal) -> bool:
        """Return whether a rate is more than the device forwards without end, by a burst and beyond the width."""
        fps = self.fps
        if fps is None or rate_fps is None or not self.burst_frames:
            return False
        return rate_fps * (1.0 - goal.loss_ratio) > fps * (1.0 + goal.relative_width)


UNKNOWN = Sustained()


def sustained_of(results: Sequence[LoadResult]) -> Sustained:
    """Return what all of these trials say together."""
    known = UNKNOWN
    for result in results:
        known = known.seen(result)
    return known
