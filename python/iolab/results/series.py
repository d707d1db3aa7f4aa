"""Series: a metric over time, or over windows. A trial has many; on disk they are columns of one table."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from iolab.messages.statement import Name
from iolab.results.metric import WHOLE, Dimensions, Quantity

Times = NDArray[np.int64]
Values = NDArray[np.float64]


class Over(StrEnum):
    """What the points of a series follow each other in."""

    TIME = "time"
    """Each point is of the time since the point before it."""
    WINDOWS = "windows"
    """Each point is of a window that begins there and lasts for the dimension `window_ns`. A window without a point
    carried nothing."""
    VALUES = "values"
    """Each point is of a value that stands in the place of the time: the series' name says of what, in which unit."""


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """One quantity over one trial."""

    name: Name
    """As of the metric of the same meaning."""
    unit: Name
    """Of `values`."""
    at_ns: Times
    """When each point was taken, since the trial began to measure [ns]; rising."""
    values: Values
    """One per point, in `unit`; NaN: not known there."""
    dimensions: Dimensions = WHOLE
    """What it is about."""
    over: Over = Over.TIME
    """What the points are of."""
    source: Name = ""
    """What read it: the name of a sampler, a program or an instrument."""

    def __post_init__(self) -> None:
        """Refuse a series whose columns do not belong together."""
        if self.at_ns.shape != self.values.shape or self.at_ns.ndim != 1:
            raise ValueError(f"series {self.name}: {self.at_ns.shape} times and {self.values.shape} values")
        if not len(self.at_ns):
            raise ValueError(f"series {self.name}: it has no points; what was never seen has no series")
        if not (np.diff(self.at_ns) > 0).all():
            raise ValueError(f"series {self.name}: its times do not rise")

    @property
    def quantity(self) -> Quantity:
        """Return what it is of."""
        return Quantity(self.name, self.dimensions)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Series)
            and (self.quantity, self.unit, self.over) == (other.quantity, other.unit, other.over)
            and self.source == other.source
            and np.array_equal(self.at_ns, other.at_ns)
            and np.array_equal(self.values, other.values, equal_nan=True)
        )

    def __hash__(self) -> int:
        """Of what it is of, which equal series share."""
        return hash((self.quantity, self.unit, self.over, self.source))


def series(
    name: str,
    unit: str,
    points: Sequence[tuple[int, float]],
    dimensions: Dimensions = WHOLE,
    source: str = "",
) -> Series:
    """Return a series over time of (time [ns], value) pairs."""
    at_ns = np.array([at for at, _ in points], dtype=np.int64)
    values = np.array([value for _, value in points], dtype=np.float64)
    return Series(name, unit, at_ns, values, dimensions, source=source)
