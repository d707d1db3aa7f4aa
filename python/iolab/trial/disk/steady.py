"""When a disk is steady: the rule of the Solid State Storage Performance Test Specification (SNIA PTS 2.0). Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

WINDOW = 5
"""Rounds that are looked at: the last ones."""
MOST_SPREAD, MOST_SLOPE = 0.2, 0.1
"""Of the window's mean: between its greatest and least round, and what a straight line through it rises or falls."""


@dataclass(frozen=True, slots=True)
class Steadiness:
    """How the last rounds lie."""

    spread_ratio: float
    """Greatest less least, of the mean."""
    slope_ratio: float
    """What the line through them rises or falls over the window, of the mean."""

    @property
    def reached(self) -> bool:
        """Whether the disk is steady."""
        return self.spread_ratio <= MOST_SPREAD and self.slope_ratio <= MOST_SLOPE


def steadiness(rounds: Sequence[float]) -> Steadiness | None:
    """Return how the last rounds of a rate lie; None: there are not enough yet."""
    last = np.asarray(rounds[-WINDOW:], dtype=np.float64)
    if len(last) < WINDOW or last.mean() <= 0:
        return None
    slope = float(np.polyfit(np.arange(WINDOW), last, 1)[0])
    return Steadiness(float(np.ptp(last) / last.mean()), abs(slope) * (WINDOW - 1) / float(last.mean()))
