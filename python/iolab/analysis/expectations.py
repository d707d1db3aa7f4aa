"""Compare a run with the expectations of its experiment: each is met, not met, or not decided.

Bounds, ratios and equivalence are judged by the confidence sequence of `sequential` at 95 %, because blocks are added
until an expectation is decided. docs/method/gate.md defines the sequence.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

import numpy as np

from iolab.analysis import sequential
from iolab.analysis.types import CellKey, cell_key
from iolab.experiment.experiment import Expectation
from iolab.experiment.factors.product import matches
from iolab.frozen import frozen
from iolab.plan.types import Plan
from iolab.results.metric import Quantity
from iolab.results.trial import Status
from iolab.store.records import TrialRecord

ALPHA = 0.05
"""Error rate of an expectation of one cell."""


class Result(StrEnum):
    """Result of an expectation."""

    MET = "met"
    NOT_MET = "not-met"
    NOT_DECIDED = "not-decided"


@frozen(kw_only=True)
class Judged:
    """An expectation and its result in one cell."""

    expectation: Expectation
    """The expectation."""
    cell: Mapping[str, str]
    """Level label by factor, without the factor that a ratio compares."""
    result: Result
    """The result."""
    metric: Quantity | None = None
    """The metric; None if the expectation is about limits, or if no trial has the metric."""
    unit: str = ""
    """Unit of the interval: that of the metric, or "ratio"."""
    low: float = 0.0
    """Lower end of the confidence sequence; 0 if unbounded."""
    high: float = math.inf
    """Upper end of the confidence sequence; infinite if unbounded."""
    blocks: int = 0
    """Number of blocks on which the result is based."""
    needed: int | None = None
    """Further blocks until a decision if the evidence grows as before; None: the number is unknown, or the expectation
    is decided."""
    verdicts: tuple[str, ...] = ()
    """The limits of the trials, if the expectation is about limits."""


def judge(
    expectations: Iterable[Expectation],
    trials: Sequence[TrialRecord],
    plan: Plan,
    leading: Mapping[str, Quantity],
) -> tuple[Judged, ...]:
    """Return the result of each expectation in each of its cells, in file order; an expectation that no cell matches is
    not decided."""
    found: list[Judged] = []
    records = _records(trials, plan)
    for one in expectations:
        cells = records.get(one.measure, {})
        named = {cell_key(cell): cell for cell in (dict(key) for key in cells)}
        wanted = [
            cell
            for cell in plan.in_order(list(named.values()))
            if not one.cells or any(matches(cell, selector) for selector in one.cells)
        ]
        metric = Quantity(one.metric) if one.metric else leading.get(one.measure)
        judged = [each for cell in wanted if (each := _judged(one, cell, cells, metric)) is not None]
        found += judged or [Judged(expectation=one, cell={}, result=Result.NOT_DECIDED)]
    return tuple(found)


def overall(judged: Iterable[Judged]) -> Result:
    """Return the result of all expectations together: the worst."""
    results = {each.result for each in judged}
    return next((one for one in (Result.NOT_MET, Result.NOT_DECIDED) if one in results), Result.MET)


Blocks = Mapping[int, TrialRecord]


def _records(trials: Sequence[TrialRecord], plan: Plan) -> dict[str, dict[CellKey, dict[int, TrialRecord]]]:
    """Return the last valid trial of each step by measure, cell and block."""
    last = {trial.key: trial for trial in trials if trial.result.status is Status.OK}
    found: dict[str, dict[CellKey, dict[int, TrialRecord]]] = {}
    for step in plan.steps:
        cells = found.setdefault(step.measure, {}).setdefault(cell_key(plan.cell(step)), {})
        if step.key in last:
            cells[step.block] = last[step.key]
    return found


def _judged(
    one: Expectation, cell: Mapping[str, str], cells: Mapping[CellKey, Blocks], metric: Quantity | None
) -> Judged | None:
    """Return the result in a cell; None if the cell is not the numerator of the expected ratio."""
    own = cells[cell_key(cell)]
    if one.verdicts:
        return _verdict(one, cell, own)
    ratio = one.ratio
    if ratio is None:
        values, unit = _values(own, metric)
        return _bounded(one, cell, metric, unit, _logs(np.array(list(values.values()))))
    if cell.get(ratio.factor) != ratio.above:
        return None
    other = cells.get(cell_key({**cell, ratio.factor: ratio.below}))
    if other is None:
        return None
    (above, _), (below, _) = _values(own, metric), _values(other, metric)
    blocks = sorted(above.keys() & below.keys())
    usable = [at for at in blocks if above[at] >= 0 and below[at] >= 0]
    logs = sequential.log_ratios(
        np.array([above[at] for at in usable]), np.array([below[at] for at in usable])
    )
    rest = {name: label for name, label in cell.items() if name != ratio.factor}
    return _bounded(one, rest, metric, "ratio", logs)


def _values(blocks: Blocks, metric: Quantity | None) -> tuple[dict[int, float], str]:
    """Return the finite values of a metric by block, and its unit."""
    if metric is None:
        return {}, ""
    found = {at: trial.result.metrics.get(metric.name, metric.dimensions) for at, trial in blocks.items()}
    known = {at: each for at, each in found.items() if each is not None and math.isfinite(each.value)}
    return {at: each.value for at, each in known.items()}, next((each.unit for each in known.values()), "")


def _logs(values: sequential.Floats) -> sequential.Floats:
    """Return the logarithms of values, bounded where a value is 0 or negative."""
    return np.log(np.maximum(values, math.exp(-sequential.LARGEST_LOG))) if len(values) else values


def _bounded(
    one: Expectation,
    cell: Mapping[str, str],
    metric: Quantity | None,
    unit: str,
    logs: sequential.Floats,
) -> Judged:
    """Judge by the interval: met if it is within the bounds, not met if it is outside."""
    if one.equivalent is not None:
        least, most = -math.log1p(one.equivalent), math.log1p(one.equivalent)
    else:
        least = math.log(one.min) if one.min is not None else -math.inf
        most = math.log(one.max) if one.max is not None else math.inf
    low, high = sequential.confidence_sequence(logs, ALPHA)
    comparable = one.unit in ("", unit)
    if comparable and least <= low and high <= most:
        result = Result.MET
    elif comparable and (high < least or low > most):
        result = Result.NOT_MET
    else:
        result = Result.NOT_DECIDED
    return Judged(
        expectation=one,
        cell=cell,
        result=result,
        metric=metric,
        unit=unit,
        low=math.exp(low),
        high=math.exp(high),
        blocks=len(logs),
        needed=_needed(logs, least, most) if result is Result.NOT_DECIDED and comparable else None,
    )


def _needed(logs: sequential.Floats, least: float, most: float) -> int | None:
    """Return the number of further blocks until the expectation is decided as met or as not met, whichever takes fewer;
    None if the evidence grows for neither result."""
    if not len(logs):
        return None
    above, below = {}, {}
    for bound in (one for one in (least, most) if math.isfinite(one)):
        above[bound] = float(sequential.log_evidence(logs, bound)[-1])
        below[bound] = float(sequential.log_evidence(-logs, -bound)[-1])
    inside = [above[least]] if least in above else []
    inside += [below[most]] if most in below else []
    paths = [min(inside), below.get(least, -math.inf), above.get(most, -math.inf)]
    needs = [sequential.pairs_needed(evidence, len(logs), ALPHA / 2) for evidence in paths]
    return min((need for need in needs if need is not None), default=None)


def _verdict(one: Expectation, cell: Mapping[str, str], blocks: Blocks) -> Judged:
    """Judge the limits of the trials: met if all limits are expected and none is doubtful, not met if no limit is
    expected."""
    verdicts = [trial.result.verdict for _, trial in sorted(blocks.items())]
    limits = [verdict.limit.value for verdict in verdicts if verdict is not None]
    sure = [verdict is not None and verdict.doubt is None for verdict in verdicts]
    expected = [limit in one.verdicts for limit in limits]
    if limits and all(sure) and all(expected):
        result = Result.MET
    elif limits and not any(expected):
        result = Result.NOT_MET
    else:
        result = Result.NOT_DECIDED
    return Judged(
        expectation=one,
        cell=cell,
        result=result,
        blocks=len(verdicts),
        verdicts=tuple(dict.fromkeys(limits)),
    )
