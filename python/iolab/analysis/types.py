"""Result types of the analysis; the report only formats them."""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, overload

from iolab.analysis.forwarding_types import Bound, Forwarding, Onset, StreamLimits
from iolab.analysis.level_types import LevelsFigure, LevelsLeftOut, LevelsRatio
from iolab.analysis.path_product import PathProduct
from iolab.messages.notes import Unusual
from iolab.messages.warnings import TrialWarning
from iolab.results.metric import Method, Quantity

if TYPE_CHECKING:  # expectations use the types of this module
    from iolab.analysis.expectations import Judged

TOGETHER = 1024
"""Number of estimates that are computed at once in an iteration over all estimates."""
CellKey = frozenset[tuple[str, str]]
"""Hashable form of a cell."""


def cell_key(cell: Mapping[str, str]) -> CellKey:
    """Return a hashable form of a cell."""
    return frozenset(cell.items())


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval."""

    low: float
    """Lower end, in the unit of the estimated value."""
    high: float
    """Upper end."""
    method: str
    """Method of the interval, e.g. 't' or 't on log ratios'."""
    level_ratio: float = 0.95
    """Confidence level [ratio]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Estimate of one metric of one measure in one cell, over its trials (one per block)."""

    cell: Mapping[str, str]
    """Level label by factor."""
    measure: str
    """Measure name."""
    metric: Quantity
    """Metric."""
    unit: str
    """Unit of mean, min, max, median and ci."""
    n: int
    """Number of trials."""
    mean: float
    """Arithmetic mean."""
    min: float
    """Minimum over trials."""
    max: float
    """Maximum over trials."""
    median: float
    """Median over trials."""
    ci: Interval | None
    """Confidence interval of the mean by Student's t; None with fewer than 4 trials."""
    ratio: float | None
    """Geometric mean of the ratios to the baseline trial of the same block (arithmetic if a ratio is 0); None without
    a baseline."""
    ratio_ci: Interval | None
    """Confidence interval of the ratio."""
    p_value: float | None
    """p-value of ratio = 1, corrected for the number of cells compared (Holm); None without a baseline, or with fewer
    than 4 blocks."""
    values: tuple[float, ...]
    """Values of the trials, in block order."""
    outliers: tuple[int, ...]
    """Indices of the outliers in `values`."""
    mean_without: float | None
    """Mean without the outliers; None if there are no outliers."""
    ratio_without: float | None
    """Ratio without the outliers of the cell and of its baseline; None if there are no outliers, or if there is no
    baseline."""
    ratio_n: int = 0
    """Number of trials in the ratio; below `n` if the baseline trial of a block is missing or 0."""
    bounds: int = 0
    """Number of trials whose value is only a lower bound; if it is not 0, mean, median and max are lower bounds
    too."""
    limited_by: tuple[str, ...] = ()
    """Instrument limits of these trials, the most common first."""
    direction: str = ""
    """Resolved direction of the measure in this cell, independent of the level's label; empty if the measure has no
    direction."""
    least_is_bound: bool = False
    """Whether `min` is only a lower bound."""
    ratio_bound: Bound | None = None
    """Kind of bound of the ratio if one of its sides is a bound; None if the ratio is exact or missing."""
    better: str = ""
    """Preferred direction of the metric: "larger", "smaller", or empty if not declared."""
    apart: str = ""
    """Reason code if the cell has no ratio; empty otherwise.

    A trial of the cell must not be compared with others (the cell is then no baseline either), or the cell is not
    comparable with its baseline.
    """
    method: Method = 1
    """Method version of all values."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Values of all cells for selecting estimates."""

    means: Sequence[float]
    """Mean per cell."""
    ratios: Sequence[float]
    """Ratio to the baseline per cell; NaN if there is none."""
    methods: Collection[str]
    """Methods of the intervals."""
    bounded: Collection[int] = frozenset()
    """Indices of cells whose mean is only a lower bound; they are not ranked among the means."""

    @property
    def ends(self) -> tuple[int, int]:
        """Return the indices of the smallest and largest exact mean; if all means are bounds, of the smallest and
        largest bound."""
        every = range(len(self.means))
        exact = [at for at in every if at not in self.bounded] if self.bounded else every
        chosen = exact or every
        return min(chosen, key=self.means.__getitem__), max(chosen, key=self.means.__getitem__)


