"""Series: metrics over time, or over windows. The series of a trial are stored as columns of one table."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from iolab.locale import Phrase
from iolab.messages.statement import Name
from iolab.results.metric import WHOLE, Dimensions, Quantity

Times = NDArray[np.int64]
Values = NDArray[np.float64]


class Over(StrEnum):
    """The axis of a series."""

    TIME = "time"
    """Each point covers the time since the previous point."""
    WINDOWS = "windows"
    """Each point covers a window that starts at its time and has the length `window_ns`. A window without a point
    contained no traffic."""
    VALUES = "values"
    """The axis of the points is a quantity other than time; the name of the series states this quantity and its
    unit."""


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """One quantity during one trial."""

    name: Name
    """Name of the series, equal to that of the corresponding metric."""
    unit: Name
    """Unit of `values`."""
    at_ns: Times
    """Time of each point since the start of the measurement [ns]; ascending."""
    values: Values
    """Value of each point, in `unit`; NaN: unknown."""
    dimensions: Dimensions = WHOLE
    """Dimensions of the series."""
    over: Over = Over.TIME
    """Axis of the points."""
    source: Name = ""
    """Source of the series: the name of a sampler, a program or an instrument."""

    def __post_init__(self) -> None:
        """Reject a series whose columns have different lengths or an invalid order."""
        if self.at_ns.shape != self.values.shape or self.at_ns.ndim != 1:
            raise ValueError(
                Phrase(
                    "results.series-of-unequal-columns",
                    name=self.name,
                    times=self.at_ns.shape,
                    values=self.values.shape,
                )
            )
        if not len(self.at_ns):
            raise ValueError(Phrase("results.series-without-points", name=self.name))
        if not (np.diff(self.at_ns) > 0).all():
            raise ValueError(Phrase("results.series-times-not-increasing", name=self.name))

    @property
    def quantity(self) -> Quantity:
        """Return the quantity of the series."""
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
        """Hash by the quantity, which equal series share."""
        return hash((self.quantity, self.unit, self.over, self.source))


def series(
    name: str,
    unit: str,
    points: Sequence[tuple[int, float]],
    dimensions: Dimensions = WHOLE,
    source: str = "",
) -> Series:
    """Return a series over time from (time [ns], value) pairs."""
    at_ns = np.array([at for at, _ in points], dtype=np.int64)
    values = np.array([value for _, value in points], dtype=np.float64)
    return Series(name, unit, at_ns, values, dimensions, source=source)
