"""Compute one estimate per cell from a column of trials: means, intervals, ratios to the baseline, p-values.

Statistics are computed for whole columns at once, when the first estimate of a column is requested.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from iolab.analysis import intervals
from iolab.analysis.bounds import Bounds
from iolab.analysis.intervals import holm
from iolab.analysis.neighbours import Resemblance
from iolab.analysis.outliers import Standing
from iolab.analysis.ratios import block_ratios, mean_ratio
from iolab.analysis.table import Column, Table
from iolab.analysis.types import CellEstimates, Cells, Estimate, Figures, Interval

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LOGS = " on log ratios"
PLAIN = " on ratios"
RATIO_METHODS = (intervals.METHOD + PLAIN, intervals.METHOD + LOGS)
"""Names of the interval methods of a ratio: computed on the ratios, and on their logarithms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ratios:
    """Ratios of one column to the baseline, one entry per cell of the column."""

    count: Ints
    """Number of pairs of a trial and its baseline trial."""
    mean: Floats
    """Mean ratio; NaN if there is no pair."""
    interval: Floats
    """Lower and upper end of the mean's interval; NaN if there is none; shape (cell, 2)."""
    on_logs: NDArray[np.bool_]
    """Whether the interval was computed on logarithms."""
    p_values: Floats
    """Holm-corrected p-values; NaN if not compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Summary:
    """Input arrays for estimates, one entry per cell of the column; NaN if a value does not exist."""

    n: Ints
    mean: Floats
    least: Floats
    most: Floats
    median: Floats
    interval: Floats
    ratios: _Ratios
    mean_without: Floats
    ratio_without: Floats


def estimate(
    table: Table,
    column: Column,
    baseline: Ints,
    standing: Standing,
    alike: Callable[[], Resemblance] = Resemblance,
    apart: Mapping[int, str] | None = None,
) -> CellEstimates:
    """Return the estimates of one metric, in the order of the cells.

    `baseline` has the baseline cell of each cell, or -1. `alike` is the autocorrelation of consecutive trials, by
    default none. `apart` has the reason code of each cell without a ratio, by default `table.apart`.
    """
    why = table.apart if apart is None else apart
    bounds = Bounds(column, baseline)

    @cache
    def summary() -> _Summary:
        return _summarise(column, baseline, standing, alike())

    def make(rows: range) -> list[Estimate]:
        made = _made(table, column, summary(), standing, rows, why)
        return [bounds.mark(each, row) for each, row in zip(made, rows, strict=True)] if bounds else made

    def figures() -> Figures:
        of = summary()
        return Figures(of.mean.tolist(), of.ratios.mean.tolist(), _methods(column, of))

    every = len(column.rows) == len(table.cells)
    cells = table.cells if every else Cells(table.cells[cell] for cell in column.rows.tolist())
    return CellEstimates(cells, make, None if bounds else figures)


def _made(
    table: Table, column: Column, of: _Summary, standing: Standing, rows: range, apart: Mapping[int, str]
) -> list[Estimate]:
    """Return the estimates of some rows; array elements are converted to Python values for all rows at once."""
    part = np.arange(rows.start, rows.stop, rows.step)
    ratios, method = of.ratios, _method(column)
    fields = (
        column.rows, of.n, of.mean, of.least, of.most, of.median, of.interval, ratios.mean, ratios.interval,
        ratios.on_logs, ratios.count, ratios.p_values, column.values, of.mean_without, of.ratio_without,
    )  # fmt: skip
    return [
        Estimate(
            cell=table.cells[cell],
            measure=table.measure,
            metric=column.metric,
            apart=apart.get(cell, ""),
            method=column.method_of(cell),
            direction=table.directions[cell] if table.directions else "",
            unit=column.unit,
            better=column.better,
            n=n,
            mean=mean,
            min=least,
            max=most,
            median=median,
            ci=_interval(interval, method),
            ratio=_known(ratio),
            ratio_ci=_interval(ratio_interval, RATIO_METHODS[on_logs]),
            ratio_n=ratio_n,
            p_value=_known(p_value),
            values=tuple([value for value in values if value == value]),
            outliers=_marked_indices(standing, row),
            mean_without=_known(mean_without),
            ratio_without=_known(ratio_without),
        )
        for row, (
            cell, n, mean, least, most, median, interval, ratio, ratio_interval,
            on_logs, ratio_n, p_value, values, mean_without, ratio_without,
        ) in zip(rows, zip(*(each[part].tolist() for each in fields), strict=True), strict=True)
    ]  # fmt: skip


def _method(column: Column) -> str:
    """Return the interval method of a column's means."""
    return intervals.LOG_METHOD if on_log_scale(column) else intervals.METHOD


def _methods(column: Column, of: _Summary) -> set[str]:
    """Return the interval methods that were used in a column."""
    found = {_method(column)} if not np.isnan(of.interval).all() else set()
    known = ~np.isnan(of.ratios.interval[:, 0])
    return found | {RATIO_METHODS[on_logs] for on_logs in np.unique(of.ratios.on_logs[known]).tolist()}


