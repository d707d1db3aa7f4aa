"""Compute ratios to the baseline trial of the same block: match cells with their baseline, and average ratios. Axes
(cell, block).

A cell has no ratio if it is not comparable with its baseline: only one of them was emulated, or their iSCSI sessions
negotiated different values that the experiment did not set.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from iolab.analysis.table import Column, Table
from iolab.messages.warnings import Emulated

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
ABSENT = -1
"""Level of a factor that does not exist in a cell, and index of a cell that does not exist."""
AGREED, ASKED = "iscsi_agreed_bytes", "iscsi_asked_bytes"
"""Metrics of the negotiated and the requested values of an iSCSI session; the dimension `part` names the parameter."""
OTHER_SESSION = "session-differs"
"""Reason code: negotiated session values differ."""
OTHER_METHOD = "method-differs"
"""Reason code: method versions differ."""


def baseline_cells(table: Table, baseline: Mapping[str, str]) -> Ints:
    """Return the index of each cell's baseline cell, -1 if it has none; shape (cell,).

    The baseline cell has the baseline's levels of this measure's factors, and otherwise equal levels. Factors that do
    not exist at the baseline's levels (sub-factors of a different level) are ignored. A cell in `table.apart` has no
    baseline and is not used as a baseline.
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
    """Return level index by factor index, for the baseline's factors that this measure has."""
    levels = {}
    for column, (name, labels) in enumerate(zip(table.factors, table.labels, strict=True)):
        if baseline.get(name) in labels and (table.levels[:, column] != ABSENT).any():
            levels[column] = labels.index(baseline[name])
    return levels


def block_ratios(values: Floats, rows: Ints, baseline: Ints) -> Floats:
    """Return the ratio of each trial to its block's baseline trial; NaN if the baseline trial is missing or 0; shape
    (cell, block).

    `rows` are the cells of `values`, ascending; `baseline` is indexed by cell.
    """
    wanted = baseline[rows]
    position = np.searchsorted(rows, np.maximum(wanted, 0)).clip(max=max(len(rows) - 1, 0))
    known = (wanted != ABSENT) & (rows[position] == wanted)
    below = np.where(known[:, None], values[position], np.nan)
    usable = ~np.isnan(values) & ~np.isnan(below) & (below != 0.0)
    return np.where(usable, values / np.where(usable, below, 1.0), np.nan)


def mean_ratio(ratios: Floats) -> Floats:
    """Return the geometric mean of each row's ratios, NaN skipped; the arithmetic mean if a ratio is not positive;
    shape (cell,)."""
    known = ~np.isnan(ratios)
    count = known.sum(axis=1)
    positive = (ratios > 0) | ~known
    logs = np.log(np.where(known & positive, ratios, 1.0)).sum(axis=1)
    plain = np.where(known, ratios, 0.0).sum(axis=1)
    safe = np.maximum(count, 1)
    mean = np.where(positive.all(axis=1), np.exp(logs / safe), plain / safe)
    return np.where(count > 0, mean, np.nan)


def unlike(table: Table, baseline: Ints) -> Mapping[int, str]:
    """Return the cells that are not comparable with their baseline, with the reason code.

    `baseline` holds the baseline cell of each cell, or -1. If no cell has a baseline, emulated cells are not
    comparable with the others.
    """
    if (baseline < 0).all():
        mixed = 0 < len(table.emulated) < len(table.cells)
        return dict.fromkeys(sorted(table.emulated), Emulated.code) if mixed else {}
    found: dict[int, str] = {}
    agreed, asked = _values(table, AGREED), _values(table, ASKED)
    for cell, other in enumerate(baseline.tolist()):
        if other < 0 or other == cell:
            continue
        if (cell in table.emulated) != (other in table.emulated):
            found[cell] = Emulated.code
        elif any(
            part not in asked and cell in values and other in values and values[cell] != values[other]
            for part, values in agreed.items()
        ):
            found[cell] = OTHER_SESSION
    return found


def by_other_method(column: Column, baseline: Ints) -> Mapping[int, str]:
    """Return the cells whose method version differs from that of the baseline or, without a baseline, from the newest
    version."""
    if not column.older:
        return {}
    reference = {cell: int(baseline[cell]) for cell in column.rows.tolist()}
    return {
        cell: OTHER_METHOD
        for cell, other in reference.items()
        if column.method_of(cell) != (column.method if other < 0 else column.method_of(other))
    }


def _values(table: Table, name: str) -> Mapping[str | None, Mapping[int, frozenset[float]]]:
    """Return the values of a metric in the trials of each cell, by the dimension `part`."""
    return {
        quantity.dimensions.part: {
            row: frozenset(own[~np.isnan(own)].tolist())
            for row, own in zip(column.rows.tolist(), column.values, strict=True)
        }
        for quantity, column in table.columns.items()
        if quantity.name == name
    }
