"""Compare run b with run a, measure by measure and cell by cell; reject metrics whose units differ.

The intervals cover the spread between trials, not other changes between the runs, because the runs were not
interleaved. Warnings list the host facts that differ.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from iolab.analysis.analyse import kinds_of, leading_metric
from iolab.analysis.bounds import limits, ratio_bound
from iolab.analysis.comparison import CellComparison, Comparison, LoneCell, OverallComparison
from iolab.analysis.intervals import holm
from iolab.analysis.table import Column, Table, tabulate
from iolab.analysis.types import Interval
from iolab.errors import InputError, Problem
from iolab.locale import Phrase
from iolab.messages.notes import EffectDiffers, FactDiffers, MethodsDiffer, MethodsUnknown, NoteOfRun
from iolab.messages.warnings import TrialWarning
from iolab.registry.registry import programs
from iolab.results.metric import Method, Quantity, method_name
from iolab.results.trial import Status
from iolab.store.records import StoredRun

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

METHOD = "Welch's t on logs"
FEWEST = 3
"""Minimum number of trials of a cell in each run for an interval."""
FACTS = (
    ("kernel",), ("cpu_model",), ("microcode",), ("firmware",), ("cpus",), ("accelerator",), ("virtualization",),
    ("clocksource",), ("hello", "rootless"), ("hello", "version"),
)  # fmt: skip
"""Paths in facts.json of the host facts that affect results, apart from program versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Welch:
    """Welch's test on logarithms, per cell; NaN if a cell has too few trials or a non-positive value."""

    value: Floats
    """Logarithm of the ratio."""
    variance: Floats
    """Variance of `value`."""
    freedom: Floats
    """Welch-Satterthwaite degrees of freedom."""


def compare(a: StoredRun, b: StoredRun) -> Comparison:
    """Compare run b with run a.

    Raises:
        InputError: a metric has different units in the two runs.
    """
    tables_a, notes_a = tabulate(a.trials, a.plan)
    tables_b, notes_b = tabulate(b.trials, b.plan)
    by_name = {table.measure: table for table in tables_b}
    pairs = [(table, by_name[table.measure]) for table in tables_a if table.measure in by_name]
    _refuse_units(a, b, pairs)
    alike_unknown = a.trial_schema == b.trial_schema
    cells: list[CellComparison] = []
    overall: list[tuple[OverallComparison, float]] = []
    leading, kinds = {}, kinds_of(a.trials)
    for table, other in pairs:
        common = [metric for metric in table.columns if metric in other.columns]
        if not common:
            continue
        first = leading_metric(common, kinds.get(table.measure, ""))
        leading[table.measure] = first
        for metric in sorted(common, key=lambda one: one != first):
            own, welch = _compare_metric(table, other, metric, alike_unknown)
            cells += own
            better = other.columns[metric].better
            found = _overall(table.measure, metric, welch, better) if metric == first else None
            overall += [found] if found is not None else []
    return Comparison(
        run_a=a.name,
        run_b=b.name,
        cells=tuple(cells),
        overall=_corrected(overall),
        leading=leading,
        only_a=_lone(tables_a, tables_b),
        only_b=_lone(tables_b, tables_a),
        warnings=(
            *_methods(cells, a.trial_schema, alike_unknown=alike_unknown),
            *differing_facts(a.facts, b.facts),
            *differing_effects(a, b),
            *_named(a.name, notes_a),
            *_named(b.name, notes_b),
        ),
    )


def _one_method(a: Method, b: Method, *, alike_unknown: bool) -> bool:
    """Whether the values of two runs were computed by the same method version.

    Before methods had versions, a change of a metric's meaning raised the schema version of trials. Unknown versions
    are therefore equal if the trials of both runs have the same schema version.
    """
    return a == b and (a is not None or alike_unknown)


