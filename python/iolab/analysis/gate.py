"""Decide a gate from its pairs: each cell is changed, equivalent or not decided. docs/method/gate.md defines the
procedure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Protocol

import numpy as np

from iolab.analysis import sequential
from iolab.analysis.analyse import leading_metric
from iolab.analysis.expectations import Result
from iolab.analysis.sequential import Decision, Outcome, Rule
from iolab.analysis.types import CellKey, cell_key
from iolab.frozen import frozen
from iolab.results.metric import Quantity
from iolab.results.trial import Status
from iolab.store.records import TrialRecord

BETTER: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("bit/s", "byte/s", "frame/s", "op/s", "1/s"), "larger"),
        **dict.fromkeys(("ns", "s"), "smaller"),
    }
)
"""Preferred direction by unit, for leading metrics that declare none: rates should be large, times small."""
UNEQUAL_ALPHA = 0.01
"""p-value below which the two subjects differ significantly in their numbers of void runs."""
HOPELESS = 5
"""Number of void pairs after which the measurement of a cell ends if no pair was valid."""


class Paired(Protocol):
    """One run of each subject."""

    @property
    def records(self) -> Mapping[str, tuple[TrialRecord, ...]]:
        """Trials by subject."""

    @property
    def slow(self) -> tuple[str, ...]:
        """Subjects whose run took too long."""


@frozen(kw_only=True)
class GateCell:
    """The result of one cell."""

    measure: str
    """Measure name."""
    cell: Mapping[str, str]
    """Level label by factor, without the subject."""
    metric: Quantity | None
    """Leading metric; None if no trial succeeded."""
    decision: Decision
    """The decision on the ratio of the candidate to the base."""
    better: str
    """Preferred direction of the metric: "larger", "smaller", or empty if not declared."""
    voids: Mapping[str, int]
    """Number of void runs by subject."""
    reason: str = ""
    """Reason code of the first failure, if there was one; empty otherwise."""

    @property
    def unequal(self) -> bool:
        """Whether one subject has more void runs than chance explains; the cell is then not decided."""
        return _unequal(self.voids)

    @property
    def result(self) -> Result:
        """The cell's result in the gate: not met if the cell changed for the worse."""
        if self.unequal:
            return Result.NOT_DECIDED
        if self.decision.outcome is Outcome.EQUIVALENT:
            return Result.MET
        if self.decision.outcome is Outcome.CHANGED:
            return Result.MET if self.is_improved else Result.NOT_MET
        return Result.NOT_DECIDED

    @property
    def is_improved(self) -> bool:
        """Whether the ratio is on the preferred side of 1."""
        return (self.better == "larger" and self.decision.low > 1) or (
            self.better == "smaller" and self.decision.high < 1
        )


def judge_pairs(
    pairs: Sequence[Paired], subjects: tuple[str, str], factor: str, rule: Rule, *, last: bool = False
) -> tuple[GateCell, ...]:
    """Return the state of every cell; `subjects` are candidate and base. `last` is set if no further pair follows."""
    rows: dict[tuple[str, CellKey], _Row] = {}
    for pair in pairs:
        sides = [_by_cell(pair.records.get(subject, ()), factor) for subject in subjects]
        for key in dict.fromkeys((*sides[0], *sides[1])):
            row = rows.setdefault(key, _Row(subjects))
            row.add([side.get(key) for side in sides], pair.slow)
    logs = [np.array(row.logs) for row in rows.values()]
    decisions = sequential.decide(logs, rule, last=last)
    return tuple(
        GateCell(
            measure=measure,
            cell=dict(cell),
            metric=row.metric,
            decision=_ended(decision, row),
            better=row.better,
            voids=row.voids,
            reason=row.reason,
        )
        for ((measure, cell), row), decision in zip(rows.items(), decisions, strict=True)
    )


def is_decided(cells: Sequence[GateCell]) -> bool:
    """Whether no cell needs a further pair."""
    return all(cell.decision.outcome is not Outcome.OPEN for cell in cells)


def overall(cells: Sequence[GateCell]) -> Result:
    """Return the result of the gate: the worst of its cells; if there are no cells, not decided."""
    results = {cell.result for cell in cells}
    if not results or (Result.NOT_DECIDED in results and Result.NOT_MET not in results):
        return Result.NOT_DECIDED
    return Result.NOT_MET if Result.NOT_MET in results else Result.MET


class _Row:
    """The pairs of one cell."""

    def __init__(self, subjects: tuple[str, str]) -> None:
        self.logs: list[float] = []
        self.voids = dict.fromkeys(subjects, 0)
        self.metric: Quantity | None = None
        self.better = self.reason = ""

    def add(self, records: Sequence[TrialRecord | None], slow: Sequence[str]) -> None:
        """Add a pair: a log ratio, or void runs. Whether a run is void never depends on its value."""
        values = []
        for subject, record in zip(self.voids, records, strict=True):
            value = None if record is None else self._value(record)
            if value is None or subject in slow:
                self.voids[subject] += 1
                if record is not None and record.result.reason is not None:
                    self.reason = self.reason or record.result.reason.code
            values.append(value)
        candidate, base = values
        if candidate is not None and base is not None and not slow:
            self.logs.append(float(sequential.log_ratios(np.array([candidate]), np.array([base]))[0]))

    def _value(self, record: TrialRecord) -> float | None:
        """Return the leading metric of a valid trial; None if the trial has no such metric, or if its value is negative
        or not finite."""
        if record.result.status is not Status.OK or not len(record.result.metrics):
            return None
        metrics = record.result.metrics
        if self.metric is None:
            self.metric = leading_metric(metrics.heads.quantities, record.kind)
        found = metrics.get(self.metric.name, self.metric.dimensions)
        if found is None or not math.isfinite(found.value) or found.value < 0:
            return None
        self.better = found.better or BETTER.get(found.unit, "")
        return found.value


def _by_cell(records: Sequence[TrialRecord], factor: str) -> dict[tuple[str, CellKey], TrialRecord]:
    return {
        (one.measure, cell_key({name: label for name, label in one.cell.items() if name != factor})): one
        for one in records
    }


def _ended(decision: Decision, row: _Row) -> Decision:
    """End a cell that cannot be measured."""
    hopeless = not row.logs and max(row.voids.values()) >= HOPELESS
    return replace(decision, outcome=Outcome.NOT_DECIDED) if hopeless else decision


def _unequal(voids: Mapping[str, int]) -> bool:
    """Whether the numbers of void runs differ significantly in a two-sided sign test."""
    one, other = voids.values()
    total = one + other
    tail = sum(math.comb(total, at) for at in range(max(one, other), total + 1)) / 2**total
    return total > 0 and min(1.0, 2 * tail) < UNEQUAL_ALPHA
