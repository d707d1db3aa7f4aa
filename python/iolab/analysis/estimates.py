"""One column of trials -> one Estimate per cell: means, intervals, ratios to the baseline, p-values."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from iolab.analysis import intervals
from iolab.analysis.correction import holm
from iolab.analysis.outliers import Standing
from iolab.analysis.ratios import block_ratios, mean_ratio
from iolab.analysis.table import Column, Table
from iolab.analysis.types import Estimate, Interval

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LOGS = " on log ratios"
PLAIN = " on ratios"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ratios:
    """Ratios of one column to the baseline, one entry per cell of the column."""

    count: Ints
    """Pairs."""
    mean: Floats
    """NaN without a pair."""
    intervals: list[Interval | None]
    """Of the mean."""
    p_values: Floats
    """Holm-corrected; NaN where not compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Summary:
    """What an Estimate needs, as lists with one entry per cell of the column; NaN where there is nothing."""

    n: list[int]
    mean: list[float]
    least: list[float]
    most: list[float]
    median: list[float]
    ci: list[Interval | None]
    ratio: list[float]
    ratio_ci: list[Interval | None]
    ratio_n: list[int]
    p_value: list[float]
    values: list[list[float]]
    outliers: list[tuple[int, ...]]
    mean_without: list[float]
    ratio_without: list[float]


def estimate(table: Table, column: Column, baseline: Ints, standing: Standing) -> list[Estimate]:
    """Estimates of one metric, in the order of the cells; `baseline`: each cell's baseline cell or -1."""
    summary = _summarise(column, baseline, standing)
    return [_one(table, column, summary, row, cell) for row, cell in enumerate(column.rows.tolist())]


def _one(table: Table, column: Column, of: _Summary, row: int, cell: int) -> Estimate:
    return Estimate(
        cell=table.cells[cell],
        measure=table.measure,
        metric=column.metric,
        direction=table.directions[cell] if table.directions else "",
        unit=column.unit,
        n=of.n[row],
        mean=of.mean[row],
        min=of.least[row],
        max=of.most[row],
        median=of.median[row],
        ci=of.ci[row],
        ratio=_known(of.ratio[row]),
        ratio_ci=of.ratio_ci[row],
        ratio_n=of.ratio_n[row],
        p_value=_known(of.p_value[row]),
        values=tuple(value for value in of.values[row] if not math.isnan(value)),
        outliers=of.outliers[row],
        mean_without=_known(of.mean_without[row]),
        ratio_without=_known(of.ratio_without[row]),
    )


def _summarise(column: Column, baseline: Ints, standing: Standing) -> _Summary:
    values, count = column.values, (~np.isnan(column.values)).sum(axis=1)
    ordered = np.sort(values, axis=1)  # NaN comes last
    largest = ordered[np.arange(len(values)), count - 1]
    # the sum of equal values may round beyond them
    mean = np.clip(np.nansum(values, axis=1) / count, ordered[:, 0], largest)
    ratios = _ratios(column, baseline)
    marked = np.asarray(standing.marked.any(axis=1))
    kept = np.where(standing.marked, np.nan, values)
    ratios_kept = block_ratios(kept, column.rows, baseline)
    touched = ((~np.isnan(ratios_kept)).sum(axis=1) < ratios.count) & (baseline[column.rows] != column.rows)
    return _Summary(
        n=count.tolist(),
        mean=mean.tolist(),
        least=ordered[:, 0].tolist(),
        most=largest.tolist(),
        median=standing.median[:, 0].tolist(),
        ci=_mean_intervals(values, count),
        ratio=ratios.mean.tolist(),
        ratio_ci=ratios.intervals,
        ratio_n=ratios.count.tolist(),
        p_value=ratios.p_values.tolist(),
        values=values.tolist(),
        outliers=[_marked_indices(standing, row) if any_ else () for row, any_ in enumerate(marked.tolist())],
        mean_without=np.where(marked, _mean_known(kept), np.nan).tolist(),
        ratio_without=np.where(touched, mean_ratio(ratios_kept), np.nan).tolist(),
    )


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _mean_known(values: Floats) -> Floats:
    count = (~np.isnan(values)).sum(axis=1)
    return np.where(count > 0, np.nansum(values, axis=1) / np.maximum(count, 1), np.nan)


def _marked_indices(standing: Standing, row: int) -> tuple[int, ...]:
    """Indices among the trials that exist."""
    there = ~np.isnan(standing.robust_z[row])
    return tuple(int(index) for index in np.flatnonzero(standing.marked[row][there]))


def _groups(count: Ints) -> list[tuple[int, Ints]]:
    """Number of trials -> the rows that have so many, for every number that gets an interval."""
    return [(int(n), np.flatnonzero(count == n)) for n in np.unique(count) if n >= intervals.FEWEST]


def _compact(values: Floats, rows: Ints, n: int) -> Floats:
    """Rows that have n values each, without their gaps; shape (row, n)."""
    part = values[rows]
    return part if part.shape[1] == n else part[~np.isnan(part)].reshape(len(rows), n)


def _mean_intervals(values: Floats, count: Ints) -> list[Interval | None]:
    found: list[Interval | None] = [None] * len(values)
    for n, rows in _groups(count):
        low, high = intervals.t_interval(_compact(values, rows, n))
        for row, lower, upper in zip(rows.tolist(), low.tolist(), high.tolist(), strict=True):
            found[row] = Interval(lower, upper, intervals.METHOD)
    return found


def _ratios(column: Column, baseline: Ints) -> _Ratios:
    ratios = block_ratios(column.values, column.rows, baseline)
    own = baseline[column.rows] == column.rows
    count = (~np.isnan(ratios)).sum(axis=1)
    found: list[Interval | None] = [None] * len(ratios)
    p_values = np.full(len(ratios), np.nan)
    positive = np.asarray((np.isnan(ratios) | (ratios > 0)).all(axis=1))
    for n, group in _groups(np.where(own, 0, count)):
        for on_logs in (True, False):
            rows = group[positive[group] == on_logs]
            if not len(rows):
                continue
            samples = _compact(ratios, rows, n)
            samples = np.log(samples) if on_logs else samples
            low, high = intervals.t_interval(samples)
            if on_logs:
                low, high = np.exp(low), np.exp(high)
                p_values[rows] = intervals.t_p_value(samples)
            method = intervals.METHOD + (LOGS if on_logs else PLAIN)
            for row, lower, upper in zip(rows.tolist(), low.tolist(), high.tolist(), strict=True):
                found[row] = Interval(lower, upper, method)
    mean = np.where(own & (count > 0), 1.0, mean_ratio(ratios))
    return _Ratios(count=count, mean=mean, intervals=found, p_values=holm(p_values))


def ratio_of_pairs(ratios: Floats) -> tuple[float, Interval | None]:
    """Mean of the ratios of some blocks and its interval, by the rule of all ratios; there is at least one."""
    mean = float(mean_ratio(ratios[None, :])[0])
    on_logs = bool((ratios > 0).all())
    found = intervals.interval_of_mean(np.log(ratios) if on_logs else ratios)
    if found is None:
        return mean, None
    if not on_logs:
        return mean, Interval(found.low, found.high, found.method + PLAIN)
    return mean, Interval(math.exp(found.low), math.exp(found.high), found.method + LOGS)
