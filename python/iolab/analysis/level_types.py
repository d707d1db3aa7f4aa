"""What analysis sums up over the levels of a factor."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from iolab.analysis.forwarding_types import Bound
from iolab.experiment.experiment import LevelRatio, Statistic
from iolab.results.metric import Method, Quantity

if TYPE_CHECKING:
    from iolab.analysis.types import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelsFigure:
    """One statistic over the levels of a factor within each block, all other levels being the same."""

    measure: str
    """Name of the measure."""
    metric: Quantity
    """What it is of."""
    unit: str
    """Of the figures."""
    over: str
    """The factor."""
    levels: tuple[str, ...]
    """Its labels that the cell has."""
    cell: Mapping[str, str]
    """Factor to label, without that factor."""
    statistic: Statistic
    """Of the levels in one block."""
    values: tuple[float, ...]
    """One per block in which every level has a trial, in order of block."""
    left_out: int
    """Blocks in which a level has none."""
    mean: float
    """Arithmetic mean of the blocks' values."""
    min: float
    """Smallest of them."""
    max: float
    """Largest of them."""
    ci: "Interval | None"
    """Of the mean; from 4 blocks up."""
    limited_by: tuple[str, ...] = ()
    """What of the instrument limited trials behind it; with any, it is only a lower bound."""
    method: Method = 1
    """Version of the method behind it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelsLeftOut:
    """A cell that has no figure over the levels of a factor."""

    measure: str
    """Name of the measure."""
    metric: Quantity
    """What it would be of."""
    over: str
    """The factor."""
    cell: Mapping[str, str]
    """Its other levels."""
    levels: tuple[str, ...]
    """Levels that have a figure, not all in one block where there are several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelsRatio:
    """Such a figure at one level of another factor over that at a second one, within each block."""

    measure: str
    """Name of the measure."""
    metric: Quantity
    """What it is of."""
    over: str
    """The factor whose levels the figures are of."""
    levels: tuple[str, ...]
    """Its labels, the same on both sides."""
    cell: Mapping[str, str]
    """Factor to label, without that factor and the one compared."""
    between: LevelRatio
    """Factor and levels that are compared."""
    statistic: Statistic
    """Of the levels in one block."""
    n: int
    """Blocks that have both sides."""
    ratio: float | None
    """Geometric mean over the blocks (arithmetic where a ratio is 0); None where one of its sides is only a bound."""
    ci: "Interval | None"
    """Of the ratio; from 4 blocks up."""
    bound: Bound | None = None
    """What the ratio is, where one of its sides is a bound; where both are there is none."""
