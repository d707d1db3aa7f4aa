"""Arrange trials as arrays: one column per measure and metric, axes (cell, block).

The module selects the valid records and computes nothing.
"""

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from iolab.analysis.types import Cells
from iolab.errors import InputError, Problem
from iolab.locale import Phrase
from iolab.messages.notes import MethodsMixed, TrialsLeftOut, ValueNotFinite
from iolab.messages.warnings import Emulated, TrialWarning
from iolab.plan.types import Plan, Step
from iolab.results.metric import UNKNOWN_METHOD, Heads, Method, Metrics, Quantity, method_name
from iolab.results.trial import Status
from iolab.store.records import TrialRecord

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One metric of one measure."""

    metric: Quantity
    """Metric."""
    unit: str
    """Unit of the values."""
    rows: Ints
    """Cells that have the metric, as ascending indices into Table.cells; shape (cell,)."""
    values: Floats
    """Measured values [unit], NaN if there is none; shape (cell, block)."""
    limited: Mapping[tuple[int, int], str] = field(default_factory=dict)
    """Instrument limit by (row, block), for values that are only lower bounds."""
    better: str = ""
    """Preferred direction of the metric: "larger", "smaller", or empty if not declared."""
    method: Method = 1
    """Newest method version among the values."""
    older: Mapping[int, Method] = field(default_factory=dict)
    """Method version by cell, for cells with an older version than `method`; all values of one cell have the same
    version."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Number of excluded trials by older method version; a cell excludes them if it has trials with a newer
    version."""

    def method_of(self, cell: int) -> Method:
        """Return the method version of the values of a cell."""
        return self.older.get(cell, self.method)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """All valid trials of one measure."""

    measure: str
    """Measure name."""
    factors: tuple[str, ...]
    """All factors of the plan."""
    labels: tuple[tuple[str, ...], ...]
    """Level labels per factor."""
    levels: Ints
    """Level index per cell and factor, -1 if absent; shape (cell, factor), in the plan's factor order."""
    cells: Cells
    """Level label by factor, per cell."""
    directions: tuple[str, ...] = ()
    """Resolved direction of the measure, per cell; empty if the measure has no direction."""
    each_load_set: tuple[bool, ...] = ()
    """Whether the measure sets the load of each direction, per cell; empty if the measure has no direction."""
    blocks: tuple[int, ...]
    """Block numbers, ascending: the second axis of every column."""
    keys: tuple[tuple[str, ...], ...]
    """Trial key, "" if there is none; axes (cell, block)."""
    plots: Ints
    """Whole plot of the trial within its block, -1 if there is none; shape (cell, block)."""
    columns: Mapping[Quantity, Column]
    """Columns by metric, in order of first appearance."""
    apart: Mapping[int, str] = field(default_factory=dict)
    """Warning code by cell, for cells with a trial that must not be compared with others: such a cell has no
    ratios."""
    emulated: frozenset[int] = frozenset()
    """Cells with a trial in which an emulated machine took part."""


_Odd = tuple[str, str, int]
"""Metric with a non-finite value, and the measure and block of its trial."""


def tabulate(trials: Iterable[TrialRecord], plan: Plan) -> tuple[tuple[Table, ...], tuple[TrialWarning, ...]]:
    """Arrange the valid trials per measure; the warnings list excluded trials and values."""
    last = {record.key: record for record in trials}
    steps: dict[str, list[Step]] = {name: [] for name in plan.measures}
    for step in plan.steps:
        steps.setdefault(step.measure, []).append(step)
    odd: list[_Odd] = []
    tables = tuple(_table(plan, name, own, last, odd) for name, own in steps.items() if own)
    mixed = (note for table in tables for note in _mixed_methods(table))
    return tables, (*_left_out(last, plan), *_not_finite(odd), *mixed)


def _left_out(last: Mapping[str, TrialRecord], plan: Plan) -> list[TrialWarning]:
    planned = {step.key for step in plan.steps}
    strangers = sum(key not in planned for key in last)
    bad = sum(key in planned and record.result.status is not Status.OK for key, record in last.items())
    notes: list[TrialWarning] = []
    if strangers:
        notes.append(TrialsLeftOut(code="trials-not-in-plan", left_out=strangers, trials=len(last)))
    if bad:
        notes.append(TrialsLeftOut(code="trials-not-ok", left_out=bad, trials=len(last) - strangers))
    return notes


