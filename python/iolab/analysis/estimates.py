"""One column of trials -> one Estimate per cell: means, intervals, ratios to the baseline, p-values."""

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


def estimate(table: Table, column: Column, baseline: Ints, standing: Standing) -> list[Estimate]:
    """Estimates of one metric, in the order of the cells; `baseline` holds each cell's baseline cell, -1 for none."""
    values, count = column.values, (~np.isnan(column.values)).sum(axis=1)
    ordered = np.sort(values, axis=1)  # NaN comes last
    largest = ordered[np.arange(len(values)), count - 1]
    mean = np.clip(np.nansum(values, axis=1) / count, ordered[:, 0], largest)
    mean_ci = _mean_intervals(values, count)
    ratios = _ratios(column, baseline)
    own = (baseline[column.rows] == column.rows).tolist()
    kept = np.where(standing.marked, np.nan, values)
    marked = standing.marked.any(axis=1).tolist()
    mean_kept = _mean_known(kept)
    ratio_kept = mean_ratio(block_ratios(kept, column.rows, baseline))
    pairs_kept = (~np.isnan(block_ratios(kept, column.rows, baseline))).sum(axis=1)
    touched = (pairs_kept < ratios.count).tolist()
    columns = zip(
        column.rows.tolist(), count.tolist(), mean.tolist(), ordered[:, 0].tolist(), largest.tolist(),
        standing.median[:, 0].tolist(), mean_ci, ratios.mean.tolist(), ratios.intervals, ratios.p_values.tolist(),
        ratios.count.tolist(), own, values.tolist(), marked, mean_kept.tolist(), ratio_kept.tolist(), touched,
        strict=True,
    )  # fmt: skip
    full = values.shape[1]
    return [
        Estimate(
            cell=table.cells[cell],
            measure=table.measure,
            metric=column.metric,
            unit=column.unit,
            n=n,
            mean=center,
            min=low,
            max=high,
            median=median,
            ci=ci,
            ratio=_known(ratio),
            ratio_ci=None if is_own else ratio_ci,
            p_value=None if is_own else _known(p_value),
            ratio_n=pairs,
            values=tuple(trials) if n == full else tuple(value for value in trials if value == value),  # noqa: PLR0124
            outliers=_marked_indices(standing, index) if is_marked else (),
            mean_without=_known(without) if is_marked else None,
            ratio_without=_known(ratio_without) if is_touched and not is_own else None,
        )
        for index, (
            cell, n, center, low, high, median, ci, ratio, ratio_ci, p_value,
            pairs, is_own, trials, is_marked, without, ratio_without, is_touched,
        ) in enumerate(columns)
    ]  # fmt: skip


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value


def _mean_known(values: Floats) -> Floats:
    count = (~np.isnan(values)).sum(axis=1)
    return np.where(count > 0, np.nansum(values, axis=1) / np.maximum(count, 1), np.nan)


def _marked_indices(standing: Standing, row: int) -> tuple[int, ...]:
    """Indices among the trials that exist."""
    there = ~np.isnan(standing.robust_z[row])
    return tuple(int(index) for index in np.flatnonzero(standing.marked[row][there]))


def _groups(count: Ints) -> list[tuple[int, Ints]]:
    """Number of trials -> the rows that have so many, for every number that gets an interval."""
    return [(int(n), np.flatnonzero(count == n)) for n in np.unique(count) if intervals.method_for(int(n))]


def _compact(values: Floats, rows: Ints, n: int) -> Floats:
    """Rows that have n values each, without their gaps; shape (row, n)."""
    part = values[rows]
    return part if part.shape[1] == n else part[~np.isnan(part)].reshape(len(rows), n)


def _mean_intervals(values: Floats, count: Ints) -> list[Interval | None]:
    found: list[Interval | None] = [None] * len(values)
    for n, rows in _groups(count):
        low, high = intervals.mean_interval(_compact(values, rows, n))
        method = intervals.method_for(n) or ""
        for row, lower, upper in zip(rows.tolist(), low.tolist(), high.tolist(), strict=True):
            found[row] = Interval(lower, upper, method)
    return found


def _ratios(column: Column, baseline: Ints) -> _Ratios:
    ratios = block_ratios(column.values, column.rows, baseline)
    own = baseline[column.rows] == column.rows
    count = (~np.isnan(ratios)).sum(axis=1)
    found: list[Interval | None] = [None] * len(ratios)
    p_values = np.full(len(ratios), np.nan)
    positive = (np.isnan(ratios) | (ratios > 0)).all(axis=1)
    for n, group in _groups(np.where(own, 0, count)):
        for on_logs in (True, False):
            rows = group[positive[group] == on_logs]
            if not len(rows):
                continue
            samples = _compact(ratios, rows, n)
            samples = np.log(samples) if on_logs else samples
            low, high = intervals.mean_interval(samples)
            if on_logs:
                low, high = np.exp(low), np.exp(high)
                p_values[rows] = intervals.t_p_value(samples)
            method = (intervals.method_for(n) or "") + (LOGS if on_logs else PLAIN)
            for row, lower, upper in zip(rows.tolist(), low.tolist(), high.tolist(), strict=True):
                found[row] = Interval(lower, upper, method)
    mean = np.where(own & (count > 0), 1.0, mean_ratio(ratios))
    return _Ratios(count=count, mean=mean, intervals=found, p_values=holm(p_values))
