"""Figures that are only lower bounds, because the instrument or the line was the limit: what may be said of them. Pure.

A mean of rates and lower bounds is a lower bound; so is a ratio to an exact rate. The ratio of an exact rate to a lower
bound is an upper bound, and that of two bounds says nothing. No interval and no p-value is given to a bound: they are
about the scatter of a figure that was not measured.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from iolab.analysis.forwarding_types import Bound
from iolab.analysis.table import Column, Table
from iolab.analysis.types import Estimate
from iolab.statements.notes import BoundsLeftOut
from iolab.statements.warnings import Warning

Ints = NDArray[np.int64]


def with_bounds(estimates: Sequence[Estimate], column: Column, baseline: Ints) -> list[Estimate]:
    """Return the estimates of a column, a row each, with what is only a bound marked as such.

    `baseline`: each cell's baseline cell, or -1.
    """
    if not column.limited:
        return list(estimates)
    codes = [limits(column, row) for row in range(len(column.rows))]
    place = {int(cell): row for row, cell in enumerate(column.rows)}
    found = []
    for row, estimate in enumerate(estimates):
        cell = int(column.rows[row])
        below = place.get(int(baseline[cell]))
        of_baseline = below is not None and below != row and bool(codes[below])
        marked = _marked(estimate, column, row, codes[row]) if codes[row] else estimate
        own_baseline = below == row
        found.append(marked if own_baseline else _ratio(marked, bool(codes[row]), of_baseline))
    return found


def limits(column: Column, row: int) -> tuple[str, ...]:
    """Return what of the instrument limited the trials of a row, the commonest first."""
    return bounds_in(column, np.array([row]))


def bounds_in(column: Column, rows: Ints) -> tuple[str, ...]:
    """Return what of the instrument limited any trial of some rows, the commonest first."""
    wanted = set(rows.tolist())
    counts = Counter(code for (at, _), code in column.limited.items() if at in wanted)
    return tuple(code for code, _ in counts.most_common())


def _marked(estimate: Estimate, column: Column, row: int, codes: tuple[str, ...]) -> Estimate:
    bounded = [place for at, place in column.limited if at == row]
    least = min(column.values[row, place] for place in bounded)
    exact = np.delete(column.values[row], bounded)
    exact = exact[~np.isnan(exact)]
    return replace(
        estimate,
        ci=None,
        mean_without=None,
        limited_by=codes,
        bounds=len(bounded),
        least_is_bound=not len(exact) or bool(least < exact.min()),
    )


def _ratio(estimate: Estimate, own: bool, of_baseline: bool) -> Estimate:
    """Mark a ratio by what is known of its two sides."""
    if estimate.ratio is None or not (own or of_baseline):
        return estimate
    bare = replace(estimate, ratio_ci=None, p_value=None, ratio_without=None)
    if own and of_baseline:
        return replace(bare, ratio=None, ratio_n=0)
    return replace(bare, ratio_bound=ratio_bound(own, of_baseline))


def ratio_bound(above: bool, below: bool) -> Bound | None:
    """Return what a ratio is where the figure above, or the one below, is only a lower bound; not both of them."""
    if above == below:
        return None
    return Bound.LEAST if above else Bound.MOST


def measured(column: Column) -> Column:
    """Return a column without its bounds: what effects and findings may be drawn from."""
    if not column.limited:
        return column
    values = column.values.copy()
    for row, place in column.limited:
        values[row, place] = np.nan
    kept = ~np.isnan(values).all(axis=1)
    return Column(metric=column.metric, unit=column.unit, rows=column.rows[kept], values=values[kept])


def left_out(table: Table, column: Column) -> list[Warning]:
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