def _not_finite(odd: Sequence[_Odd]) -> list[TrialWarning]:
    if not odd:
        return []
    metric, measure, block = odd[0]
    return [ValueNotFinite(values=len(odd), metric=metric, measure=measure, block=block)]


def _mixed_methods(table: Table) -> Iterator[MethodsMixed]:
    """Yield warnings about metrics with several method versions, one per set of versions."""
    found: dict[tuple[tuple[str, ...], str], list[Column]] = {}
    for column in table.columns.values():
        versions = sorted({*map(method_name, column.older.values()), *column.left_out}, key=_age)
        if versions:
            found.setdefault((tuple(versions), method_name(column.method)), []).append(column)
    for (older, newest), columns in found.items():
        yield MethodsMixed(
            measure=table.measure,
            metrics=tuple(dict.fromkeys(column.metric.name for column in columns)),
            older=older,
            newest=newest,
            older_cells=max(len(column.older) for column in columns),
            left_out=max(sum(column.left_out.values()) for column in columns),
        )


def _age(method: str) -> tuple[bool, int, str]:
    """Return a sort key that orders method versions by name, the oldest first."""
    return method != UNKNOWN_METHOD, len(method), method


class _Group:
    """Buffer of trials that measured the same metrics."""

    __slots__ = ("heads", "limits", "places", "rows", "values")

    def __init__(self, heads: Heads) -> None:
        self.heads = heads
        self.rows = array("q")
        self.places = array("q")
        self.values = array("d")
        self.limits: list[tuple[int, int, str]] = []

    def add(self, metrics: Metrics, row: int, place: int) -> None:
        """Add the values of a trial."""
        self.limits += [(len(self.rows), at, limit) for at, limit in metrics.limits.items()]
        self.rows.append(row)
        self.places.append(place)
        self.values.extend(metrics.values)


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
    each_load_set = [False] * len(order)
    apart: dict[int, str] = {}
    emulated: set[int] = set()
    groups: dict[Heads, _Group] = {}
    shared: dict[
        int, _Group
    ] = {}  # trials from storage share their heads object: look it up by identity, without a comparison
    for step in steps:
        record = last.get(step.key)
        if record is None or record.result.status is not Status.OK:
            continue
        row, column = index[step.levels], place[step.block]
        keys[row][column] = step.key
        plots[row, column] = step.plot
        directions[row] = record.direction
        each_load_set[row] = record.sets_each_load
        for warning in record.result.warnings:
            if not warning.comparable:
                apart.setdefault(row, warning.code)
            if isinstance(warning, Emulated):
                emulated.add(row)
        metrics = record.result.metrics
        group = shared.get(id(metrics.heads))
        if group is None:
            group = groups.setdefault(metrics.heads, _Group(metrics.heads))
            shared[id(metrics.heads)] = group
        group.add(metrics, row, column)
    return Table(
        measure=measure,
        factors=tuple(factor.name for factor in plan.factors),
        labels=tuple(factor.labels for factor in plan.factors),
        levels=np.array(order, dtype=np.int64).reshape(len(order), len(plan.factors)),
        cells=Cells(_labels(plan, levels) for levels in order),
        directions=tuple(directions),
        each_load_set=tuple(each_load_set),
        blocks=tuple(blocks),
        keys=tuple(map(tuple, keys)),
        plots=plots,
        columns=_columns(measure, groups.values(), len(order), blocks, odd),
        apart=apart,
        emulated=frozenset(emulated),
    )


def _labels(plan: Plan, levels: Sequence[int]) -> dict[str, str]:
    pairs = zip(plan.factors, levels, strict=True)
    return {factor.name: factor.labels[level] for factor, level in pairs if level >= 0}


