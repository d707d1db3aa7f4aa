"""Detect outliers: trials that deviate from the other trials of their cell. Outliers are marked with a reason; nothing
is removed.

Modified z-score after Iglewicz & Hoaglin (1993), How to Detect and Handle Outliers, ASQC: 0.6745 (x - median) / MAD;
trials beyond 3.5 are marked. If more than half the trials are equal (MAD = 0), the mean absolute deviation replaces the
MAD.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from iolab.analysis.table import Column, Table
from iolab.analysis.types import Outlier
from iolab.messages.notes import HostStolenTime, ManyRetransmits, RareTrials, Unusual
from iolab.results.metric import Quantity

Floats = NDArray[np.float64]
Marks = NDArray[np.bool_]

FEWEST = 4
"""Minimum number of trials in a cell for outliers: of three trials, two are always closer to each other than to the
third."""
LIMIT_Z = 3.5
"""Threshold of Iglewicz & Hoaglin."""
LEAST_RATIO = 0.01
"""Minimum deviation from the median, relative to the median, of an outlier; smaller differences do not matter to
users."""
STEAL, RETRANSMITS = Quantity("host_steal_ratio"), Quantity("retransmits")
STEAL_RATIO = 0.02
"""Share of CPU steal time above which the host is reported as the reason."""
NORMAL_MAD = 0.6745
"""MAD of the normal distribution in standard deviations."""
NORMAL_MEAN_DEVIATION = 1.253314
"""Standard deviation of the normal distribution in mean absolute deviations, sqrt(pi / 2)."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Position of each trial within its cell; axes (cell, block)."""

    median: Floats
    """Median of the cell [unit of the metric]; shape (cell, 1)."""
    robust_z: Floats
    """Distance from the median in robust standard deviations; NaN if there is no trial, or too few trials in the
    cell."""
    marked: Marks
    """Whether the trial is an outlier."""


def robust_z(values: Floats) -> Floats:
    """Return the modified z-score of each value within its row, NaN skipped; axes (cell, block)."""
    deviation = values - _row_median(values)
    mad = _row_median(np.abs(deviation))
    mean_deviation = _row_mean(np.abs(deviation))
    scale = np.where(mad > 0, mad / NORMAL_MAD, mean_deviation * NORMAL_MEAN_DEVIATION)
    return np.where(
        scale > 0, deviation / np.where(scale > 0, scale, 1.0), np.where(np.isnan(values), np.nan, 0.0)
    )


def stand(values: Floats, unit: str) -> Standing:
    """Mark the outliers in each row; axes (cell, block).

    A few trials often have a small MAD by chance (17 % of cells with 4 normal trials would have a mark). An outlier
    must therefore also deviate by more than 3.5 typical robust standard deviations of this metric over all cells, by
    more than 1 % of the median and, for counts, by more than 3.5 standard deviations of a Poisson count.
    """
    median = _row_median(values)
    enough = (~np.isnan(values)).sum(axis=1, keepdims=True) >= FEWEST
    z = np.where(enough, robust_z(values), np.nan)
    distance = np.abs(values - median)
    least = np.maximum(LEAST_RATIO, LIMIT_Z * _typical_spread(values, median, enough[:, 0])) * np.abs(median)
    if unit == "count":
        least = np.maximum(least, LIMIT_Z * np.sqrt(np.maximum(np.abs(median), 1.0)))
    marked = (np.abs(z) > LIMIT_Z) & (distance > least)
    return Standing(median=median, robust_z=z, marked=marked)


def rare_note(table: Table, column: Column, standing: Standing) -> RareTrials | None:
    """Return a warning about the effect of rare outliers on means, if the effect exceeds half a standard error of the
    mean.

    Outliers are counted over all cells together, because most cells with few trials have none.
    """
    there = ~np.isnan(column.values)
    trials, marked = int(there.sum()), int(standing.marked.sum())
    usable = standing.median[:, 0] != 0
    if not marked or not usable.any():
        return None
    off = (column.values / np.where(usable[:, None], standing.median, np.nan) - 1.0)[standing.marked]
    change_ratio = float(np.nansum(off)) / trials
    spread = _typical_spread(column.values, standing.median, there.sum(axis=1) >= FEWEST)
    if abs(change_ratio) <= spread / np.sqrt(column.values.shape[1]) / 2:
        return None
    return RareTrials(measure=table.measure, marked=marked, trials=trials, change_ratio=change_ratio)


def _typical_spread(values: Floats, median: Floats, enough: Marks) -> float:
    """Return the median over cells of robust standard deviation / median [ratio]."""
    usable = enough & (median[:, 0] != 0)
    if not usable.any():
        return 0.0
    mad = _row_median(np.abs(values - median))[usable, 0]
    return float(np.median(mad / NORMAL_MAD / np.abs(median[usable, 0])))


def _row_median(values: Floats) -> Floats:
    """Return the median of each row, NaN skipped, NaN for an empty row; shape (cell, 1)."""
    ordered = np.sort(values, axis=1)  # NaN is sorted last
    count = (~np.isnan(values)).sum(axis=1)
    rows = np.arange(len(values))
    low, high = (
        ordered[rows, np.maximum(count - 1, 0) // 2],
        ordered[rows, np.minimum(count // 2, values.shape[1] - 1)],
    )
    return np.where(count > 0, (low + high) / 2, np.nan)[:, None]


def _row_mean(values: Floats) -> Floats:
    """Return the mean of each row, NaN skipped; shape (cell, 1)."""
    count = np.maximum((~np.isnan(values)).sum(axis=1, keepdims=True), 1)
    return np.asarray(np.nansum(values, axis=1, keepdims=True) / count)


def describe(
    table: Table, column: Column, standing: Standing, standings: Mapping[Quantity, Standing]
) -> list[Outlier]:
    """Return the outliers of a column, with other unusual metrics of the same trials."""
    found = []
    for row, block in zip(*np.nonzero(standing.marked), strict=True):
        cell = int(column.rows[row])
        found.append(
            Outlier(
                key=table.keys[cell][block],
                measure=table.measure,
                metric=column.metric,
                cell=table.cells[cell],
                block=table.blocks[block],
                value=float(column.values[row, block]),
                robust_z=float(standing.robust_z[row, block]),
                beside=_beside(table, column.metric, cell, int(block), standings),
            )
        )
    return found


def _beside(
    table: Table, metric: Quantity, cell: int, block: int, standings: Mapping[Quantity, Standing]
) -> tuple[Unusual, ...]:
    """Return the most likely cause of an outlier: CPU steal or unusually many retransmits in the same trial."""
    steal = _value(table, STEAL, cell, block)
    if steal is not None and steal > STEAL_RATIO:
        return (HostStolenTime(steal_ratio=steal),)
    if metric != RETRANSMITS and RETRANSMITS in standings:
        column, standing = table.columns[RETRANSMITS], standings[RETRANSMITS]
        row = int(np.searchsorted(column.rows, cell))
        if row < len(column.rows) and column.rows[row] == cell and standing.marked[row, block]:
            count, usual = column.values[row, block], standing.median[row, 0]
            if count > usual:
                return (ManyRetransmits(retransmits=round(float(count)), usual=round(float(usual))),)
    return ()


def _value(table: Table, metric: Quantity, cell: int, block: int) -> float | None:
    """Return the value of a metric in one trial."""
    column = table.columns.get(metric)
    if column is None:
        return None
    row = int(np.searchsorted(column.rows, cell))
    if row == len(column.rows) or column.rows[row] != cell or np.isnan(column.values[row, block]):
        return None
    return float(column.values[row, block])