def _methods(
    cells: Sequence[CellComparison], schema: int, *, alike_unknown: bool
) -> Iterator[MethodsDiffer | MethodsUnknown]:
    """Yield warnings about metrics that have no ratio because their method versions differ, and about assumed
    versions."""
    found: dict[tuple[str, Method, Method], dict[str, None]] = {}
    for each in cells:
        if not _one_method(each.method_a, each.method_b, alike_unknown=alike_unknown):
            found.setdefault((each.measure, each.method_a, each.method_b), {})[each.metric.name] = None
    for (measure, first, second), metrics in found.items():
        yield MethodsDiffer(
            measure=measure, metrics=tuple(metrics), first=method_name(first), second=method_name(second)
        )
    if alike_unknown and any(each.method_a is None and each.method_b is None for each in cells):
        yield MethodsUnknown(trial_schema=schema)


def _refuse_units(a: StoredRun, b: StoredRun, pairs: list[tuple[Table, Table]]) -> None:
    problems = [
        Problem(
            where=f"{a.name}, {b.name}",
            doing=Phrase("analysis.comparing-metric", metric=name, measure=table.measure),
            seen=Phrase(
                "analysis.units-differ", first=repr(column.unit), second=repr(other.columns[name].unit)
            ),
            allowed=Phrase("analysis.same-unit"),
            advice=Phrase("analysis.measure-one-run-again"),
        )
        for table, other in pairs
        for name, column in table.columns.items()
        if name in other.columns and other.columns[name].unit != column.unit
    ]
    if problems:
        raise InputError(problems)


def differing_facts(a: Mapping[str, object], b: Mapping[str, object]) -> tuple[TrialWarning, ...]:
    """Return one warning per fact that affects results and differs between the hosts."""
    found = []
    for path in (*FACTS, *(("programs", program) for program in programs())):
        first, second = _fact(a, path), _fact(b, path)
        if first != second:
            found.append(FactDiffers(fact=".".join(path), first=_said(first), second=_said(second)))
    return tuple(found)


def differing_effects(a: StoredRun, b: StoredRun) -> tuple[TrialWarning, ...]:
    """Return one warning per setting whose effective values differ in cells that both runs have."""
    first, second = _effects(a), _effects(b)
    found: dict[tuple[str, str, str], dict[str, None]] = {}
    for where in first.keys() & second.keys():
        if first[where] != second[where]:
            _, _, place, setting = where
            one, other = (", ".join(sorted(own[where])) for own in (first, second))
            found.setdefault((setting, one, other), {})[place] = None
    return tuple(
        EffectDiffers(setting=setting, places=tuple(sorted(places)), first=one, second=other)
        for (setting, one, other), places in sorted(found.items())
    )


def _effects(run: StoredRun) -> dict[tuple[str, tuple[tuple[str, str], ...], str, str], set[str]]:
    """Return the effective values in the trials of a run, by measure, cell, place and setting."""
    found: dict[tuple[str, tuple[tuple[str, str], ...], str, str], set[str]] = {}
    for trial in run.trials:
        if trial.result.status is Status.OK:
            for place, settings in trial.result.in_effect.items():
                for setting, value in settings.items():
                    where = (trial.measure, tuple(trial.cell.items()), place, setting)
                    found.setdefault(where, set()).add(value)
    return found


def _fact(facts: Mapping[str, object], path: tuple[str, ...]) -> object:
    value: object = facts
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _said(value: object) -> str:
    return "" if value is None else str(value)


def _named(run: str, notes: tuple[TrialWarning, ...]) -> list[NoteOfRun]:
    return [NoteOfRun(run=run, note=note) for note in notes]