def _columns(
    measure: str, groups: Iterable[_Group], cells: int, blocks: Sequence[int], odd: list[_Odd]
) -> dict[Quantity, Column]:
    """Arrange the buffered trials, one column per metric, in order of first appearance."""
    units: dict[Quantity, str] = {}
    better: dict[Quantity, str] = {}
    parts: dict[Quantity, list[tuple[_Group, int]]] = {}
    for group in groups:
        heads = group.heads
        every = zip(heads.quantities, heads.units, heads.better, strict=True)
        for at, (of, unit, direction) in enumerate(every):
            better[of] = (
                direction  # the newest declaration applies, because a kind may add it when trials already exist
            )
            if units.setdefault(of, unit) != unit:
                raise InputError([_mixed_units(measure, of, unit, units[of])])
            parts.setdefault(of, []).append((group, at))
    found: dict[Quantity, Column] = {}
    for of, own in parts.items():
        values = np.full((cells, len(blocks)), np.nan)
        limited: dict[tuple[int, int], str] = {}
        versions = _Versions(own, cells)
        for group, at in own:
            places = _fill(values, group, at, versions)
            odd += [(str(of), measure, blocks[place]) for place in places]
            limited |= _limits(values, group, at)
        kept = np.flatnonzero(~np.isnan(values).all(axis=1))
        if len(kept):
            found[of] = Column(
                metric=of, unit=units[of], better=better[of], rows=kept, values=values[kept],
                limited=_by_row(limited, kept), method=versions.newest, older=versions.older(kept),
                left_out=versions.left_out,
            )  # fmt: skip
    return found


class _Versions:
    """Method versions of one metric: in each cell only the newest version counts, so that no mean mixes versions."""

    def __init__(self, parts: Sequence[tuple[_Group, int]], cells: int) -> None:
        found = {group.heads.methods[at] for group, at in parts}
        self._order = sorted(found, key=lambda method: method or 0)  # an unknown version is the oldest
        self.newest = self._order[-1]
        self.left_out: dict[str, int] = {}
        self._of_cell = np.full(cells, len(self._order) - 1)
        if len(found) > 1:
            self._of_cell[:] = -1
            for group, at in parts:
                rows, _, own = _values(group, at)
                rank = self._order.index(group.heads.methods[at])
                np.maximum.at(self._of_cell, rows[np.isfinite(own)], rank)

    def counting(self, method: Method, rows: Ints) -> NDArray[np.bool_]:
        """Return which trials of one version count in their cells; the others are counted as left out."""
        counts = self._of_cell[rows] == self._order.index(method)
        if not counts.all():
            name = method_name(method)
            self.left_out[name] = self.left_out.get(name, 0) + int((~counts).sum())
        return np.asarray(counts)

    def older(self, kept: Ints) -> dict[int, Method]:
        """Return the version of each kept cell whose version is older than the newest."""
        behind = kept[self._of_cell[kept] < len(self._order) - 1].tolist()
        return {cell: self._order[self._of_cell[cell]] for cell in behind}


def _values(group: _Group, at: int) -> tuple[Ints, Ints, Floats]:
    """Return cell, block and value of one metric in each trial of a group."""
    rows, places = np.frombuffer(group.rows, np.int64), np.frombuffer(group.places, np.int64)
    return rows, places, np.frombuffer(group.values, np.float64)[at :: len(group.heads.quantities)]


def _fill(values: Floats, group: _Group, at: int, versions: _Versions) -> list[int]:
    """Store a group's values of one metric in the array; return the blocks of non-finite values."""
    rows, places, own = _values(group, at)
    finite = np.isfinite(own)
    rows, odd, places, own = rows[finite], places[~finite], places[finite], own[finite]
    counts = versions.counting(group.heads.methods[at], rows)
    values[rows[counts], places[counts]] = own[counts]
    return [int(place) for place in odd]


def _limits(values: Floats, group: _Group, at: int) -> dict[tuple[int, int], str]:
    """Return the limits of a group's values of one metric, by cell and block."""
    where = ((group.rows[trial], group.places[trial], limit) for trial, of, limit in group.limits if of == at)
    return {(cell, place): limit for cell, place, limit in where if not math.isnan(values[cell, place])}


def _by_row(limited: Mapping[tuple[int, int], str], kept: Ints) -> dict[tuple[int, int], str]:
    return {(int(np.searchsorted(kept, cell)), place): limit for (cell, place), limit in limited.items()}


def _mixed_units(measure: str, of: Quantity, seen: str, allowed: str) -> Problem:
    return Problem(
        where="trials.jsonl",
        doing=Phrase("analysis.reading-metric", metric=of, measure=measure),
        seen=Phrase("analysis.unit", unit=repr(seen)),
        allowed=Phrase("analysis.unit-as-before", unit=repr(allowed)),
        advice=Phrase("analysis.versions-mixed"),
    )
