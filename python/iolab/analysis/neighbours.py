"""Estimate the autocorrelation of consecutive trials: autocorrelated trials of a cell are not independent samples of
its mean. Pure.

Residuals from cell means and a straight line have a smaller autocorrelation than the trials, because means and line
were fitted to the trials. The expected residual autocorrelation is computed for an AR(1) process of each strength and
the given design; the observed value then determines the strength. The widening of intervals is described in
docs/method/statistics.md.
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
"""Minimum number of trials for distinguishing autocorrelation from chance."""
STRONG_Z = 4.0
"""Minimum number of standard errors (1 / sqrt(trials)) for a warning: exceeded by 1 of 30 000 runs without
autocorrelation."""
SEEN_Z = 2.0
"""Minimum number of standard errors for widening intervals: without autocorrelation, hardly any interval is widened."""
STRENGTHS = np.linspace(0.0, 0.97, 98)
"""Autocorrelations to test; above the last value a mean is practically unknown."""
MOST_TRIALS = 1000
"""Number of trials above which the observed autocorrelation is used without correction for the fit."""
NOTED_WIDENING = 1.1
"""Minimum widening factor of intervals for a warning."""
ROUNDING = 1e-12
"""Maximum relative deviation that is attributed to rounding."""


@dataclass(frozen=True, slots=True)
class Resemblance:
    """Autocorrelation of consecutive trials."""

    autocorrelation: float = 0.0
    """Autocorrelation between consecutive trials: the estimate plus one standard error; 0 if the autocorrelation may be
    chance."""
    stride: int = 1
    """Distance between consecutive trials of one cell [trials]."""

    def widening(self, trials: int, level_ratio: float = 0.95) -> float:
        """Return the widening factor of the t interval for the mean of a cell with this number of trials."""
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
        """Return the mean correlation of a trial with its cell's next trial, if each has a random place in its
        block."""
        places = np.arange(self.stride)
        return float(
            np.mean(self.autocorrelation**places) * np.mean(self.autocorrelation ** (self.stride - places))
        )


NONE = Resemblance()


def order_of(table: Table, plan: Plan) -> Ints:
    """Return the position of each trial in the plan, -1 if there is no trial; shape (cell, block)."""
    places = {step.key: index for index, step in enumerate(plan.steps)}
    found = [[places.get(key, -1) for key in row] for row in table.keys]
    return np.array(found, dtype=np.int64).reshape(len(table.keys), len(table.blocks))


def resemblance(order: Ints, column: Column) -> Resemblance:
    """Return the autocorrelation of consecutive trials in a column, or none if it may be chance."""
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
    """Return a warning if the autocorrelation of consecutive trials exceeds chance; the error is from Bartlett
    (1946)."""
    off, _ = _in_order(order, column)
    seen = _autocorrelation(off)
    strong = len(off) >= FEWEST and seen * np.sqrt(len(off)) >= STRONG_Z
    if strong or resemblance(order, column).widening(len(table.blocks)) >= NOTED_WIDENING:
        return TrialsResembleNeighbours(measure=table.measure, autocorrelation=seen)
    return None


def _autocorrelation(rest: Floats) -> float:
    squares = float(rest @ rest)
    if squares <= len(rest) * ROUNDING**2:
        return 0.0  # all trials are equal
    return float(rest[1:] @ rest[:-1]) / squares


def _in_order(order: Ints, column: Column) -> tuple[Floats, Ints]:
    """Return the relative deviations of trials from their cell mean, and their cells, in the plan's order."""
    mean = np.nanmean(column.values, axis=1, keepdims=True)
    off = np.where(mean != 0, column.values / np.where(mean != 0, mean, 1.0) - 1.0, np.nan)
    places = order[column.rows]
    there = np.isfinite(off) & (places >= 0)
    turn = np.argsort(places[there], kind="stable")
    return off[there][turn], np.nonzero(there)[0][turn]


def _rest(off: Floats, cells: Ints) -> Floats:
    """Return the residuals from cell means and a straight line, for any number of trials."""
    _, own, trials = np.unique(cells, return_inverse=True, return_counts=True)

    def without_means(values: Floats) -> Floats:
        return np.asarray(values - (np.bincount(own, values) / trials)[own])

    rest, line = without_means(off), without_means(np.linspace(-1.0, 1.0, len(cells)))
    square = float(line @ line)
    return rest if square < ROUNDING else np.asarray(rest - line * (line @ rest) / square)


def _fitted(cells: Ints) -> Floats:
    """Return an orthonormal basis of cell means and a straight line; shape (trial, parameter)."""
    known, own = np.unique(cells, return_inverse=True)
    member = np.zeros((len(cells), len(known)))
    member[np.arange(len(cells)), own] = 1.0
    member /= np.sqrt(member.sum(axis=0))
    line = np.linspace(-1.0, 1.0, len(cells))
    line -= member @ (member.T @ line)
    length = np.linalg.norm(line)
    return member if length < 1e-9 else np.column_stack([member, line / length])


def _expected(fitted: Floats) -> Floats:
    """Return the expected autocorrelation of the residuals for each true autocorrelation in `STRENGTHS`."""
    trials = len(fitted)
    rest = np.eye(trials) - fitted @ fitted.T
    next_to = rest[:, :-1] @ rest[1:, :]
    apart = np.abs(np.subtract.outer(np.arange(trials), np.arange(trials))).ravel()
    products, squares = (np.bincount(apart, each.ravel(), trials) for each in (next_to, rest))
    powers = STRENGTHS[:, None] ** np.arange(trials)
    return np.asarray((powers @ products) / (powers @ squares))
