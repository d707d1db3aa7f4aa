"""What analysis concludes from trials; the report only formats these."""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import overload

from iolab.analysis.forwarding_types import Bound, Forwarding, Onset, StreamLimits
from iolab.analysis.level_types import LevelsFigure, LevelsLeftOut, LevelsRatio
from iolab.analysis.path_product import PathProduct
from iolab.messages.notes import Unusual
from iolab.messages.warnings import TrialWarning
from iolab.results.metric import Method, Quantity

TOGETHER = 1024
"""Estimates that are made at once where all are looked at."""
CellKey = frozenset[tuple[str, str]]
"""A cell as something that can be looked up."""


def cell_key(cell: Mapping[str, str]) -> CellKey:
    """Turn a cell into a key."""
    return frozenset(cell.items())


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval."""

    low: float
    """Lower end, in the unit of what it belongs to."""
    high: float
    """Upper end."""
    method: str
    """How it was made, e.g. 't' or 't on log ratios'."""
    level_ratio: float = 0.95
    """Confidence level [ratio]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """One metric of one measure in one cell, over its trials (one per block)."""

    cell: Mapping[str, str]
    """Factor to label."""
    measure: str
    """Name of the measure."""
    metric: Quantity
    """What it is of."""
    unit: str
    """Of mean, min, max, median, ci."""
    n: int
    """Trials."""
    mean: float
    """Arithmetic mean."""
    min: float
    """Smallest trial."""
    max: float
    """Largest trial."""
    median: float
    """Middle trial."""
    ci: Interval | None
    """Of the mean, Student's t; from 4 trials up."""
    ratio: float | None
    """Geometric mean of the ratios to the same-block baseline trial (arithmetic where one is 0); None without
    a baseline."""
    ratio_ci: Interval | None
    """Of the ratio."""
    p_value: float | None
    """Of ratio = 1, corrected for the number of cells compared (Holm); None without a baseline or below 4
    blocks."""
    values: tuple[float, ...]
    """The trials, in order of block."""
    outliers: tuple[int, ...]
    """Indices into `values` of marked trials."""
    mean_without: float | None
    """Mean without the marked trials; None where none is marked."""
    ratio_without: float | None
    """Ratio without the marked trials of the cell and of its baseline; None where none is marked or without a
    baseline."""
    ratio_n: int = 0
    """Trials behind the ratio; fewer than n where the baseline trial of the block is missing or 0."""
    bounds: int = 0
    """Trials whose value is only a lower bound; above 0 mean, median and max are lower bounds, too."""
    limited_by: tuple[str, ...] = ()
    """What of the instrument was the limit in these, the commonest first."""
    direction: str = ""
    """Resolved direction of the measure in this cell, whatever its level is called; empty: it has none."""
    least_is_bound: bool = False
    """Whether `min` is only a lower bound."""
    ratio_bound: Bound | None = None
    """What the ratio is, where one of its sides is a bound; None: as measured, or there is none."""
    better: str = ""
    """Which of two values is the better one: larger, smaller; empty: nobody said."""
    apart: str = ""
    """Why the cell has no ratio, as the code of a warning: a trial of it may not be put in proportion to others (it is
    no baseline either), or cell and baseline are not of one kind. Empty: neither."""
    method: Method = 1
    """Version of the method behind every value."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What is chosen by among estimates, of all cells at once."""

    means: Sequence[float]
    """Mean per cell."""
    ratios: Sequence[float]
    """Ratio to the baseline per cell; NaN where there is none."""
    methods: Collection[str]
    """How the intervals were made."""
    bounded: Collection[int] = frozenset()
    """Cells whose mean is only a lower bound: they have no place among the means."""

    @property
    def ends(self) -> tuple[int, int]:
        """Return where the least and the largest measured mean are; of bounds alone, of these."""
        every = range(len(self.means))
        exact = [at for at in every if at not in self.bounded] if self.bounded else every
        chosen = exact or every
        return min(chosen, key=self.means.__getitem__), max(chosen, key=self.means.__getitem__)


class Cells(tuple[Mapping[str, str], ...]):  # noqa: SLOT001 - a tuple holds no slots; it keeps what was looked for
    """Cells, and where some are among them; metrics that have the same ones share them."""

    _looked_up: tuple[frozenset[CellKey], Sequence[int]] = (frozenset(), ())

    def indices(self, wanted: frozenset[CellKey]) -> Sequence[int]:
        """Return where some cells are; only the last answer is kept, not a key of each of a million cells."""
        if self._looked_up[0] != wanted:
            self._looked_up = wanted, [at for at, cell in enumerate(self) if cell_key(cell) in wanted]
        return self._looked_up[1]


class CellEstimates(Sequence[Estimate]):
    """Estimates of one metric of one measure, one per cell that has it, in the plan's order.

    Each is made when it is looked at: a run may have millions of them, and a report shows a few hundred.
    """

    def __init__(
        self,
        cells: Sequence[Mapping[str, str]],
        make: Callable[[range], list[Estimate]],
        figures: Callable[[], Figures] | None = None,
    ) -> None:
        """`make` gives the estimates of cells by their indices, `figures` what is chosen by, where that is quicker."""
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
        """Return the estimates of some cells, those that there are."""
        found = self.cells.indices(frozenset(wanted))
        return {cell_key(self.cells[index]): self[index] for index in found}

    def figures(self) -> Figures:
        """Return what is chosen by, without making an estimate where that can be."""
        return figures_of(self) if self._figures is None else self._figures()


