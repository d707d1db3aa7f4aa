"""Whether a trial resembles the one before it: trials of a cell are then no independent witnesses of its mean. Pure.

What the deviations from the means of cells and from a straight line have in common with those before them is less than
what the trials have: the means and the line were fitted to them. What it would be under an AR(1) of each strength is
known for the design at hand, so the strength follows. How much wider intervals become: docs/method/statistics.md.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from iolab.analysis.table import Column, Table
from iolab.messages.notes import TrialsResembleNeighbours
from iolab.plan.types import Plan

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FEWEST = 20
"""Trials below which resemblance alone cannot be told from chance."""
STRONG_Z = 4.0
"""Told of where it is so many standard errors (1 / sqrt(trials)) above none: of 30 000 runs without any, one."""
SEEN_Z = 2.0
"""Allowed for from so many standard errors on: where there is none, hardly any interval becomes wider."""
STRENGTHS = np.linspace(0.0, 0.97, 98)
"""Autocorrelations looked at: beyond the last a mean is hardly known at all."""
MOST_TRIALS = 1000
"""Of more trials the fit takes next to nothing away: their autocorrelation is taken as it is seen."""
NOTED_WIDENING = 1.1
"""Told of where intervals are so many times as wide for it."""
ROUNDING = 1e-12
"""Deviations up to this come from rounding [per mean]."""


@dataclass(frozen=True, slots=True)
class Resemblance:
    """How much a trial resembles the one before it."""

    autocorrelation: float = 0.0
    """From one trial to the next: what is seen and one standard error; 0 where it may be chance."""
    stride: int = 1
    """From one trial of a cell to its next [trials]."""

    def widening(self, trials: int, level_ratio: float = 0.95) -> float:
        """Return how many times as wide the t interval of the mean of a cell with so many trials is to be."""
        if self.autocorrelation <= 0 or trials < 2:
            return 1.0
        steps = np.abs(np.subtract.outer(np.arange(trials), np.arange(trials)))
        common = np.where(
            steps == 0,
            1.0,
            self._next() * self.autocorrelation ** (self.stride * np.maximum(steps - 1.0, 0.0)),
        )
        of_mean = float(common.mean())
        spread = common - common.mean(axis=0)
        freedom = float(np.trace(spread) ** 2 / (spread * spread.T).sum())  # Satterthwaite
        error = np.sqrt(of_mean * (trials - 1) / (1.0 - of_mean))
        share = 0.5 + level_ratio / 2
        wider = error * stdtrit(min(freedom, trials - 1), share) / stdtrit(trials - 1, share)
        return max(1.0, float(wider))

    def _next(self) -> float:
        """What a trial has in common with its cell's next one, each at a random place of its block, on average."""
        places = np.arange(self.stride)
        return float(
            np.mean(self.autocorrelation**places) * np.mean(self.autocorrelation ** (self.stride - places))
        )


NONE = Resemblance()


def order_of(table: Table, plan: Plan) -> Ints:
    """Return the place of each trial in the plan, -1 where there is none; shape (cell, block)."""
    places = {step.key: index for index, step in enumerate(plan.steps)}
    found = [[places.get(key, -1) for key in row] for row in table.keys]
    return np.array(found, dtype=np.int64).reshape(len(table.keys), len(table.blocks))


def resemblance(order: Ints, column: Column) -> Resemblance:
    """Return how much the trials of a column resemble the one before them, as far as it is more than chance."""
    off, cells = _in_order(order, column)
    trials = len(off)
    if trials < 4:
        return NONE
    seen = _autocorrelation(_rest(off, cells))
    if seen * np.sqrt(trials) < SEEN_Z:
        return NONE
    most = seen + np.sqrt((1.0 - seen**2) / trials)
    if trials <= MOST_TRIALS:
        expected = np.maximum.accumulate(_expected(_fitted(cells)))
        most = float(STRENGTHS[min(int(np.searchsorted(expected, most)), len(STRENGTHS) - 1)])
    return Resemblance(min(most, float(STRENGTHS[-1])), max(1, round(trials / order.shape[1])))


def resemblance_note(table: Table, column: Column, order: Ints) -> TrialsResembleNeighbours | None:
    """Warn where neighbours in time resemble each other more than chance lets them; Bartlett (1946) for the error."""
    off, _ = _in_order(order, column)
    seen = _autocorrelation(off)
    strong = len(off) >= FEWEST and seen * np.sqrt(len(off)) >= STRONG_Z
    if strong or resemblance(order, column).widening(len(table.blocks)) >= NOTED_WIDENING:
        return TrialsResembleNeighbours(measure=table.measure, autocorrelation=seen)
    return None


def _autocorrelation(rest: Floats) -> float:
    squares = float(rest @ rest)
    if squares <= len(rest) * ROUNDING**2:
        return 0.0  # equal trials
    return float(rest[1:] @ rest[:-1]) / squares


def _in_order(order: Ints, column: Column) -> tuple[Floats, Ints]:
    """What trials are off from the mean of their cell, as shares of it, and their cells, in the order of the plan."""
    mean = np.nanmean(column.values, axis=1, keepdims=True)
    off = np.where(mean != 0, column.values / np.where(mean != 0, mean, 1.0) - 1.0, np.nan)
    places = order[column.rows]
    there = np.isfinite(off) & (places >= 0)
    turn = np.argsort(places[there], kind="stable")
    return off[there][turn], np.nonzero(there)[0][turn]


def _rest(off: Floats, cells: Ints) -> Floats:
    """What is left without the means of cells and a straight line: as by `_fitted`, of any number of trials."""
    _, own, trials = np.unique(cells, return_inverse=True, return_counts=True)

    def without_means(values: Floats) -> Floats:
        return np.asarray(values - (np.bincount(own, values) / trials)[own])

    rest, line = without_means(off), without_means(np.linspace(-1.0, 1.0, len(cells)))
    square = float(line @ line)
    return rest if square < ROUNDING else np.asarray(rest - line * (line @ rest) / square)


def _fitted(cells: Ints) -> Floats:
    """An orthonormal basis of the means of cells and a straight line; shape (trial, parameter)."""
    known, own = np.unique(cells, return_inverse=True)
    member = np.zeros((len(cells), len(known)))
    member[np.arange(len(cells)), own] = 1.0
    member /= np.sqrt(member.sum(axis=0))
    line = np.linspace(-1.0, 1.0, len(cells))
    line -= member @ (member.T @ line)
    length = np.linalg.norm(line)
    return member if length < 1e-9 else np.column_stack([member, line / length])


def _expected(fitted: Floats) -> Floats:
    """What autocorrelation is seen on average after the fit, by that which the trials have (`STRENGTHS`)."""
    trials = len(fitted)
    rest = np.eye(trials) - fitted @ fitted.T
    next_to = rest[:, :-1] @ rest[1:, :]
    apart = np.abs(np.subtract.outer(np.arange(trials), np.arange(trials))).ravel()
    products, squares = (np.bincount(apart, each.ravel(), trials) for each in (next_to, rest))
    powers = STRENGTHS[:, None] ** np.arange(trials)
    return np.asarray((powers @ products) / (powers @ squares))
