"""Select the cells that fit in a report: those with the largest differences, in plan order. The CSV has all cells."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest

from iolab.analysis.types import Analysis, CellEstimates, Estimate, figures_of
from iolab.results.metric import Quantity

OPENLY = (Quantity("forwarded_bps_l2"),)
"""Metrics that are shown with the leading metric of their measure: bit/s with frame/s."""


ROUND_TRIP = Quantity("rtt_p50_ns")
"""The round-trip time metric of pings and transactions."""


@dataclass(frozen=True, slots=True)
class Shown:
    """Estimates of one metric of one measure: as many as fit in the report."""

    measure: str
    """Name of the measure."""
    metric: Quantity
    """The metric of the estimates."""
    estimates: tuple[Estimate, ...]
    """Estimates, in plan order."""
    total: int
    """Number of all estimates."""


def is_baseline(cell: Mapping[str, str], baseline: Mapping[str, str]) -> bool:
    """Whether a cell is the baseline of other cells."""
    touched = [factor for factor in baseline if factor in cell]
    return bool(touched) and all(cell[factor] == baseline[factor] for factor in touched)


def choose(measure: str, metric: Quantity, estimates: Sequence[Estimate], most: int) -> Shown:
    """Return the cells with the largest change against their baseline (or the largest values), in their original
    order."""
    if len(estimates) <= most:
        return Shown(measure, metric, tuple(estimates), len(estimates))
    weighed = weights(estimates)
    kept = set(nlargest(most, range(len(estimates)), key=lambda index: (*weighed[index], -index)))
    return Shown(measure, metric, tuple(estimates[index] for index in sorted(kept)), len(estimates))


def weights(estimates: Sequence[Estimate]) -> list[tuple[float, float]]:
    """Return the weight of each cell: its change against the baseline if it has a baseline, otherwise its value.

    Lower bounds get the maximum weight.
    """
    figures = estimates.figures() if isinstance(estimates, CellEstimates) else figures_of(estimates)
    return [
        (math.inf if at in figures.bounded else max(ratio, 1 / ratio) if ratio > 0 else 0.0, abs(mean))
        for at, (mean, ratio) in enumerate(zip(figures.means, figures.ratios, strict=True))
    ]


def is_timed(analysis: Analysis, measure: str) -> bool:
    """Whether a measure has round-trip times."""
    return (measure, ROUND_TRIP) in analysis.estimates.by_metric


def latency_first(analysis: Analysis, measures: Sequence[str]) -> list[str]:
    """Return measures in order, but measures of round-trip times first if they ran in parallel with other measures."""
    timed = [name for name in measures if is_timed(analysis, name)]
    return [*timed, *(name for name in measures if name not in timed)]


def leading(analysis: Analysis, measures: Sequence[str], most: int) -> tuple[Shown, ...]:
    """Return the leading metric of every measure, round-trip times first; all measures get equal room."""
    measures = latency_first(analysis, measures)
    groups = analysis.estimates.by_metric
    keys = [(measure, analysis.leading[measure]) for measure in measures if measure in analysis.leading]
    keys = [key for key in keys if key in groups]
    share = max(4, most // max(1, len(keys)))
    return tuple(choose(*key, groups[key], share) for key in keys)


def side_metrics(
    metrics: Sequence[Quantity], first: Quantity, packets: bool
) -> tuple[list[Quantity], list[Quantity]]:
    """Return the metrics to draw first and those to fold; metrics per CPU and per load are drawn elsewhere."""
    others = [metric for metric in metrics if metric != first]
    if not packets:
        return [first], others
    openly = [first, *(metric for metric in OPENLY if metric in others)]
    return openly, [metric for metric in others if metric not in openly and metric.dimensions.whole]