class Cells(tuple[Mapping[str, str], ...]):  # noqa: SLOT001 - a tuple holds no slots; it keeps what was looked for
    """Cells with a cached lookup of indices; metrics with equal cells share one object."""

    _looked_up: tuple[frozenset[CellKey], Sequence[int]] = (frozenset(), ())

    def indices(self, wanted: frozenset[CellKey]) -> Sequence[int]:
        """Return the indices of the wanted cells; only the last result is cached, to avoid a key per cell for a
        million cells."""
        if self._looked_up[0] != wanted:
            self._looked_up = wanted, [at for at, cell in enumerate(self) if cell_key(cell) in wanted]
        return self._looked_up[1]


class CellEstimates(Sequence[Estimate]):
    """Estimates of one metric of one measure, one per cell that has the metric, in the plan's order.

    Each estimate is computed on access: a run may have millions of them, and a report shows a few hundred.
    """

    def __init__(
        self,
        cells: Sequence[Mapping[str, str]],
        make: Callable[[range], list[Estimate]],
        figures: Callable[[], Figures] | None = None,
    ) -> None:
        """Keep the functions: `make` returns the estimates of cells by index, `figures` the values for selection if
        that is faster."""
        self.cells = cells if isinstance(cells, Cells) else Cells(cells)
        self._make = make
        self._figures = figures

    def __len__(self) -> int:
        return len(self.cells)

    def __iter__(self) -> Iterator[Estimate]:
        for first in range(0, len(self), TOGETHER):
            yield from self._make(range(first, min(first + TOGETHER, len(self))))

    @overload
    def __getitem__(self, at: int) -> Estimate: ...
    @overload
    def __getitem__(self, at: slice) -> list[Estimate]: ...
    def __getitem__(self, at: int | slice) -> Estimate | list[Estimate]:
        wanted = range(len(self.cells))[at]
        return self._make(range(wanted, wanted + 1))[0] if isinstance(wanted, int) else self._make(wanted)

    def of_cells(self, wanted: Collection[CellKey]) -> dict[CellKey, Estimate]:
        """Return the estimates of the wanted cells that exist."""
        found = self.cells.indices(frozenset(wanted))
        return {cell_key(self.cells[index]): self[index] for index in found}

    def figures(self) -> Figures:
        """Return the values for selection, without computing estimates if possible."""
        return figures_of(self) if self._figures is None else self._figures()


def figures_of(estimates: Iterable[Estimate]) -> Figures:
    """Collect the values for selection from estimates."""
    means, ratios, methods, bounded = [], [], set(), set()
    for at, each in enumerate(estimates):
        means.append(each.mean)
        bounded |= {at} if each.bounds else set()
        ratios.append(math.nan if each.ratio is None else each.ratio)
        methods |= {ci.method for ci in (each.ci, each.ratio_ci) if ci is not None}
    return Figures(means, ratios, methods, bounded)


def cells_of(estimates: Sequence[Estimate]) -> Sequence[Mapping[str, str]]:
    """Return the cells of estimates, without computing any estimate."""
    return estimates.cells if isinstance(estimates, CellEstimates) else [each.cell for each in estimates]


