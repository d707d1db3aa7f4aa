"""Parts of charts: panels with their data as plain JSON, and their style. This module draws nothing.

Colours are CSS variables of the page, so one drawing suits light mode, dark mode and print. Text from the experiment is
never evaluated as an expression: labels are data, or ticks that were parsed as numbers.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iolab.analysis.types import CellKey, Estimate, cell_key, cells_of
from iolab.report import numbers
from iolab.report.locale import Words
from iolab.report.selection import Shown
from iolab.results.trial import Status
from iolab.store.records import StoredRun, TrialRecord

MOST_TRIALS = 200
"""Maximum number of points per cell; more points would overlap."""
CROSS = "M-1,-1L1,1M-1,1L1,-1"
"""SVG path of the symbol for marked trials; its shape differs from a circle, so it needs no colour."""

Place = tuple[str, CellKey]
"""Measure and cell."""
Trials = Mapping[Place, Sequence[TrialRecord]]
Row = Mapping[str, str | float | int | bool | None]
"""A row of a chart's data: plain JSON."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel of a chart."""

    title: str
    """Levels that the panel represents; empty for a single panel."""
    data: Mapping[str, Sequence[Row]]
    """Vega data sets: `points` has a row per trial, `means` a row per cell."""
    height: int
    """Height of the plot, without axes [px]."""
    rows: str
    """Factors whose levels are the rows; empty if an axis names the factor."""
    alt: str
    """Alternative text."""


@dataclass(frozen=True, slots=True)
class Line:
    """One entry of a chart's legend."""

    name: str
    """Levels that the line represents."""
    colour: int
    """Index of the colour among the page's series colours, from 0."""
    dash: str
    """SVG dash array; empty for a solid line."""
    shape: str
    """SVG path of the symbol, about 2 x 2 around 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """All cells of one metric of one measure."""

    title: str
    """Metric and unit."""
    spec: str
    """Vega-Lite specification of all panels, as JSON."""
    panels: tuple[Panel, ...]
    """Panels, in plan order."""
    lines: tuple[Line, ...] = ()
    """Legend entries, if there are several lines."""
    shown: int
    """Number of drawn cells."""
    total: int
    """Number of all cells."""
    with_ci: bool
    """Whether any cell has an interval."""
    with_baseline: bool
    """Whether any cell has a baseline."""
    with_marks: bool
    """Whether any trial is marked."""
    with_lines: bool = False
    """Whether cells are drawn as points of lines, not as rows."""
    with_limit: bool = False
    """Whether a known limit is drawn."""


def trials_by_cell(trials: Sequence[TrialRecord], shown: Sequence[Shown]) -> dict[Place, list[TrialRecord]]:
    """Return the trials of the charted cells, ordered by block."""
    wanted = {(each.measure, cell_key(estimate.cell)) for each in shown for estimate in each.estimates}
    found: dict[Place, list[TrialRecord]] = {}
    for trial in trials:
        key = (trial.measure, cell_key(trial.cell))
        if key in wanted and trial.result.status is Status.OK:
            found.setdefault(key, []).append(trial)
    for group in found.values():
        group.sort(key=lambda trial: trial.block)
    return found


def varied(estimates: Sequence[Estimate], run: StoredRun) -> list[str]:
    """Return the factors with more than one level among the estimates, in plan order."""
    labels: dict[str, set[str | None]] = {}
    for cell in cells_of(estimates):
        for factor in (each.name for each in run.plan.factors):
            labels.setdefault(factor, set()).add(cell.get(factor))
    return [factor for factor, found in labels.items() if len(found) > 1]


def points(
    label: Row, estimate: Estimate, trials: Sequence[TrialRecord], by: numbers.Scale, words: Words
) -> list[Row]:
    """Return one row per trial of a cell, ordered by block."""
    decimals = numbers.estimate_decimals(estimate, by)
    blocks = [trial.block for trial in trials if estimate.metric in trial.result.metrics]
    if len(blocks) != len(estimate.values):
        blocks = list(range(1, len(estimate.values) + 1))
    return [
        {
            **label,
            "value": finite(value * by.factor),
            "block": block,
            "marked": index in estimate.outliers,
            "text": numbers.quantity(value, by, decimals, words),
        }
        for index, (block, value) in enumerate(zip(blocks, estimate.values, strict=True))
        if index < MOST_TRIALS or index in estimate.outliers
    ]


def finite(value: float) -> float | None:
    """Return a value rounded to six digits; None for infinity and NaN, which JSON does not have."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


def ends(estimate: Estimate) -> tuple[float, ...]:
    """Return the ends of an estimate's interval, if it has one."""
    return (estimate.ci.low, estimate.ci.high) if estimate.ci else ()


def domain(values: Sequence[float]) -> tuple[float, float]:
    """Return the range of the axis: from zero if the values differ a lot, otherwise close to the values.

    Intervals would be invisible if nearly equal values had an axis from zero.
    """
    known = [value for value in values if math.isfinite(value)]
    if not known:
        return (0.0, 1.0)
    low, high = min(known), max(known)
    if low >= 0 and low < 0.6 * high:
        return (0.0, high * 1.04)
    margin = (high - low) * 0.15 or abs(high) * 0.05 or 1.0
    return (low - margin, high + margin)
