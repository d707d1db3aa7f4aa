"""Compare factor levels cell by cell, and pool the differences that agree.

Model: log(metric) = cell + block + residual. The model imposes no structure on the cells: interactions of every order
are part of the cell means, and no interaction is part of the residual. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc

from iolab.analysis.effects import POOLING_P, Difference, Model, Spread, compared_only_at, split
from iolab.analysis.linear_model import codes
from iolab.analysis.ratios import ABSENT

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

AGREE_P = 0.01
"""Significance level of the F test of equal differences: 1 % of the groups with equal differences are split by
chance."""
ALIKE_SHARE = 0.25
"""Maximum deviation of a cell's difference from the mean difference, as a share of that mean, for cells to be reported
together."""

ROUNDING = 1e-9
"""Relative threshold below which an eigenvalue counts as 0.

Sums over thousands of trials have relative rounding errors near 1e-15, and the information about a block or pair is at
least that of one trial.
"""
MOST_CELLS = 2000
"""Maximum number of cells in a comparison that may be split."""
MOST_DENSE = 400
"""Maximum number of pairs for which the full covariance is used; for more pairs, only the variances are used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellMeans:
    """Cell means of the logarithm of a measure's leading metric, adjusted for blocks."""

    model: Model
    """Fitted model: factors that vary, and their reference levels."""
    there: NDArray[np.bool_]
    """Whether a trial exists; shape (cell, block)."""
    means: Floats
    """Mean logarithm of each cell; shape (cell,)."""
    links: Floats
    """Covariance of the block effects, in units of the residual variance; shape (block, block)."""
    spread: Spread
    """Spread between trials of one plot."""
    plot_spread: Spread | None
    """Spread between plots, if it exceeds the spread within plots; else None."""
    plot_trials: float
    """Mean number of trials in a plot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Differences between one level and the reference level of its factor, one pair per cell that has the level."""

    of: CellMeans
    """Cell means from which the differences are computed."""
    factor: int
    """Factor index."""
    level: int
    """Level index."""
    cells: Ints
    """Index of the cell at the level, per pair."""
    values: Floats
    """Difference of logarithms, per pair."""
    own: Floats
    """Variance from the cell at the level, per pair, in units of the residual variance."""
    group: Ints
    """Index of the group of reference cells, per pair; pairs with the same index have the same reference cells."""
    other: Floats
    """Variance from the reference cells, per pair, in units of the residual variance."""
    through: Floats
    """Weight of each block in a pair's difference; 0 if all cells have all blocks; shape (pair, block)."""
    conditions: Mapping[int, int]
    """Level index by factor index, for the factors whose level is the same in all cells."""


def cell_means(model: Model, logs: Floats, plots: Ints) -> CellMeans:
    """Estimate cell means by least squares with blocks removed; with complete blocks they are plain means of
    trials."""
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
    """Match each cell at a level to the reference cells that have the same levels of the shared factors, and a block in
    common.

    Sub-factors that exist on one side only are ignored in the match, so several cells may share one reference. Return
    None if no cell matches.
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
        group=group, other=inverse[group], through=of.there[cells] / count[:, None] - blocks[group],
        conditions=compared_only_at(of.model, factor, level, cells),
    )  # fmt: skip


def comparisons(of: CellMeans) -> list[Pairs]:
    """Compare every level with its factor's reference over all cells that can be matched."""
    every = (pairs(of, factor, level) for factor, level in of.model.main_levels())
    return [each for each in every if each is not None]


def parts(found: Pairs, least: float) -> list[Pairs]:
    """Split a comparison until the differences within each part agree.

    `least` is the smallest difference of logarithms that justifies a split. Parts of more than MOST_CELLS cells whose
    differences do not agree are dropped.
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
    """Return the factor by whose levels a split leaves the smallest residual variance; None if no factor varies."""
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
    """Return the variances of the pairs' differences, in units of the residual variance; shape (pair,)."""
    blocks = ((found.through @ found.of.links) * found.through).sum(axis=1)
    return np.asarray(found.own + found.other + blocks)


def _covariance(found: Pairs) -> Floats:
    """Return the covariance of the pairs' differences, in units of the residual variance; shape (pair, pair)."""
    shared = np.where(found.group[:, None] == found.group, found.other, 0.0)
    return np.asarray(np.diag(found.own) + shared + found.through @ found.of.links @ found.through.T)


def _mean_leverage(found: Pairs) -> float:
    """Return the variance of the pairs' mean, in units of the residual variance."""
    count = len(found.cells)
    shared = np.bincount(found.group) ** 2 / count**2
    other = np.zeros(len(shared))
    other[found.group] = found.other
    blocks = found.through.mean(axis=0)
    return float(found.own.sum() / count**2 + (shared * other).sum() + blocks @ found.of.links @ blocks)


def apart_p_value(found: Pairs) -> float:
    """Return the p-value of an F test of the hypothesis that all pairs have the same difference; 1 if untestable."""
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
    """Return the residual spread for comparing pairs with each other: between plots if the pairs are in different
    plots."""
    of = found.of
    grouped = of.model.grouped - {found.factor}
    levels = of.model.levels[found.cells][:, sorted(grouped)]
    apart = found.factor in of.model.grouped and len(np.unique(levels, axis=0)) > 1
    return of.plot_spread if apart and of.plot_spread is not None else of.spread


def average(found: Pairs) -> Difference:
    """Return the mean difference over the pairs, and the standard error for exactly these cells."""
    spread = _spread_of_mean(found)
    error = float(np.sqrt(_mean_leverage(found) * spread.variance))
    return Difference(float(found.values.mean()), error, spread.freedom)


def for_each(found: Pairs) -> Difference:
    """Return the mean difference over the pairs, with a standard error that includes real variation between cells."""
    over_all = average(found)
    count = len(found.cells)
    if apart_p_value(found) > POOLING_P:
        return over_all
    scatter = (float(_variances(found).sum()) - count * _mean_leverage(found)) / (count - 1)
    between = max(float(found.values.var(ddof=1)) - scatter * _spread_of_cells(found).variance, 0.0)
    return Difference(over_all.value, float(np.hypot(over_all.error, np.sqrt(between))), over_all.freedom)


def _spread_of_mean(found: Pairs) -> Spread:
    """Return the residual spread against which the mean of the pairs is tested."""
    of = found.of
    if of.plot_spread is None or found.factor not in of.model.grouped:
        return of.spread
    if set(found.conditions) <= of.model.grouped:
        return of.plot_spread
    # at one level of an ungrouped factor each plot has one trial, which carries the full plot variance once
    share = (of.plot_spread.variance - of.spread.variance) / of.plot_trials
    return Spread(of.spread.variance + share, of.plot_spread.freedom)
