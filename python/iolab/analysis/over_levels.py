"""Compute statistics over the levels of a factor within each block, and their ratios between two levels of a second
factor. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from iolab.analysis.bounds import bounds_in, ratio_bound
from iolab.analysis.estimates import on_log_scale, ratio_of_pairs
from iolab.analysis.intervals import interval_of_mean
from iolab.analysis.level_types import LevelsFigure, LevelsLeftOut, LevelsRatio
from iolab.analysis.ratios import ABSENT
from iolab.analysis.table import Column, Table
from iolab.experiment.experiment import LevelRatio, Statistic, Summary
from iolab.results.metric import Quantity

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

COMPANIONS = ("forwarded_per_direction_fps", "forwarded_bps_l2")
"""Metrics that are summarised together with the leading metric of their measure."""
REDUCE: Mapping[Statistic, Callable[[Floats], Floats]] = {
    "mean": lambda values: values.mean(axis=0),
    "min": lambda values: values.min(axis=0),
    "max": lambda values: values.max(axis=0),
    "median": lambda values: np.median(values, axis=0),
}
"""Reductions from (level, block) to (block,); NaN if a level is NaN."""


@dataclass(frozen=True, slots=True)
class _Group:
    """Cells that differ in one factor only."""

    rest: tuple[int, ...]
    """Level index of every factor, ABSENT for the factor that differs."""
    rows: Ints
    """Row indices of the column's values, in level order."""
    levels: tuple[int, ...]
    """Level index of each row."""


def over_levels(
    table: Table, leading: Quantity, summaries: Sequence[Summary]
) -> tuple[list[LevelsFigure], list[LevelsRatio], list[LevelsLeftOut]]:
    """Summarise the leading metric of a measure and its companions as requested, and list the cells without a
    summary."""
    figures: list[LevelsFigure] = []
    ratios: list[LevelsRatio] = []
    left_out: list[LevelsLeftOut] = []
    for summary in summaries:
        for metric in (leading, *map(Quantity, COMPANIONS)):
            if summary.over in table.factors and metric in table.columns:
                column = table.columns[metric]
                groups, alone = _groups(table, column, table.factors.index(summary.over))
                left_out += _left_out(table, column, (groups, alone), summary.over)
                for statistic in summary.show:
                    figures += _figures(table, column, groups, summary.over, statistic)
                    for between in summary.ratios:
                        ratios += _ratios(table, column, groups, summary.over, statistic, between)
    return figures, ratios, left_out


def _left_out(
    table: Table, column: Column, groups: tuple[Sequence[_Group], Sequence[_Group]], over: str
) -> Iterator[LevelsLeftOut]:
    """Yield the cells that have no summary because too few of their levels share a method version, or because no block
    has all of their levels."""
    labels = table.labels[table.factors.index(over)]
    for at, every in enumerate(groups):
        for group in every:
            if at == 0 and (~np.isnan(column.values[group.rows])).all(axis=0).any():
                continue
            yield LevelsLeftOut(
                measure=table.measure,
                metric=column.metric,
                over=over,
                cell=_cell(table, group.rest),
                levels=tuple(labels[level] for level in group.levels),
            )


def _groups(table: Table, column: Column, factor: int) -> tuple[list[_Group], list[_Group]]:
    """Return groups of cells that have the metric and differ only in the given factor: complete groups, and excluded
    groups.

    Groups with a single level, and groups computed by different method versions, are excluded.
    """
    found: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for row, cell in enumerate(column.rows.tolist()):
        levels = table.levels[cell].tolist()
        if levels[factor] != ABSENT:
            rest = (*levels[:factor], ABSENT, *levels[factor + 1 :])
            found.setdefault(rest, []).append((levels[factor], row))
    groups: tuple[list[_Group], list[_Group]] = ([], [])
    for rest, own in found.items():
        methods = {column.method_of(int(column.rows[row])) for _, row in own}
        rows, levels = zip(*((row, level) for level, row in sorted(own)), strict=True)
        groups[0 if len(own) > 1 and len(methods) == 1 else 1].append(_Group(rest, np.array(rows), levels))
    return groups


def _figures(
    table: Table, column: Column, groups: Sequence[_Group], over: str, statistic: Statistic
) -> Iterator[LevelsFigure]:
    labels = table.labels[table.factors.index(over)]
    for group in groups:
        values = REDUCE[statistic](column.values[group.rows])
        known = values[~np.isnan(values)]
        bounded = bounds_in(column, group.rows)
        if len(known):
            yield LevelsFigure(
                measure=table.measure,
                metric=column.metric,
                unit=column.unit,
                over=over,
                levels=tuple(labels[level] for level in group.levels),
                cell=_cell(table, group.rest),
                statistic=statistic,
                values=tuple(known.tolist()),
                left_out=len(values) - len(known),
                mean=float(known.mean()),
                min=float(known.min()),
                max=float(known.max()),
                ci=None if bounded else interval_of_mean(known, log_scale=on_log_scale(column)),
                limited_by=bounded,
                method=column.method_of(int(column.rows[group.rows[0]])),
            )


def _ratios(
    table: Table,
    column: Column,
    groups: Sequence[_Group],
    over: str,
    statistic: Statistic,
    between: LevelRatio,
) -> Iterator[LevelsRatio]:
    """Yield ratios between groups that differ only in the compared factor and have equal levels of the summarised
    factor."""
    if between.factor not in table.factors:
        return
    factor, labels = table.factors.index(between.factor), table.labels[table.factors.index(over)]
    above, below = (table.labels[factor].index(label) for label in (between.above, between.below))
    by_rest = {group.rest: group for group in groups}
    for group in groups:
        other = by_rest.get((*group.rest[:factor], below, *group.rest[factor + 1 :]))
        if group.rest[factor] != above or other is None or other.levels != group.levels:
            continue
        sides = [REDUCE[statistic](column.values[each.rows]) for each in (group, other)]
        usable = ~np.isnan(sides[0]) & ~np.isnan(sides[1]) & (sides[1] != 0)
        above_bound, below_bound = (bool(bounds_in(column, each.rows)) for each in (group, other))
        rows = np.concatenate((group.rows, other.rows))
        of_them = set(column.rows[rows].tolist())
        methods = set(map(column.method_of, of_them))
        if (
            table.apart.keys() & of_them
            or 0 < len(table.emulated & of_them) < len(of_them)
            or len(methods) > 1
        ):
            continue
        if usable.any() and not (above_bound and below_bound):
            mean, interval = ratio_of_pairs(sides[0][usable] / sides[1][usable])
            yield LevelsRatio(
                measure=table.measure,
                metric=column.metric,
                over=over,
                levels=tuple(labels[level] for level in group.levels),
                cell=_cell(table, (*group.rest[:factor], ABSENT, *group.rest[factor + 1 :])),
                between=between,
                statistic=statistic,
                n=int(usable.sum()),
                ratio=None if above_bound or below_bound else mean,
                ci=None if above_bound or below_bound else interval,
                bound=ratio_bound(above_bound, below_bound),
            )


def _cell(table: Table, levels: Sequence[int]) -> dict[str, str]:
    return {
        name: labels[level]
        for name, labels, level in zip(table.factors, table.labels, levels, strict=True)
        if level != ABSENT
    }
