"""Result types of summaries over the levels of a factor."""

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
    """One statistic over the levels of a factor within each block, with all other levels equal."""

    measure: str
    """Measure name."""
    metric: Quantity
    """Metric."""
    unit: str
    """Unit of the values."""
    over: str
    """The factor."""
    levels: tuple[str, ...]
    """Labels of the factor's levels that exist in the cell."""
    cell: Mapping[str, str]
    """Level label by factor, without the summarised factor."""
    statistic: Statistic
    """Statistic over the levels in one block."""
    values: tuple[float, ...]
    """One value per block in which every level has a trial, in block order."""
    left_out: int
    """Number of blocks in which a level has no trial."""
    mean: float
    """Arithmetic mean of the blocks' values."""
    min: float
    """Minimum of the values."""
    max: float
    """Maximum of the values."""
    ci: "Interval | None"
    """Confidence interval of the mean; None with fewer than 4 blocks."""
    limited_by: tuple[str, ...] = ()
    """Instrument limits in the underlying trials; unless empty, the figure is only a lower bound."""
    method: Method = 1
    """Version of the method that computed the values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelsLeftOut:
    """A cell without a summary over the levels of a factor."""

    measure: str
    """Measure name."""
    metric: Quantity
    """Metric of the missing summary."""
    over: str
    """The factor."""
    cell: Mapping[str, str]
    """Level label by factor, without the summarised factor."""
    levels: tuple[str, ...]
    """Levels that have a value; if there are several, no block has a trial of all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelsRatio:
    """Ratio of a summary at one level of a second factor to the summary at another level of this factor, within each
    block."""

    measure: str
    """Measure name."""
    metric: Quantity
    """Metric."""
    over: str
    """The summarised factor."""
    levels: tuple[str, ...]
    """Labels of the summarised factor, which are the same on both sides of the ratio."""
    cell: Mapping[str, str]
    """Level label by factor, without the summarised factor and the compared factor."""
    between: LevelRatio
    """Compared factor and its two levels."""
    statistic: Statistic
    """Statistic over the levels in one block."""
    n: int
    """Number of blocks in which both summaries exist."""
    ratio: float | None
    """Geometric mean over the blocks (arithmetic if a ratio is 0); None if one side is only a bound."""
    ci: "Interval | None"
    """Confidence interval of the ratio; None with fewer than 4 blocks."""
    bound: Bound | None = None
    """Kind of bound of the ratio if one side is a bound; None if neither side or both sides are."""
