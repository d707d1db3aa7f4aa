"""Trials as arrays: one column per measure and metric, axes (cell, block). Decides which records count;
computes nothing."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from iolab.errors import InputError, Problem
from iolab.plan.types import Plan, Step
from iolab.record.dimensions import Quantity
from iolab.record.trial import Status
from iolab.statements.notes import TrialsNotInPlan, TrialsNotOk, ValueNotFinite
from iolab.statements.warnings import Warning
from iolab.store.records import TrialRecord

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One metric of one measure."""

    metric: Quantity
    """What it is of."""
    unit: str
    """Of values."""
    rows: Ints
    """Cells that have it, indices into Table.cells, ascending; shape (cell,)."""
    values: Floats
    """What was measured [unit], NaN where there is none; shape (cell, block)."""
    limited: Mapping[tuple[int, int], str] = field(default_factory=dict)
    """Row and block of values that are only lower bounds, and what of the instrument was the limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """All trials of one measure that count."""

    measure: str
    """Name of the measure."""
    factors: tuple[str, ...]
    """All factors of the plan."""
    labels: tuple[tuple[str, ...], ...]
    """Level labels per factor."""
    levels: Ints
    """Level index per cell and factor, -1 where absent; shape (cell, factor), in the plan's factor order."""
    cells: tuple[Mapping[str, str], ...]
    """Factor to label, per cell."""
    directions: tuple[str, ...] = ()
    """Resolved direction of the measure, per cell; empty where it has none."""
    blocks: tuple[int, ...]
    """Block numbers, ascending: the second axis of every column."""
    keys: tuple[tuple[str, ...], ...]
    """Key of the trial, '' where there is none; axes (cell, block)."""
    plots: Ints
    """Whole plot of the trial within its block, -1 where there is none; shape (cell, block)."""
    columns: Mapping[Quantity, Column]
    """By what they are of, in order of first appearance."""


_Odd = tuple[str, TrialRecord]
"""A metric whose value is no finite number, and its trial."""


def tabulate(trials: Iterable[TrialRecord], plan: Plan) -> tuple[tuple[Table, ...], tuple[Warning, ...]]:
    """Arrange the trials that count, per measure; the warnings say what was left out."""
    last = {record.key: record for record in trials}
    steps: dict[str, list[Step]] = {name: [] for name in plan.measures}
    for step in plan.steps:
        steps.setdefault(step.measure, []).append(step)
    odd: list[_Odd] = []
    tables = tuple(_table(plan, name, own, last, odd) for name, own in steps.items() if own)
    return tables, (*_left_out(last, plan), *_not_finite(odd))


def _left_out(last: Mapping[str, TrialRecord], plan: Plan) -> list[Warning]:
    planned = {step.key for step in plan.steps}
    strangers = sum(key not in planned for key in last)
    bad = sum(key in planned and record.result.status is not Status.OK for key, record in last.items())
    notes: list[Warning] = []
    if strangers:
        notes.append(TrialsNotInPlan(left_out=strangers, trials=len(last)))
    if bad:
        notes.append(TrialsNotOk(left_out=bad, trials=len(last) - strangers))
    return notes


def _not_finite(odd: Sequence[_Odd]) -> list[Warning]:
    if not odd:
        return []
    metric, record = odd[0]
    return [ValueNotFinite(values=len(odd), metric=metric, measure=record.measure, block=record.block)]


class _Entries:
    """Values of one metric while they are gathered."""

    __slots__ = ("cells", "limits", "places", "unit", "values")

    def __init__(self, unit: str) -> None:
        self.unit = unit
        self.cells: list[int] = []
        self.places: list[int] = []
        self.values: list[float] = []
        self.limits: list[str] = []


def _table(
    plan: Plan, measure: str, steps: Sequence[Step], last: Mapping[str, TrialRecord], odd: list[_Odd]
) -> Table:
    order = sorted({step.levels for step in steps})
    index = {levels: row for row, levels in enumerate(order)}
    blocks = sorted({step.block for step in steps})
    place = {block: column for column, block in enumerate(blocks)}
    keys = [[""] * len(blocks) for _ in order]
    plots = np.full((len(order), len(blocks)), -1, dtype=np.int64)
    directions = [""] * len(order)
    gathered: dict[Quantity, _Entries] = {}
    for step in steps:
        record = last.get(step.key)
        if record is None or record.result.status is not Status.OK:
            continue
        row, column = index[step.levels], place[step.block]
        keys[row][column] = step.key
        plots[row, column] = step.plot
        directions[row] = record.direction
        _gather(gathered, record, row, column, odd)
    return Table(
        measure=measure,
        factors=tuple(factor.name for factor in plan.factors),
        labels=tuple(factor.labels for factor in plan.factors),
        levels=np.array(order, dtype=np.int64).reshape(len(order), len(plan.factors)),
        cells=tuple(_labels(plan, levels) for levels in order),
        directions=tuple(directions),
        blocks=tuple(blocks),
        keys=tuple(map(tuple, keys)),
        plots=plots,
        columns={of: _column(of, entries, len(blocks)) for of, entries in gathered.items() if entries.cells},
    )


def _labels(plan: Plan, levels: Sequence[int]) -> dict[str, str]:
    pairs = zip(plan.factors, levels, strict=True)
    return {factor.name: factor.labels[level] for factor, level in pairs if level >= 0}


def _gather(
    gathered: dict[Quantity, _Entries], record: TrialRecord, row: int, column: int, odd: list[_Odd]
) -> None:
    metrics = record.result.metrics
    limits, heads = metrics.limits, metrics.heads
    for at, (of, unit, value) in enumerate(zip(heads.quantities, heads.units, metrics.values, strict=True)):
        entries = gathered.get(of)
        if entries is None:
            entries = gathered[of] = _Entries(unit)
        if unit != entries.unit:
            raise InputError([_mixed_units(record, of, unit, entries.unit)])
        if not math.isfinite(value):
            odd.append((str(of), record))
            continue
        entries.cells.append(row)
        entries.places.append(column)
        entries.values.append(value)
        entries.limits.append(limits.get(at, ""))


def _mixed_units(record: TrialRecord, of: Quantity, seen: str, allowed: str) -> Problem:
    return Problem(
        where="trials.jsonl",
        doing=f"reading {of} of measure {record.measure}, trial {record.key}",
        seen=f"unit {seen!r}",
        allowed=f"{allowed!r}, as in the trials before it",
        advice="trials of two versions were mixed in one run folder; measure again into a new one",
    )


def _column(of: Quantity, entries: _Entries, blocks: int) -> Column:
    rows, position = np.unique(np.array(entries.cells, dtype=np.int64), return_inverse=True)
    values = np.full((len(rows), blocks), np.nan)
    values[position, np.array(entries.places, dtype=np.int64)] = entries.values
    where = zip(position.tolist(), entries.places, entries.limits, strict=True)
    limited = {(row, place): limit for row, place, limit in where if limit}
    return Column(metric=of, unit=entries.unit, rows=rows, values=values, limited=limited)
