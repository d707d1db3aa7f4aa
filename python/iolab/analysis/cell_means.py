"""Differences between levels, cell by cell: where they agree one figure holds for all, where not each has its own.

log(metric) = cell + block + residual. No shape is put on the cells, so that interactions of any order are in their
means and none is in the residual. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc

from iolab.analysis.effects import POOLING_P, Difference, Model, Spread, split
from iolab.analysis.linear_model import codes
from iolab.analysis.ratios import ABSENT

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

AGREE_P = 0.01
"""Differences agree unless an F test says below this that they do not: one sentence in a hundred is split by chance."""
ALIKE_SHARE = 0.25
"""Cells that differ from their mean by at most this share of it share a sentence, whose interval holds them all."""

ROUNDING = 1e-9
"""An eigenvalue below this share of the largest is 0: sums over thousands of trials round to 1e-15 of themselves, and
what is known of a block or a pair is at least one trial's share."""
MOST_CELLS = 2000
"""Of one comparison that is taken apart."""
MOST_DENSE = 400
"""Pairs whose covariance is taken whole; of more, which share little, each by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellMeans:
    """Means of the logarithm of one measure's leading metric, blocks taken out."""

    model: Model
    """What varies, and against which reference."""
    there: NDArray[np.bool_]
    """Which trials there are; shape (cell, block)."""
    means: Floats
    """Shape (cell,)."""
    links: Floats
    """How far what is known of a block depends on the cells in it; shape (block, block)."""
    spread: Spread
    """Between trials of one plot."""
    plot_spread: Spread | None
    """Between plots, where it is larger."""
    plot_trials: float
    """Mean number of trials in a plot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """One level against the reference of its factor, in each cell that has it."""

    of: CellMeans
    """Where they are from."""
    factor: int
    """The factor."""
    level: int
    """Its level."""
    cells: Ints
    """The cell at the level, per pair."""
    values: Floats
    """Difference of logarithms, per pair."""
    own: Floats
    """Its variance from the cell at the level, in units of the residual variance."""
    group: Ints
    """Which cells at the reference it is against: pairs of one number share them."""
    other: Floats
    """Its variance from those."""
    through: Floats
    """How much it depends on each block; 0 where all cells have all blocks; shape (pair, block)."""
    conditions: Mapping[int, int]
    """Levels of other factors that all cells have."""


def cell_means(model: Model, logs: Floats, plots: Ints) -> CellMeans:
    """Take out the blocks by least squares; with complete blocks a cell's mean is that of its trials."""
    there = ~np.isnan(logs)
    known = np.where(there, logs, 0.0)
    count, size = there.sum(axis=1), there.sum(axis=0)
    average = known.sum(axis=1) / count
    scatter = np.where(there, logs - average[:, None], 0.0)
    gram = np.diag(size.astype(float)) - there.T @ (there / count[:, None])
    links = np.linalg.pinv(gram, rcond=ROUNDING, hermitian=True)
    blocks = links @ scatter.sum(axis=0)
    means = average - (there * blocks).sum(axis=1) / count
    rest = np.where(there, known - means[:, None] - blocks, 0.0)
    rank = int(np.linalg.matrix_rank(gram, rtol=ROUNDING, hermitian=True))
    freedom = int(there.sum()) - len(logs) - rank
    pooled = Spread(float((rest**2).sum()) / freedom if freedom > 0 else float("nan"), freedom)
    spread, plot_spread, trials = pooled, None, 1.0
    if model.grouped:
        whole = len(np.unique(model.levels[:, sorted(model.grouped)], axis=0)) - 1
        spread, plot_spread, trials = split(rest, there, pooled, plots, whole)
    return CellMeans(
        model=model, there=there, means=means, links=links, spread=spread, plot_spread=plot_spread,
        plot_trials=trials,
    )  # fmt: skip


def pairs(of: CellMeans, factor: int, level: int) -> Pairs | None:
    """Match every cell at a level with those at the reference whose shared factors are equal and that share a block.

    A sub-factor of one level alone matches nothing: its cells stand against the same reference. None: no match.
    """
    levels, reference = of.model.levels, of.model.design.references[factor]
    sides = [np.flatnonzero(levels[:, factor] == at) for at in (level, reference)]
    if not len(sides[0]) or not len(sides[1]):
        return None
    present = [(levels[side] != ABSENT).any(axis=0) for side in sides]
    shared = np.flatnonzero(present[0] & present[1])
    code = codes(levels, shared[shared != factor])
    names, place = np.unique(code[sides[1]], return_inverse=True)
    size = np.bincount(place)
    share = (of.there / of.there.sum(axis=1, keepdims=True))[sides[1]]
    blocks = np.stack([np.bincount(place, weights=own) / size for own in share.T], axis=1)
    inverse = np.bincount(place, weights=1.0 / of.there[sides[1]].sum(axis=1)) / size**2
    mean = np.bincount(place, weights=of.means[sides[1]]) / size
    group = np.searchsorted(names, code[sides[0]]).clip(max=len(names) - 1)
    matched = (names[group] == code[sides[0]]) & (of.there[sides[0]] & (blocks[group] > 0)).any(axis=1)
    cells, group = sides[0][matched], group[matched]
    if not len(cells):
        return None
    count = of.there[cells].sum(axis=1)
    return Pairs(
        of=of, factor=factor, level=level, cells=cells, values=of.means[cells] - mean[group], own=1.0 / count,
        group=group, other=inverse[group], through=of.there[cells] / count[:, None] - blocks[group], conditions={},
    )  # fmt: skip


def comparisons(of: CellMeans) -> list[Pairs]:
    """Every level against the reference of its factor, over all cells that can be matched."""
    every = (pairs(of, factor, level) for factor, level in of.model.main_levels())
    return [each for each in every if each is not None]


