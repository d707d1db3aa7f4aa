"""What fits into a report: of very many cells the ones that differ most, in the plan's order. CSV has them all."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest

from iolab.analysis.types import Analysis, CellEstimates, Estimate, figures_of
from iolab.results.metric import Quantity

OPENLY = (Quantity("forwarded_bps_l2"),)
"""Metrics that stand beside the leading one of their measure: frames/s without bit/s is half the answer."""


ROUND_TRIP = Quantity("rtt_p50_ns")
"""The metric that pings and transactions have of their round trips."""


@dataclass(frozen=True, slots=True)
class Shown:
    """Estimates of one metric of one measure, as many as fit."""

    measure: str
    """Name of the measure."""
    metric: Quantity
    """What they are of."""
    estimates: tuple[Estimate, ...]
    """In the plan's order."""
    total: int
    """How many there are."""


def is_baseline(cell: Mapping[str, str], baseline: Mapping[str, str]) -> bool:
    """Tell whether a cell is what others are compared with."""
    touched = [factor for factor in baseline if factor in cell]
    return bool(touched) and all(cell[factor] == baseline[factor] for factor in touched)


def choose(measure: str, metric: Quantity, estimates: Sequence[Estimate], most: int) -> Shown:
    """Keep the cells that are furthest from their baseline (or simply the largest), in their order."""
    if len(estimates) <= most:
        return Shown(measure, metric, tuple(estimates), len(estimates))
    weighed = weights(estimates)
    kept = set(nlargest(most, range(len(estimates)), key=lambda index: (*weighed[index], -index)))
    return Shown(measure, metric, tuple(estimates[index] for index in sorted(kept)), len(estimates))


def weights(estimates: Sequence[Estimate]) -> list[tuple[float, float]]:
    """How much each cell differs: from its baseline, else by its size. What is only a bound is kept, and not ranked."""
    figures = estimates.figures() if isinstance(estimates, CellEstimates) else figures_of(estimates)
    return [
        (math.inf if at in figures.bounded else max(ratio, 1 / ratio) if ratio > 0 else 0.0, abs(mean))
        for at, (mean, ratio) in enumerate(zip(figures.means, figures.ratios, strict=True))
    ]


def is_timed(analysis: Analysis, measure: str) -> bool:
    """Whether a measure has round-trip times."""
    return (measure, ROUND_TRIP) in analysis.estimates.by_metric


def latency_first(analysis: Analysis, measures: Sequence[str]) -> list[str]:
    """Return measures in their order, those of round-trip times first where others are taken beside them."""
    timed = [name for name in measures if is_timed(analysis, name)]
    return [*timed, *(name for name in measures if name not in timed)]


def leading(analysis: Analysis, measures: Sequence[str], most: int) -> tuple[Shown, ...]:
    """The leading metric of every measure, those with round-trip times first; the room is shared evenly."""
    measures = latency_first(analysis, measures)
    groups = analysis.estimates.by_metric
    keys = [(measure, analysis.leading[measure]) for measure in measures if measure in analysis.leading]
    keys = [key for key in keys if key in groups]
    share = max(4, most // max(1, len(keys)))
    return tuple(choose(*key, groups[key], share) for key in keys)


def side_metrics(
    metrics: Sequence[Quantity], first: Quantity, packets: bool
) -> tuple[list[Quantity], list[Quantity]]:
    """Metrics to draw openly and folded; of measures that send frames, those per CPU and load have their own places."""
    others = [metric for metric in metrics if metric != first]
    if not packets:
        return [first], others
    openly = [first, *(metric for metric in OPENLY if metric in others)]
    return openly, [metric for metric in others if metric not in openly and metric.dimensions.whole]