def figures_of(estimates: Iterable[Estimate]) -> Figures:
    """Gather from estimates what is chosen by."""
    means, ratios, methods, bounded = [], [], set(), set()
    for at, each in enumerate(estimates):
        means.append(each.mean)
        bounded |= {at} if each.bounds else set()
        ratios.append(math.nan if each.ratio is None else each.ratio)
        methods |= {ci.method for ci in (each.ci, each.ratio_ci) if ci is not None}
    return Figures(means, ratios, methods, bounded)


def cells_of(estimates: Sequence[Estimate]) -> Sequence[Mapping[str, str]]:
    """Return the cells of estimates, without making any that is made when it is looked at."""
    return estimates.cells if isinstance(estimates, CellEstimates) else [each.cell for each in estimates]


class Estimates(Sequence[Estimate]):
    """All estimates of a run, measure by measure and metric by metric."""

    def __init__(self, by_metric: Mapping[tuple[str, Quantity], CellEstimates]) -> None:
        """Gather them; the keys are measure and metric."""
        self.by_metric = by_metric

    def of_measure(self, measure: str) -> dict[Quantity, CellEstimates]:
        """Return those of one measure, by metric."""
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
    """A trial that stands apart. It is marked, never deleted."""

    key: str
    """Of the trial record."""
    measure: str
    """Name of the measure."""
    metric: Quantity
    """In which metric."""
    cell: Mapping[str, str]
    """Factor to label."""
    block: int
    """Which trial."""
    value: float
    """What was measured."""
    robust_z: float
    """Distance from the median in robust standard deviations."""
    beside: tuple[Unusual, ...] = ()
    """What else was unusual in the same trial."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What changing one factor (or several together: an interaction) does to a metric, over all other
    factors."""

    measure: str
    """Name of the measure."""
    metric: Quantity
    """What it is of."""
    levels: Mapping[str, str]
    """Factor to level; one entry: a main effect, two: an interaction."""
    reference: Mapping[str, str]
    """Factor to the level it is compared with."""
    ratio: float
    """Metric at `levels` over metric at `reference`; for an interaction the factor by which they differ from
    acting apart."""
    ci: Interval | None
    """Of the ratio."""
    p_value: float | None
    """Of ratio = 1, Holm-corrected."""
    better: str = ""
    """Which of two values is the better one: larger, smaller; empty: nobody said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One conclusion for the summary: a level against the baseline (or first) level, under fixed
    conditions."""

    measure: str
    """Name of the measure."""
    metric: Quantity
    """The measure's leading metric."""
    factor: str
    """What was changed."""
    level: str
    """To what."""
    reference: str
    """From what."""
    conditions: Mapping[str, str]
    """Levels of the factors for which it holds; empty: over all."""
    ratio: float
    """Metric at `level` over metric at `reference`."""
    ci: Interval | None
    """Of the ratio."""
    shown: bool
    """True when the difference is distinguishable from none at the corrected level."""
    each_direction: bool = False
    """Whether what is compared is the mean of the directions and not their sum, which is set: the load of each is."""
    better: str = ""
    """Which of two values is the better one: larger, smaller; empty: nobody said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """Everything concluded from a run."""

    estimates: Estimates
    """In the plan's order of cells; per measure and metric."""
    leading: Mapping[str, Quantity]
    """Measure name to the metric that summaries and charts show first."""
    effects: tuple[Effect, ...]
    """Per measure, leading metric only."""
    findings: tuple[Finding, ...]
    """Sorted by importance."""
    outliers: tuple[Outlier, ...]
    """Marked trials."""
    detectable: Mapping[str, float]
    """Measure name to the smallest ratio change that this run could have shown (two-sided 95 %, power 80 %),
    e.g. 0.03."""
    spread: Mapping[str, float]
    """Measure name to the median over cells of the coefficient of variation between blocks [ratio]."""
    notes: tuple[TrialWarning, ...] = ()
    """What the reader must know about the analysis itself: what was left out, and why."""
    forwarding: tuple[Forwarding, ...] = ()
    """Per measure that sends frames."""
    streams: tuple[StreamLimits, ...] = ()
    """What limited streams, by measure."""
    onsets: tuple[Onset, ...] = ()
    """Of measures that vary what they offer."""
    levels_figures: tuple[LevelsFigure, ...] = ()
    """What the plan's summaries ask for, in the plan's order of cells."""
    levels_ratios: tuple[LevelsRatio, ...] = ()
    """Ratios of them."""
    levels_left_out: tuple[LevelsLeftOut, ...] = ()
    """Cells that have no such figure."""
    paths: Mapping[str, PathProduct] = field(default_factory=dict)
    """Measure whose windows are swept, to the path that it crosses."""