def parts(found: Pairs, least: float) -> list[Pairs]:
    """Split until the differences of each part agree, or are alike; `least` is a logarithm that is not worth a split.

    What disagrees in more cells than sentences could tell apart is left out.
    """
    if len(found.cells) == 1 or apart_p_value(found) >= AGREE_P or _alike(found, least):
        return [found]
    split_by = _best_split(found) if len(found.cells) <= MOST_CELLS else None
    if split_by is None:
        return []
    own = found.of.model.levels[found.cells, split_by]
    pieces = (_part(found, own == at, {split_by: at}) for at in np.unique(own).tolist())
    return [part for piece in pieces for part in parts(piece, least)]


def _part(found: Pairs, chosen: NDArray[np.bool_], conditions: Mapping[int, int]) -> Pairs:
    return replace(
        found, cells=found.cells[chosen], values=found.values[chosen], own=found.own[chosen],
        group=found.group[chosen], other=found.other[chosen], through=found.through[chosen],
        conditions={**found.conditions, **conditions},
    )  # fmt: skip


def _best_split(found: Pairs) -> int | None:
    """The factor whose levels leave the least scatter within them, per degree of freedom that they take."""
    levels = found.of.model.levels[found.cells]
    best, least = None, float("inf")
    for factor in range(levels.shape[1]):
        own = np.unique(levels[:, factor])
        if factor == found.factor or len(own) < 2 or own[0] == ABSENT:
            continue
        groups = [found.values[levels[:, factor] == at] for at in own]
        scatter = sum(float(((group - group.mean()) ** 2).sum()) for group in groups)
        scatter /= max(len(found.cells) - len(own), 1)
        if scatter < least:
            best, least = factor, scatter
    return best


def _variances(found: Pairs) -> Floats:
    """Of the pairs' differences, in units of the residual variance; shape (pair,)."""
    blocks = ((found.through @ found.of.links) * found.through).sum(axis=1)
    return np.asarray(found.own + found.other + blocks)


def _covariance(found: Pairs) -> Floats:
    """Of the pairs' differences, in units of the residual variance; shape (pair, pair)."""
    shared = np.where(found.group[:, None] == found.group, found.other, 0.0)
    return np.asarray(np.diag(found.own) + shared + found.through @ found.of.links @ found.through.T)


def _mean_leverage(found: Pairs) -> float:
    """Variance of the pairs' mean, in units of the residual variance."""
    count = len(found.cells)
    shared = np.bincount(found.group) ** 2 / count**2
    other = np.zeros(len(shared))
    other[found.group] = found.other
    blocks = found.through.mean(axis=0)
    return float(found.own.sum() / count**2 + (shared * other).sum() + blocks @ found.of.links @ blocks)


def apart_p_value(found: Pairs) -> float:
    """F test of 'the differences are those of one figure and chance'; 1 where nothing can tell."""
    spread, count = _spread_of_cells(found), len(found.cells)
    if count == 1 or not spread.freedom >= 1:
        return 1.0
    if count <= MOST_DENSE:
        center = np.eye(count) - 1.0 / count
        inverse = np.linalg.pinv(center @ _covariance(found) @ center, rcond=ROUNDING, hermitian=True)
        form = float(found.values @ inverse @ found.values)
    else:
        weights = 1.0 / _variances(found)
        apart = found.values - np.average(found.values, weights=weights)
        form = float((weights * apart**2).sum())
    if spread.variance <= 0.0:
        return 1.0 if form < np.finfo(float).eps else 0.0
    return float(fdtrc(count - 1, spread.freedom, form / (count - 1) / spread.variance))


def _alike(found: Pairs, least: float) -> bool:
    apart = float(np.abs(found.values - found.values.mean()).max())
    mean = abs(float(found.values.mean()))
    return apart <= least if mean <= least else apart <= max(least, ALIKE_SHARE * mean) and apart < mean


def _spread_of_cells(found: Pairs) -> Spread:
    """The residual that pairs are compared with each other by: where plots differ between them, that of plots."""
    of = found.of
    grouped = of.model.grouped - {found.factor}
    levels = of.model.levels[found.cells][:, sorted(grouped)]
    apart = found.factor in of.model.grouped and len(np.unique(levels, axis=0)) > 1
    return of.plot_spread if apart and of.plot_spread is not None else of.spread


def average(found: Pairs) -> Difference:
    """The mean of the pairs, and its error as a mean of just these cells."""
    spread = _spread_of_mean(found)
    error = float(np.sqrt(_mean_leverage(found) * spread.variance))
    return Difference(float(found.values.mean()), error, spread.freedom)


def for_each(found: Pairs) -> Difference:
    """The mean of the pairs, with an error wide enough for each cell: what they differ by beyond chance is in it."""
    over_all = average(found)
    count = len(found.cells)
    if apart_p_value(found) > POOLING_P:
        return over_all
    scatter = (float(_variances(found).sum()) - count * _mean_leverage(found)) / (count - 1)
    between = max(float(found.values.var(ddof=1)) - scatter * _spread_of_cells(found).variance, 0.0)
    return Difference(over_all.value, float(np.hypot(over_all.error, np.sqrt(between))), over_all.freedom)


def _spread_of_mean(found: Pairs) -> Spread:
    """The residual that a mean of pairs is measured against."""
    of = found.of
    if of.plot_spread is None or found.factor not in of.model.grouped:
        return of.spread
    if set(found.conditions) <= of.model.grouped:
        return of.plot_spread
    # at one level of an ungrouped factor each plot has one trial, which carries the plot's share once
    share = (of.plot_spread.variance - of.spread.variance) / of.plot_trials
    return Spread(of.spread.variance + share, of.plot_spread.freedom)
