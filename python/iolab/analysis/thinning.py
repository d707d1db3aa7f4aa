"""Reduce the points of a series for charts: windows at many scales, and minimum, mean and maximum of equal time
intervals. Pure.

Each level of windows holds the minimum, mean and maximum of eight windows of the level below. A chart of any width
then needs a few points of one level, independent of the number of windows.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from iolab.results.series import Series, Values

STEP = 8
"""Number of windows of one level that form one window of the next coarser level."""
FEWEST = 512
"""Maximum number of points in the coarsest level."""
MOST_WINDOWS = 40_000_000
"""Maximum number of windows in a chart: 8 minutes of 12 us windows."""
Levels = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """One scale of a window series."""

    span_ns: int
    """Time span of a point [ns]."""
    low: Levels
    """Minimum over the windows of each point."""
    mean: Levels
    """Mean over the windows of each point."""
    high: Levels
    """Maximum over the windows of each point."""


@dataclass(frozen=True, slots=True, eq=False)
class Pyramid:
    """A window series at several scales."""

    begin_ns: int
    """Start of the first window [ns since the trial's start]."""
    levels: tuple[Level, ...]
    """Levels, the finest first; in the finest level minimum, mean and maximum are equal."""


def pyramid(series: Series) -> Pyramid | None:
    """Return the scales of a window series; None if the series has no windows, or too many."""
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
    """Return the next coarser level; missing windows at the end of the last point count as 0."""
    count = -(-len(level.mean) // STEP)
    room = count * STEP - len(level.mean)

    def groups(values: Levels) -> Levels:
        return np.pad(values, (0, room)).reshape(count, STEP)

    mean = groups(level.mean).mean(axis=1, dtype=np.float32)
    return Level(level.span_ns * STEP, groups(level.low).min(axis=1), mean, groups(level.high).max(axis=1))


@dataclass(frozen=True, slots=True, eq=False)
class Thinned:
    """A series as columns of equal duration, from the start to the end of the trial; NaN if a column has no point."""

    low: Values
    """Minimum of each column."""
    mean: Values
    """Mean of each column."""
    high: Values
    """Maximum of each column."""
    points: int
    """Number of points in the series."""

    @property
    def thinned(self) -> bool:
        """Whether the series has more points than columns."""
        return self.points > len(self.mean)


def thin(series: Series, end_ns: int, most: int) -> Thinned:
    """Return a series in at most `most` columns of equal duration up to `end_ns`.

    A short series has as many columns as points; a column then represents two points only if the points are unevenly
    spaced.
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
