"""Ratios to the same-block baseline trial: which cell is whose baseline, and the mean ratio. Axes (cell,
block)."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from iolab.analysis.table import Table

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ABSENT = -1
"""Level of a factor that does not exist in a cell, and index of a cell that does not exist."""


def baseline_cells(table: Table, baseline: Mapping[str, str]) -> Ints:
    """Index of each cell's baseline cell, -1 where it has none; shape (cell,).

    That is the cell with the baseline's levels of the factors this measure has, everything else equal;
    factors that do not exist at the baseline's levels (sub-factors of another level) are dropped. A cell that stands
    apart has no baseline, and is none.
    """
    set_to = _baseline_levels(table, baseline)
    nowhere = np.full(len(table.levels), ABSENT, dtype=np.int64)
    if not set_to:
        return nowhere
    columns = list(set_to)
    at_baseline = (table.levels[:, columns] == list(set_to.values())).all(axis=1)
    if not at_baseline.any():
        return nowhere
    missing = (table.levels[at_baseline] == ABSENT).all(axis=0)
    wanted = table.levels.copy()
    wanted[:, columns] = list(set_to.values())
    wanted[:, missing] = ABSENT
    index = {tuple(levels): row for row, levels in enumerate(table.levels.tolist())}
    found = np.array([index.get(tuple(levels), ABSENT) for levels in wanted.tolist()], dtype=np.int64)
    alone = list(table.apart)
    found[alone] = ABSENT
    found[np.isin(found, alone)] = ABSENT
    return found


def _baseline_levels(table: Table, baseline: Mapping[str, str]) -> dict[int, int]:
    """Factor index to level index, for the baseline's factors that this measure has."""
    levels = {}
    for column, (name, labels) in enumerate(zip(table.factors, table.labels, strict=True)):
        if baseline.get(name) in labels and (table.levels[:, column] != ABSENT).any():
            levels[column] = labels.index(baseline[name])
    return levels


def block_ratios(values: Floats, rows: Ints, baseline: Ints) -> Floats:
    """Each trial over its block's baseline trial; NaN where that is missing or zero; shape (cell, block).

    `rows` are the cells of `values`, ascending; `baseline` is indexed by cell.
    """
    wanted = baseline[rows]
    position = np.searchsorted(rows, np.maximum(wanted, 0)).clip(max=max(len(rows) - 1, 0))
    known = (wanted != ABSENT) & (rows[position] == wanted)
    below = np.where(known[:, None], values[position], np.nan)
    usable = ~np.isnan(values) & ~np.isnan(below) & (below != 0.0)
    return np.where(usable, values / np.where(usable, below, 1.0), np.nan)


def mean_ratio(ratios: Floats) -> Floats:
    """Geometric mean of each row's ratios, NaN skipped; arithmetic where a ratio is not positive; shape
    (cell,)."""
    known = ~np.isnan(ratios)
    count = known.sum(axis=1)
    positive = (ratios > 0) | ~known
    logs = np.log(np.where(known & positive, ratios, 1.0)).sum(axis=1)
    plain = np.where(known, ratios, 0.0).sum(axis=1)
    safe = np.maximum(count, 1)
    mean = np.where(positive.all(axis=1), np.exp(logs / safe), plain / safe)
    return np.where(count > 0, mean, np.nan)