def _identity(cell: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset(cell.items())


def _measured(table: Table) -> dict[frozenset[tuple[str, str]], Mapping[str, str]]:
    """Return the cells with at least one trial, by identity."""
    return {_identity(cell): cell for cell, keys in zip(table.cells, table.keys, strict=True) if any(keys)}


def _lone(tables: tuple[Table, ...], others: tuple[Table, ...]) -> tuple[LoneCell, ...]:
    known = {table.measure: _measured(table) for table in others}
    return tuple(
        LoneCell(measure=table.measure, cell=cell)
        for table in tables
        for identity, cell in _measured(table).items()
        if identity not in known.get(table.measure, {})
    )


def _compare_metric(
    a: Table, b: Table, metric: Quantity, alike_unknown: bool
) -> tuple[list[CellComparison], _Welch]:
    first, second = a.columns[metric], b.columns[metric]
    place = {_identity(b.cells[cell]): row for row, cell in enumerate(second.rows.tolist())}
    found = [place.get(_identity(a.cells[cell]), -1) for cell in first.rows.tolist()]
    rows_b = np.array(found, dtype=np.int64)
    rows_a = np.flatnonzero(rows_b >= 0)
    values_a, values_b = first.values[rows_a], second.values[rows_b[rows_a]]
    cells = [a.cells[cell] for cell in first.rows[rows_a].tolist()]
    limited_a = [limits(first, row) for row in rows_a.tolist()]
    limited_b = [limits(second, row) for row in rows_b[rows_a].tolist()]
    apart = np.isin(first.rows[rows_a], list(a.apart)) | np.isin(second.rows[rows_b[rows_a]], list(b.apart))
    apart |= np.isin(first.rows[rows_a], list(a.emulated)) != np.isin(
        second.rows[rows_b[rows_a]], list(b.emulated)
    )
    methods = [
        (first.method_of(one), second.method_of(other))
        for one, other in zip(first.rows[rows_a].tolist(), second.rows[rows_b[rows_a]].tolist(), strict=True)
    ]
    apart |= np.array([not _one_method(*pair, alike_unknown=alike_unknown) for pair in methods], dtype=bool)
    exact = ~apart & np.array(
        [not (one or other) for one, other in zip(limited_a, limited_b, strict=True)], dtype=bool
    )
    known = _welch(np.where(exact[:, None], values_a, np.nan), np.where(exact[:, None], values_b, np.nan))
    found_cells = _cells(a.measure, second, cells, values_a, values_b, known)
    compared = [
        replace(cell, ratio=None if alone else cell.ratio, method_a=method_a, method_b=method_b)
        for cell, alone, (method_a, method_b) in zip(found_cells, apart.tolist(), methods, strict=True)
    ]
    marked = zip(compared, limited_a, limited_b, strict=True)
    return [_bounded(cell, one, other) for cell, one, other in marked], known


def _bounded(cell: CellComparison, limited_a: tuple[str, ...], limited_b: tuple[str, ...]) -> CellComparison:
    """Return a cell comparison without a ratio if either mean is only a lower bound."""
    if not (limited_a or limited_b):
        return cell
    bound = ratio_bound(bool(limited_b), bool(limited_a))
    return replace(cell, limited_a=limited_a, limited_b=limited_b, ratio=None, ratio_bound=bound)


def _count(values: Floats) -> Floats:
    return np.asarray((~np.isnan(values)).sum(axis=1), dtype=np.float64)


def _mean(values: Floats) -> Floats:
    return np.asarray(np.nansum(values, axis=1) / np.maximum(_count(values), 1))


def _logs(values: Floats) -> Floats:
    """Return the logarithms; all NaN in a row with a non-positive value."""
    usable = (np.isnan(values) | (values > 0)).all(axis=1, keepdims=True)
    return np.log(np.where(usable & (values > 0), values, np.nan))


def _share(logs: Floats) -> tuple[Floats, Floats]:
    """Return the variance of each row's mean and the degrees of freedom; NaN with fewer than two values."""
    n = _count(logs)
    usable = n >= 2
    squares = np.nansum((logs - _mean(logs)[:, None]) ** 2, axis=1)
    variance = np.where(usable, squares / np.maximum(n - 1, 1) / np.maximum(n, 1), np.nan)
    return variance, np.where(usable, n - 1, np.nan)


def _welch(a: Floats, b: Floats) -> _Welch:
    """Return the difference of the mean logarithms, b - a, per row (Welch 1947)."""
    logs_a, logs_b = _logs(a), _logs(b)
    (part_a, free_a), (part_b, free_b) = _share(logs_a), _share(logs_b)
    value = np.where((_count(logs_a) > 0) & (_count(logs_b) > 0), _mean(logs_b) - _mean(logs_a), np.nan)
    variance = part_a + part_b
    weight = part_a**2 / free_a + part_b**2 / free_b
    freedom = np.where(weight > 0, variance**2 / np.where(weight > 0, weight, 1.0), free_a + free_b)
    return _Welch(value=value, variance=variance, freedom=freedom)


def _two_sided(value: Floats, variance: Floats, freedom: Floats) -> Floats:
    """Return the p-value of the hypothesis that the value is 0; with zero variance it is 1 for value 0, else 0."""
    flat = variance == 0
    t = np.abs(value) / np.sqrt(np.where(flat, 1.0, variance))
    return np.where(flat, np.where(value == 0, 1.0, 0.0), 2.0 * stdtr(freedom, -t))


def _cells(
    measure: str, column: Column, cells: list[Mapping[str, str]], a: Floats, b: Floats, welch: _Welch
) -> list[CellComparison]:
    mean_a, mean_b = _mean(a), _mean(b)
    enough = (np.minimum(_count(a), _count(b)) >= FEWEST) & ~np.isnan(welch.freedom)
    p_values = np.where(enough, _two_sided(welch.value, welch.variance, welch.freedom), np.nan)
    half = np.where(enough, stdtrit(welch.freedom, 0.975) * np.sqrt(welch.variance), np.nan)
    plain = np.where(mean_a != 0, mean_b / np.where(mean_a != 0, mean_a, 1.0), np.nan)
    ratio = np.where(np.isnan(welch.value), plain, np.exp(welch.value))
    low, high, corrected = np.exp(welch.value - half), np.exp(welch.value + half), holm(p_values)
    return [
        CellComparison(
            cell=cell,
            measure=measure,
            metric=column.metric,
            unit=column.unit,
            better=column.better,
            n_a=int(_count(a[row : row + 1])[0]),
            n_b=int(_count(b[row : row + 1])[0]),
            mean_a=float(mean_a[row]),
            mean_b=float(mean_b[row]),
            ratio=None if np.isnan(ratio[row]) else float(ratio[row]),
            ci=Interval(float(low[row]), float(high[row]), METHOD) if enough[row] else None,
            p_value=float(corrected[row]) if enough[row] else None,
        )
        for row, cell in enumerate(cells)
    ]


def _overall(
    measure: str, metric: Quantity, welch: _Welch, better: str
) -> tuple[OverallComparison, float] | None:
    """Return the mean of the cells' logarithms with Satterthwaite's degrees of freedom, and the uncorrected
    p-value."""
    known = ~np.isnan(welch.value)
    if not known.any():
        return None
    variance, freedom = welch.variance[known], welch.freedom[known]
    cells, value = len(variance), welch.value[known].mean(keepdims=True)
    total = variance.sum(keepdims=True)
    weight = (variance**2 / freedom).sum(keepdims=True)
    free = np.where(weight > 0, total**2 / np.where(weight > 0, weight, 1.0), freedom.sum())
    error = np.sqrt(total) / cells
    ci, p_value = None, float("nan")
    if free[0] >= FEWEST:  # False for NaN, which stands for a cell with a single trial
        half = stdtrit(free, 0.975) * error
        ci = Interval(float(np.exp(value - half)[0]), float(np.exp(value + half)[0]), METHOD)
        p_value = float(_two_sided(value, error**2, free)[0])
    found = OverallComparison(
        measure=measure, metric=metric, cells=cells, ratio=float(np.exp(value[0])), ci=ci, p_value=None,
        better=better,
    )  # fmt: skip
    return found, p_value


def _corrected(overall: list[tuple[OverallComparison, float]]) -> tuple[OverallComparison, ...]:
    corrected = holm(np.array([p_value for _, p_value in overall])).tolist()
    return tuple(
        replace(found, p_value=None if np.isnan(p_value) else p_value)
        for (found, _), p_value in zip(overall, corrected, strict=True)
    )