class Estimates(Sequence[Estimate]):
    """All estimates of a run, by measure and metric."""

    def __init__(self, by_metric: Mapping[tuple[str, Quantity], CellEstimates]) -> None:
        """Keep the estimates; the keys are measure and metric."""
        self.by_metric = by_metric

    def of_measure(self, measure: str) -> dict[Quantity, CellEstimates]:
        """Return the estimates of one measure, by metric."""
        return {metric: own for (name, metric), own in self.by_metric.items() if name == measure}

    def __len__(self) -> int:
        return sum(map(len, self.by_metric.values()))

    def __iter__(self) -> Iterator[Estimate]:
        return chain.from_iterable(self.by_metric.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Estimates) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash(tuple(self.by_metric))

    @overload
    def __getitem__(self, at: int) -> Estimate: ...
    @overload
    def __getitem__(self, at: slice) -> list[Estimate]: ...
    def __getitem__(self, at: int | slice) -> Estimate | list[Estimate]:
        return list(self)[at]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlier:
    """An outlier: a trial that deviates from the other trials of its cell. An outlier is marked, never deleted."""

    key: str
    """Key of the trial record."""
    measure: str
    """Measure name."""
    metric: Quantity
    """Metric with the outlier."""
    cell: Mapping[str, str]
    """Level label by factor."""
    block: int
    """Block number."""
    value: float
    """Measured value."""
    robust_z: float
    """Distance from the median in robust standard deviations."""
    beside: tuple[Unusual, ...] = ()
    """Other unusual metrics of the same trial."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """Effect of changing one factor, or of several together (an interaction), on a metric, over all other factors."""

    measure: str
    """Measure name."""
    metric: Quantity
    """Metric."""
    levels: Mapping[str, str]
    """Level by factor; one entry: a main effect, two: an interaction."""
    reference: Mapping[str, str]
    """Reference level by factor."""
    ratio: float
    """Ratio of the metric at `levels` to the metric at `reference`; for an interaction, the ratio of the joint effect
    to the product of the separate effects."""
    ci: Interval | None
    """Confidence interval of the ratio."""
    p_value: float | None
    """p-value of ratio = 1, Holm-corrected."""
    better: str = ""
    """Preferred direction of the metric: "larger", "smaller", or empty if not declared."""
    conditions: Mapping[str, str] = field(default_factory=dict)
    """Level by factor, for the factors of which only this level could be compared; empty: all levels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One conclusion in the summary: a level compared with the baseline (or first) level, under fixed conditions."""

    measure: str
    """Measure name."""
    metric: Quantity
    """Leading metric."""
    factor: str
    """Changed factor."""
    level: str
    """New level."""
    reference: str
    """Reference level."""
    conditions: Mapping[str, str]
    """Factor levels for which the finding applies; empty: all levels."""
    ratio: float
    """Ratio of the metric at `level` to the metric at `reference`."""
    ci: Interval | None
    """Confidence interval of the ratio."""
    shown: bool
    """Whether the difference is significant at the corrected level."""
    each_direction: bool = False
    """Whether the mean of the directions is compared instead of their sum, because the load of each direction is
    set."""
    better: str = ""
    """Preferred direction of the metric: "larger", "smaller", or empty if not declared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """All conclusions from a run."""

    estimates: Estimates
    """Estimates by measure and metric, in the plan's cell order."""
    leading: Mapping[str, Quantity]
    """Metric that summaries and charts show first, by measure name."""
    effects: tuple[Effect, ...]
    """Effects per measure, on the leading metric only."""
    findings: tuple[Finding, ...]
    """Findings, the most important first."""
    outliers: tuple[Outlier, ...]
    """Marked trials."""
    detectable: Mapping[str, float]
    """Smallest ratio change that this run can detect (two-sided 95 %, power 80 %), e.g. 0.03, by measure name."""
    spread: Mapping[str, float]
    """Median over cells of the coefficient of variation between blocks [ratio], by measure name."""
    notes: tuple[TrialWarning, ...] = ()
    """Warnings about the analysis itself: excluded data, and the reasons."""
    forwarding: tuple[Forwarding, ...] = ()
    """Results of packet measures."""
    streams: tuple[StreamLimits, ...] = ()
    """Limits of streams, by measure."""
    onsets: tuple[Onset, ...] = ()
    """Loss onsets of measures that vary the offered load."""
    levels_figures: tuple[LevelsFigure, ...] = ()
    """Summaries over levels that the plan requests, in the plan's cell order."""
    levels_ratios: tuple[LevelsRatio, ...] = ()
    """Ratios of the summaries over levels."""
    levels_left_out: tuple[LevelsLeftOut, ...] = ()
    """Cells without a summary over levels."""
    paths: Mapping[str, PathProduct] = field(default_factory=dict)
    """Path of each measure whose window size is varied, by measure name."""
    expectations: "tuple[Judged, ...]" = ()
    """Results of the experiment's expectations, in file order."""
