"""Figures that are only lower bounds, because the instrument or the line was the limit: what may be said of them. Pure.

A mean of rates and lower bounds is a lower bound. It has no interval and no p-value: they are about the scatter of a
figure that was not measured. It is in no ratio, for the same reason, and has no place among measured figures: what is
kept of a ratio is whether the true one is at least, or at most, that of the figures.
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
"""Why a cell has no ratio: its figure, or that of its baseline, is only a lower bound."""
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Bounds:
    """The bounds of one column, cell by cell."""

    def __init__(self, column: Column, baseline: Ints) -> None:
        """`baseline`: each cell's baseline cell, or -1."""
        self._column = column
        self._baseline = baseline
        self._rows: dict[int, dict[int, str]] = {}
        for (row, place), limit in column.limited.items():
            self._rows.setdefault(row, {})[place] = limit

    def __bool__(self) -> bool:
        return bool(self._rows)

    def mark(self, estimate: Estimate, row: int) -> Estimate:
        """Return the estimate of a row with what is only a bound marked as such."""
        own = self._rows.get(row, {})
        marked = _marked(estimate, self._column.values[row], own) if own else estimate
        below = self._row_of_baseline(row)
        return marked if below in (None, row) else _ratio(marked, bool(own), below in self._rows)

    def _row_of_baseline(self, row: int) -> int | None:
        """Return the row of the baseline of a row's cell; None where the column has none."""
        rows = self._column.rows
        cell = self._baseline[rows[row]]
        at = int(np.searchsorted(rows, cell))
        return at if at < len(rows) and rows[at] == cell else None


def limits(column: Column, row: int) -> tuple[str, ...]:
    """Return what of the instrument limited the trials of a row, the commonest first."""
    return bounds_in(column, np.array([row]))


def bounds_in(column: Column, rows: Ints) -> tuple[str, ...]:
    """Return what of the instrument limited any trial of some rows, the commonest first."""
    wanted = set(rows.tolist())
    counts = Counter(code for (at, _), code in column.limited.items() if at in wanted)
    return tuple(code for code, _ in counts.most_common())


def _marked(estimate: Estimate, values: Floats, limited: Mapping[int, str]) -> Estimate:
    """Mark the figures of a cell; `limited` says which of its values are bounds, and what was the limit."""
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
    """Return an estimate without its ratio, where one of the two sides is only a bound."""
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
    """Return what a ratio is where the figure above, or the one below, is only a lower bound; not both of them."""
    if above == below:
        return None
    return Bound.LEAST if above else Bound.MOST


def measured(column: Column, apart: Collection[int] = ()) -> Column:
    """Return a column without its bounds and the cells that stand apart: what effects and findings are drawn from."""
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
    """Say that effects and findings do without the trials whose figure is only a bound."""
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