def _summarise(column: Column, baseline: Ints, standing: Standing, alike: Resemblance) -> _Summary:
    values, count = column.values, (~np.isnan(column.values)).sum(axis=1)
    ordered = np.sort(values, axis=1)  # NaN is sorted last
    largest = ordered[np.arange(len(values)), count - 1]
    # rounding may move the mean of equal values outside their range
    mean = np.clip(np.nansum(values, axis=1) / count, ordered[:, 0], largest)
    ratios = _ratios(column, baseline)
    marked = np.asarray(standing.marked.any(axis=1))
    kept = np.where(standing.marked, np.nan, values)
    ratios_kept = block_ratios(kept, column.rows, baseline)
    touched = ((~np.isnan(ratios_kept)).sum(axis=1) < ratios.count) & (baseline[column.rows] != column.rows)
    return _Summary(
        n=count,
        mean=mean,
        least=ordered[:, 0],
        most=largest,
        median=standing.median[:, 0],
        interval=_mean_intervals(column, count, alike),
        ratios=ratios,
        mean_without=np.where(marked, _mean_known(kept), np.nan),
        ratio_without=np.where(touched, mean_ratio(ratios_kept), np.nan),
    )


def _interval(ends: Sequence[float], method: str) -> Interval | None:
    low, high = ends
    return None if math.isnan(low) else Interval(low, high, method)


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _mean_known(values: Floats) -> Floats:
    count = (~np.isnan(values)).sum(axis=1)
    return np.where(count > 0, np.nansum(values, axis=1) / np.maximum(count, 1), np.nan)


def _marked_indices(standing: Standing, row: int) -> tuple[int, ...]:
    """Return the indices of marked trials, counted among the trials that exist."""
    if not standing.marked[row].any():
        return ()
    there = ~np.isnan(standing.robust_z[row])
    return tuple(int(index) for index in np.flatnonzero(standing.marked[row][there]))


def _groups(count: Ints) -> list[tuple[int, Ints]]:
    """Return the rows by number of trials, for each number that is large enough for an interval."""
    return [(int(n), np.flatnonzero(count == n)) for n in np.unique(count) if n >= intervals.FEWEST]


def _compact(values: Floats, rows: Ints, n: int) -> Floats:
    """Return the given rows, which have n values each, without NaN; shape (row, n)."""
    part = values[rows]
    return part if part.shape[1] == n else part[~np.isnan(part)].reshape(len(rows), n)


def on_log_scale(column: Column) -> bool:
    """Whether intervals of a column's means use the log scale: its unit excludes negative values, and no value is
    negative."""
    return column.unit in intervals.NOT_NEGATIVE and bool(np.nanmin(column.values, initial=0.0) >= 0)


def _mean_intervals(column: Column, count: Ints, alike: Resemblance) -> Floats:
    values, make = column.values, intervals.log_interval if on_log_scale(column) else intervals.t_interval
    found = np.full((len(values), 2), np.nan)
    for n, rows in _groups(count):
        ends = make(_compact(values, rows, n), widening=alike.widening(n))
        found[rows] = np.stack(ends, axis=1)
    return found


def _ratios(column: Column, baseline: Ints) -> _Ratios:
    ratios = block_ratios(column.values, column.rows, baseline)
    own = baseline[column.rows] == column.rows
    ratios[_with_bounds(column, baseline) & ~own] = np.nan
    count = (~np.isnan(ratios)).sum(axis=1)
    found = np.full((len(ratios), 2), np.nan)
    p_values = np.full(len(ratios), np.nan)
    positive = np.asarray((np.isnan(ratios) | (ratios > 0)).all(axis=1))
    for n, group in _groups(np.where(own, 0, count)):
        for on_logs in (True, False):
            rows = group[positive[group] == on_logs]
            if not len(rows):
                continue
            samples = _compact(ratios, rows, n)
            samples = np.log(samples) if on_logs else samples
            ends = np.stack(intervals.t_interval(samples), axis=1)
            if on_logs:
                p_values[rows] = intervals.t_p_value(samples)
            found[rows] = np.exp(ends) if on_logs else ends
    mean = np.where(own & (count > 0), 1.0, mean_ratio(ratios))
    return _Ratios(count=count, mean=mean, interval=found, on_logs=positive, p_values=holm(p_values))


def _with_bounds(column: Column, baseline: Ints) -> NDArray[np.bool_]:
    """Return a mask of the rows that have a bound, or whose baseline has a bound; these rows are not tested."""
    limited = np.zeros(len(column.rows), dtype=bool)
    limited[[row for row, _ in column.limited]] = True
    if not limited.any():
        return limited
    below = np.searchsorted(column.rows, baseline[column.rows]).clip(max=len(column.rows) - 1)
    of_baseline = limited[below] & (column.rows[below] == baseline[column.rows])
    return np.asarray(limited | of_baseline)


def ratio_of_pairs(ratios: Floats) -> tuple[float, Interval | None]:
    """Return the mean of block ratios and its interval, computed in the same way as for all ratios; at least one ratio
    is required."""
    mean = float(mean_ratio(ratios[None, :])[0])
    on_logs = bool((ratios > 0).all())
    found = intervals.interval_of_mean(np.log(ratios) if on_logs else ratios)
    if found is None:
        return mean, None
    if not on_logs:
        return mean, Interval(found.low, found.high, found.method + PLAIN)
    return mean, Interval(math.exp(found.low), math.exp(found.high), found.method + LOGS)
