"""Series with fewer points, for places that have no room for all: the least, mean and largest of equal times. Pure."""

from dataclasses import dataclass

import numpy as np

from iolab.results.series import Series, Values


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
