"""Series with fewer points, for charts: windows at many scales, and the least, mean and largest of equal times. Pure.

Each level of windows has the least, mean and largest of eight of the level below. A chart of any width then needs a few
points of one level, however many windows there are.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from iolab.results.series import Series, Values

STEP = 8
"""Windows of one level in one of the next."""
FEWEST = 512
"""A level of so many points needs none above it."""
MOST_WINDOWS = 40_000_000
"""More are too many for one chart: 8 minutes of 12 us."""
Levels = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """One scale."""

    span_ns: int
    """What a point stands for [ns]."""
    low: Levels
    """Least of the windows of each point."""
    mean: Levels
    """Their mean."""
    high: Levels
    """Largest."""


@dataclass(frozen=True, slots=True, eq=False)
class Pyramid:
    """A series of windows."""

    begin_ns: int
    """When the first window begins [ns of the trial]."""
    levels: tuple[Level, ...]
    """The finest first; its least, mean and largest are one."""


def pyramid(series: Series) -> Pyramid | None:
    """Return the scales of a series of windows; None: it is of no windows, or of too many."""
    window_ns = series.dimensions.window_ns
    if window_ns is None:
        return None
    begin_ns = int(series.at_ns[0])
    place = (series.at_ns - begin_ns) // window_ns
    count = int(place[-1]) + 1
    if count > MOST_WINDOWS:
        return None
    values = np.zeros(count, dtype=np.float32)
    values[place] = series.values
    levels = [Level(window_ns, values, values, values)]
    while len(levels[-1].mean) > FEWEST:
        levels.append(_above(levels[-1]))
    return Pyramid(begin_ns, tuple(levels))


def _above(level: Level) -> Level:
    """Return the next level; what is missing at the end of the last point carried nothing."""
    count = -(-len(level.mean) // STEP)
    room = count * STEP - len(level.mean)

    def groups(values: Levels) -> Levels:
        return np.pad(values, (0, room)).reshape(count, STEP)

    mean = groups(level.mean).mean(axis=1, dtype=np.float32)
    return Level(level.span_ns * STEP, groups(level.low).min(axis=1), mean, groups(level.high).max(axis=1))


@dataclass(frozen=True, slots=True, eq=False)
class Thinned:
    """A series as columns of equal time, from the trial's begin to its end; NaN: no point is there."""

    low: Values
    """Least of each column."""
    mean: Values
    """Mean of each column."""
    high: Values
    """Largest of each column."""
    points: int
    """How many points the series had."""

    @property
    def thinned(self) -> bool:
        """Whether a column stands for several points."""
        return self.points > len(self.mean)


def thin(series: Series, end_ns: int, most: int) -> Thinned:
    """Return a series in at most `most` columns, each of the same part of the time up to `end_ns`.

    A short series gets as many columns as it has points: none stands for two unless the points are uneven.
    """
    known = ~np.isnan(series.values)
    count = max(1, min(most, len(series.values)))
    share = (np.maximum(series.at_ns, 1) - 1) / max(end_ns, 1)
    place = np.minimum((share * count).astype(np.int64), count - 1)[known]
    values = series.values[known]
    low, high = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(low, place, values)
    np.maximum.at(high, place, values)
    each = np.bincount(place, minlength=count)
    total = np.bincount(place, weights=values, minlength=count)
    empty = each == 0
    low[empty] = high[empty] = np.nan
    mean = np.where(empty, np.nan, total / np.maximum(each, 1))
    return Thinned(low, mean, high, int(known.sum()))
