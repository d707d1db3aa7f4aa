"""Handle values that are only lower bounds because the instrument or the line rate was the limit. Pure.

A mean that includes lower bounds is itself a lower bound. Such a mean has no interval and no p-value, because these
describe the spread of measured values only. A mean with lower bounds has no ratio either: the analysis keeps only
whether the true ratio is at least or at most the ratio of the bounds.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from iolab.analysis.forwarding_types import Bound
from iolab.analysis.table import Column, Table
from iolab.analysis.types import Estimate
from iolab.messages.notes import BoundsLeftOut
from iolab.messages.warnings import TrialWarning

LOWER_BOUND = "lower-bound"
"""Reason code of a cell without a ratio: its value or its baseline's value is only a lower bound."""
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Bounds:
    """The lower bounds in one column, by cell."""

    def __init__(self, column: Column, baseline: Ints) -> None:
        """Index the bounds of a column by row; `baseline` holds the baseline cell of each cell, or -1."""
        self._column = column
        self._baseline = baseline
        self._rows: dict[int, dict[int, str]] = {}
        for (row, place), limit in column.limited.items():
            self._rows.setdefault(row, {})[place] = limit

    def __bool__(self) -> bool:
        return bool(self._rows)

    def mark(self, estimate: Estimate, row: int) -> Estimate:
        """Return the estimate of a row with its lower bounds marked."""
        own = self._rows.get(row, {})
        marked = _marked(estimate, self._column.values[row], own) if own else estimate
        below = self._row_of_baseline(row)
        return marked if below in (None, row) else _ratio(marked, bool(own), below in self._rows)

    def _row_of_baseline(self, row: int) -> int | None:
        """Return the row of the baseline cell for a given row; None if the column has no such row."""
        rows = self._column.rows
        cell = self._baseline[rows[row]]
        at = int(np.searchsorted(rows, cell))
        return at if at < len(rows) and rows[at] == cell else None


def limits(column: Column, row: int) -> tuple[str, ...]:
    """Return the instrument limits of a row's trials, the most common first."""
    return bounds_in(column, np.array([row]))


def bounds_in(column: Column, rows: Ints) -> tuple[str, ...]:
    """Return the instrument limits of all trials in the given rows, the most common first."""
    wanted = set(rows.tolist())
    counts = Counter(code for (at, _), code in column.limited.items() if at in wanted)
    return tuple(code for code, _ in counts.most_common())


def _marked(estimate: Estimate, values: Floats, limited: Mapping[int, str]) -> Estimate:
    """Mark the lower bounds in the estimate of a cell; `limited` maps the index of each bound to its limit."""
    places = list(limited)
    exact = np.delete(values, places)
    exact = exact[~np.isnan(exact)]
    codes = Counter(limited.values())
    return replace(
        estimate,
        ci=None,
        mean_without=None,
        limited_by=tuple(code for code, _ in codes.most_common()),
        bounds=len(places),
        least_is_bound=not len(exact) or bool(values[places].min() < exact.min()),
    )


def _ratio(estimate: Estimate, own: bool, of_baseline: bool) -> Estimate:
    """Return the estimate without a ratio if its own value or the baseline's value is only a bound."""
    if not (own or of_baseline):
        return estimate
    return replace(
        estimate,
        ratio=None,
        ratio_n=0,
        ratio_ci=None,
        p_value=None,
        ratio_without=None,
        ratio_bound=ratio_bound(own, of_baseline),
        apart=estimate.apart or LOWER_BOUND,
    )


def ratio_bound(above: bool, below: bool) -> Bound | None:
    """Return whether a ratio is a lower or an upper bound, given which of its two sides is a lower bound; None if both
    sides or neither side is."""
    if above == below:
        return None
    return Bound.LEAST if above else Bound.MOST


def measured(column: Column, apart: Collection[int] = ()) -> Column:
    """Return the column that effects and findings use: without lower bounds and without the cells in `apart`."""
    if not column.limited and not apart:
        return column
    values = column.values.copy()
    for row, place in column.limited:
        values[row, place] = np.nan
    values[np.isin(column.rows, list(apart))] = np.nan
    kept = ~np.isnan(values).all(axis=1)
    return Column(
        metric=column.metric,
        unit=column.unit,
        better=column.better,
        rows=column.rows[kept],
        values=values[kept],
        method=column.method,
        older=column.older,
    )


def left_out(table: Table, column: Column) -> list[TrialWarning]:
    """Return a warning that effects and findings exclude the trials whose value is only a lower bound."""
    if not column.limited:
        return []
    count, total = len(column.limited), int((~np.isnan(column.values)).sum())
    return [
        BoundsLeftOut(
            left_out=count,
            trials=total,
            measure=table.measure,
            metric=str(column.metric),
            limits=tuple(sorted(set(column.limited.values()))),
        )
    ]
