"""What charts are made of: panels, their data as plain JSON, and how they look. Draws none by itself.

Colours are the page's CSS variables, so that one drawing serves light, dark and paper. No text of the experiment is
read as an expression: labels are data, or ticks that were read as numbers first.
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
"""Points of one cell; beyond, they are a blot."""
CROSS = "M-1,-1L1,1M-1,1L1,-1"
"""SVG path of a marked trial's symbol: told from a circle without colour."""

Place = tuple[str, CellKey]
"""Measure and cell."""
Trials = Mapping[Place, Sequence[TrialRecord]]
Row = Mapping[str, str | float | int | bool | None]
"""A line of a chart's data: plain JSON."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One of the small multiples."""

    title: str
    """The levels it stands for; empty for the only panel."""
    data: Mapping[str, Sequence[Row]]
    """Vega's data sets: `points` has a row per trial, `means` a row per cell."""
    height: int
    """Of what is drawn, without axes [px]."""
    rows: str
    """The factors whose levels are its rows; empty where it has an axis that says so."""
    alt: str
    """What it shows, in words."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a chart's key."""

    name: str
    """The levels it stands for."""
    colour: int
    """Which of the page's colours, from 0."""
    dash: str
    """SVG dash array; empty for a whole line."""
    shape: str
    """SVG path of its symbol, about 2 x 2 around 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """All cells of one metric of one measure."""

    title: str
    """Metric and unit."""
    spec: str
    """Vega-Lite specification of every panel, as JSON."""
    panels: tuple[Panel, ...]
    """In the plan's order."""
    lines: tuple[Line, ...] = ()
    """Its key, where it has several lines."""
    shown: int
    """Cells that are drawn."""
    total: int
    """Cells that there are."""
    with_ci: bool
    """Some cell has an interval."""
    with_baseline: bool
    """Some cell has a baseline."""
    with_marks: bool
    """Some trial is marked."""
    with_lines: bool = False
    """Cells are points of lines, not rows."""
    with_limit: bool = False
    """A known limit is drawn."""


def trials_by_cell(trials: Sequence[TrialRecord], shown: Sequence[Shown]) -> dict[Place, list[TrialRecord]]:
    """Find the trials of the cells that are charted, in order of block."""
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
    """Factors with more than one level here, in the plan's order."""
    labels: dict[str, set[str | None]] = {}
    for cell in cells_of(estimates):
        for factor in (each.name for each in run.plan.factors):
            labels.setdefault(factor, set()).add(cell.get(factor))
    return [factor for factor, found in labels.items() if len(found) > 1]


def points(
    label: Row, estimate: Estimate, trials: Sequence[TrialRecord], by: numbers.Scale, words: Words
) -> list[Row]:
    """One row per trial of a cell, in order of block."""
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
    """Six digits are more than a chart shows; JSON has no infinity."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


def ends(estimate: Estimate) -> tuple[float, ...]:
    """The ends of its interval, where it has one."""
    return (estimate.ci.low, estimate.ci.high) if estimate.ci else ()


def domain(values: Sequence[float]) -> tuple[float, float]:
    """From zero where the values differ much; close up where they differ little, so that intervals can be seen."""
    known = [value for value in values if math.isfinite(value)]
    if not known:
        return (0.0, 1.0)
    low, high = min(known), max(known)
    if low >= 0 and low < 0.6 * high:
        return (0.0, high * 1.04)
    margin = (high - low) * 0.15 or abs(high) * 0.05 or 1.0
    return (low - margin, high + margin)
