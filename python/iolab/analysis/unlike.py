"""Cells that are not of one kind with their baseline, so that no change is given. Pure.

One was emulated and the other was not, or their iSCSI sessions agreed on values that differ though nobody asked for it.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from iolab.analysis.table import Column, Table
from iolab.messages.warnings import Emulated

Ints = NDArray[np.int64]
AGREED, ASKED = "iscsi_agreed_bytes", "iscsi_asked_bytes"
"""What an iSCSI session agreed on, and what the experiment asked for, by the name of the value as dimension `part`."""
OTHER_SESSION = "session-differs"
"""Stands for values of a session that differ."""
OTHER_METHOD = "method-differs"
"""Stands for metrics by different versions of their method."""


def unlike(table: Table, baseline: Ints) -> Mapping[int, str]:
    """Return the cells that are not of one kind with their baseline, and why: the code of a warning.

    `baseline`: each cell's baseline cell, or -1. Where no cell has one, the emulated cells are unlike the others.
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
    """Return the cells whose method version differs from that of their baseline, or, without one, from the newest."""
    if not column.older:
        return {}
    reference = {cell: int(baseline[cell]) for cell in column.rows.tolist()}
    return {
        cell: OTHER_METHOD
        for cell, other in reference.items()
        if column.method_of(cell) != (column.method if other < 0 else column.method_of(other))
    }


def _values(table: Table, name: str) -> Mapping[str | None, Mapping[int, frozenset[float]]]:
    """Return the values that the trials of each cell have of each part of a metric."""
    return {
        quantity.dimensions.part: {
            row: frozenset(own[~np.isnan(own)].tolist())
            for row, own in zip(column.rows.tolist(), column.values, strict=True)
        }
        for quantity, column in table.columns.items()
        if quantity.name == name
    }
