"""Result types of comparing two runs; the report only formats them."""

from collections.abc import Mapping
from dataclasses import dataclass

from iolab.analysis.forwarding_types import Bound
from iolab.analysis.types import Interval
from iolab.messages.warnings import TrialWarning
from iolab.results.metric import Method, Quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class CellComparison:
    """Comparison of one metric of one measure in one cell that both runs have."""

    cell: Mapping[str, str]
    """Level label by factor."""
    measure: str
    """Measure name."""
    metric: Quantity
    """Metric name."""
    unit: str
    """Unit of the means."""
    n_a: int
    """Number of trials in run a."""
    n_b: int
    """Number of trials in run b."""
    mean_a: float
    """Arithmetic mean in run a."""
    mean_b: float
    """Arithmetic mean in run b."""
    ratio: float | None
    """Geometric mean of b divided by that of a (arithmetic means if a value is not positive); None if the mean of a is
    0."""
    ci: Interval | None
    """Confidence interval of the ratio; None if a run has fewer than 3 trials of the cell."""
    p_value: float | None
    """p-value of ratio = 1, Holm-corrected over the cells of this measure and metric."""
    limited_a: tuple[str, ...] = ()
    """Instrument limits in trials of run a; unless empty, `mean_a` is only a lower bound."""
    limited_b: tuple[str, ...] = ()
    """Instrument limits in trials of run b; unless empty, `mean_b` is only a lower bound."""
    ratio_bound: Bound | None = None
    """Whether the true ratio is at least or at most the ratio of the means; None if neither mean is a bound, or if both
    are."""
    better: str = ""
    """Preferred direction of the metric: "larger", "smaller", or empty if not declared."""
    method_a: Method = 1
    """Version of the method that computed `mean_a`."""
    method_b: Method = 1
    """Version of the method that computed `mean_b`; a ratio exists only if both versions are equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverallComparison:
    """Comparison of a measure's leading metric over all cells that both runs have, with equal weight per cell."""

    measure: str
    """Measure name."""
    metric: Quantity
    """Leading metric."""
    cells: int
    """Number of compared cells."""
    ratio: float
    """Geometric mean of the cells' ratios b / a."""
    ci: Interval | None
    """Confidence interval of the ratio."""
    p_value: float | None
    """p-value of ratio = 1, Holm-corrected over the measures."""
    better: str = ""
    """Preferred direction of the metric: "larger", "smaller", or empty if not declared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoneCell:
    """A cell that has trials in only one of the runs."""

    measure: str
    """Measure name."""
    cell: Mapping[str, str]
    """Level label by factor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Complete comparison of two runs."""

    run_a: str
    """Name of the reference run."""
    run_b: str
    """Name of the compared run."""
    cells: tuple[CellComparison, ...]
    """Comparisons sorted by measure, metric (the leading metric first) and cell, in the order of run a's plan."""
    overall: tuple[OverallComparison, ...]
    """Overall comparison of each measure."""
    leading: Mapping[str, Quantity]
    """Leading metric by measure."""
    only_a: tuple[LoneCell, ...]
    """Cells without a counterpart in run b."""
    only_b: tuple[LoneCell, ...]
    """Cells without a counterpart in run a."""
    warnings: tuple[TrialWarning, ...]
    """Facts that differ between the runs, and data left out of either run."""
