"""Whether a trial resembles the one before it: trials of a cell are then no independent witnesses of its mean. Pure."""

import numpy as np
from numpy.typing import NDArray

from iolab.analysis.table import Column, Table
from iolab.plan.types import Plan
from iolab.statements.notes import TrialsResembleNeighbours

FEWEST = 20
"""Trials below which resemblance cannot be told from chance."""
STRONG_Z = 4.0
"""Told of where it is so many standard errors (1 / sqrt(trials)) above none: of 30 000 runs without any, one."""


def resemblance_note(table: Table, column: Column, plan: Plan) -> TrialsResembleNeighbours | None:
    """Warn where neighbours in time resemble each other more than chance lets them; Bartlett (1946) for the error."""
    rest = _in_order(table, column, plan)
    squares = float(rest @ rest)
    if len(rest) < FEWEST or squares <= 0:
        return None
    share = float(rest[1:] @ rest[:-1]) / squares
    if share * np.sqrt(len(rest)) < STRONG_Z:
        return None
    return TrialsResembleNeighbours(measure=table.measure, autocorrelation=share)


def _in_order(table: Table, column: Column, plan: Plan) -> NDArray[np.float64]:
    """What trials are off from the mean of their cell, as shares of it, in the order in which they were planned."""
    mean = np.nanmean(column.values, axis=1, keepdims=True)
    off = np.where(mean != 0, column.values / np.where(mean != 0, mean, 1.0) - 1.0, np.nan)
    order = {step.key: index for index, step in enumerate(plan.steps)}
    found = [
        (order[key], value)
        for cell, row in zip(column.rows.tolist(), off.tolist(), strict=True)
        for key, value in zip(table.keys[cell], row, strict=True)
        if key in order and np.isfinite(value)
    ]
    return np.array([value for _, value in sorted(found)])
