"""What comparing two runs concludes; the report only formats these."""

from collections.abc import Mapping
from dataclasses import dataclass

from iolab.analysis.forwarding_types import Bound
from iolab.analysis.types import Interval
from iolab.messages.warnings import TrialWarning
from iolab.results.metric import Method, Quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class CellComparison:
    """One metric of one measure in one cell that both runs have."""

    cell: Mapping[str, str]
    """Factor to label."""
    measure: str
    """Name of the measure."""
    metric: Quantity
    """Name of the metric."""
    unit: str
    """Of the means."""
    n_a: int
    """Trials in run a."""
    n_b: int
    """Trials in run b."""
    mean_a: float
    """Arithmetic mean in run a."""
    mean_b: float
    """Arithmetic mean in run b."""
    ratio: float | None
    """Geometric mean of b over that of a (of arithmetic means where a value is not positive); None: a is
    0."""
    ci: Interval | None
    """Of the ratio; from 3 trials on both sides up."""
    p_value: float | None
    """Of ratio = 1, Holm-corrected over the cells of this measure and metric."""
    limited_a: tuple[str, ...] = ()
    """What of the instrument was the limit in trials of run a; with any, `mean_a` is only a lower bound."""
    limited_b: tuple[str, ...] = ()
    """The same of run b."""
    ratio_bound: Bound | None = None
    """What the ratio is, where one of the means is a bound; where both are there is no ratio."""
    better: str = ""
    """Which of two values is the better one: larger, smaller; empty: nobody said."""
    method_a: Method = 1
    """Version of the method behind `mean_a`."""
    method_b: Method = 1
    """The same of run b; there is a ratio only where both are of one version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverallComparison:
    """The leading metric of a measure over all cells that both runs have, each cell with the same weight."""

    measure: str
    """Name of the measure."""
    metric: Quantity
    """Its leading metric."""
    cells: int
    """Cells compared."""
    ratio: float
    """Geometric mean of the cells' ratios b / a."""
    ci: Interval | None
    """Of the ratio."""
    p_value: float | None
    """Of ratio = 1, Holm-corrected over the measures."""
    better: str = ""
    """Which of two values is the better one: larger, smaller; empty: nobody said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoneCell:
    """A cell that only one of the runs has trials of."""

    measure: str
    """Name of the measure."""
    cell: Mapping[str, str]
    """Factor to label."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Everything said about two runs."""

    run_a: str
    """Name of the run compared with."""
    run_b: str
    """Name of the run compared."""
    cells: tuple[CellComparison, ...]
    """Per measure, metric (the leading one first) and cell in the order of run a's plan."""
    overall: tuple[OverallComparison, ...]
    """Per measure."""
    leading: Mapping[str, Quantity]
    """Measure to leading metric."""
    only_a: tuple[LoneCell, ...]
    """Cells without a counterpart in run b."""
    only_b: tuple[LoneCell, ...]
    """Cells without a counterpart in run a."""
    warnings: tuple[TrialWarning, ...]
    """Facts that differ between the runs, and what was left out of either."""
