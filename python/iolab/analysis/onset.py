"""Find the offered load from which a load sweep has loss of frames or datagrams. Pure."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from iolab import units
from iolab.analysis.forwarding_types import Onset
from iolab.analysis.ratios import ABSENT
from iolab.analysis.table import Table
from iolab.errors import IolabError
from iolab.results.metric import Quantity

LOSS = Quantity("loss_ratio")
KEY = "rate"
"""Last component of the name of the factor that sets a measure's load."""
LOST_RATIO = 0.001
"""Minimum mean loss of a cell that counts as loss; stalls of the host cause less."""
MOST_SENTENCES = 4
"""Maximum number of groups of cells that are reported separately."""


def onsets(table: Table) -> list[Onset]:
    """Find the load at which loss starts, per group of cells that differ only in load; equal groups are merged.

    A group that has loss at one load and no loss at a higher load has no onset, and gets no result. A table in which
    loss was computed by several method versions has no onset either.
    """
    factor = next(
        (index for index, name in enumerate(table.factors) if name in (f"{table.measure}.{KEY}", f"*.{KEY}")),
        None,
    )
    column = table.columns.get(LOSS)
    if factor is None or column is None or column.older or (order := _rising(table.labels[factor])) is None:
        return []
    losses = np.nanmean(column.values, axis=1)
    groups: dict[tuple[int, ...], dict[int, float]] = {}
    for cell, loss in zip(column.rows.tolist(), losses.tolist(), strict=True):
        levels = table.levels[cell].tolist()
        rest = tuple(ABSENT if index == factor else level for index, level in enumerate(levels))
        groups.setdefault(rest, {})[levels[factor]] = loss
    return list(_told(table, factor, order, groups))


def _rising(labels: Sequence[str]) -> list[int] | None:
    """Return the indices of loads in ascending order; None if a label is not a rate, or if fewer than two loads
    differ."""
    try:
        loads = [units.parse_bits_per_second(label) for label in labels]
    except (IolabError, ValueError):
        return None
    return sorted(range(len(loads)), key=loads.__getitem__) if len(set(loads)) > 1 else None


def _told(
    table: Table, factor: int, order: Sequence[int], groups: Mapping[tuple[int, ...], Mapping[int, float]]
) -> Iterator[Onset]:
    firsts: dict[int | None, list[tuple[int, ...]]] = {}
    for rest, losses in groups.items():
        known = [level for level in order if level in losses]
        loses = [losses[level] >= LOST_RATIO for level in known]
        if known != list(order) or loses != sorted(loses):
            return
        firsts.setdefault(
            next((level for level, lost in zip(known, loses, strict=True) if lost), None), []
        ).append(rest)
    several = len(firsts) > 1
    sentences = [[rest] for own in firsts.values() for rest in own] if several else list(firsts.values())
    if len(sentences) > MOST_SENTENCES:
        return
    labels = table.labels[factor]
    for rests in sentences:
        first = next(level for level, own in firsts.items() if rests[0] in own)
        at = [
            [groups[rest][level] for rest in rests]
            for level in (order[0] if first is None else first, order[-1])
        ]
        yield Onset(
            measure=table.measure,
            factor=table.factors[factor],
            conditions=_conditions(table, rests[0]) if several else {},
            level=None if first is None else labels[first],
            largest=labels[order[-1]],
            loss=(min(at[0]), max(at[0])),
            loss_at_largest=(min(at[1]), max(at[1])),
        )


def _conditions(table: Table, levels: Sequence[int]) -> dict[str, str]:
    varied = (table.levels != table.levels[0]).any(axis=0)
    return {
        name: labels[level]
        for name, labels, level, varies in zip(table.factors, table.labels, levels, varied, strict=True)
        if level != ABSENT and varies
    }
