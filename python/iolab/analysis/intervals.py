"""Confidence intervals and p-values of a mean, both from Student's t, so that they cannot contradict each other.

Arrays in, arrays out; axes (cell, trial). All cells of one call have the same number of trials. Why t at any number of
trials, and what it covers under which noise: docs/method/statistics.md.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from iolab.analysis.neighbours import NONE, Resemblance
from iolab.analysis.types import Interval

Floats = NDArray[np.float64]

FEWEST = 4
"""Trials below which a cell gets no interval: t quantiles beyond 4.3 make it say nothing."""
METHOD = "t"


def interval_of_mean(samples: Floats, alike: Resemblance = NONE) -> Interval | None:
    """Interval for the mean of some trials of a cell; None: too few."""
    if len(samples) < FEWEST:
        return None
    low, high = t_interval(samples[None, :], widening=alike.widening(len(samples)))
    return Interval(float(low[0]), float(high[0]), METHOD)


def t_interval(samples: Floats, level_ratio: float = 0.95, widening: float = 1.0) -> tuple[Floats, Floats]:
    """Student's t interval of the mean of each row, so many times as wide; shape (cell,)."""
    n = samples.shape[1]
    mean = samples.mean(axis=1)
    half = widening * stdtrit(n - 1, 0.5 + level_ratio / 2) * samples.std(axis=1, ddof=1) / np.sqrt(n)
    return mean - half, mean + half


def t_p_value(samples: Floats) -> Floats:
    """Two-sided p of 'the mean is 0', per row; shape (cell,). Rows without any spread give 1 at mean 0 and 0
    elsewhere."""
    n = samples.shape[1]
    mean = samples.mean(axis=1)
    error = samples.std(axis=1, ddof=1) / np.sqrt(n)
    flat = error <= np.finfo(float).eps * np.abs(samples).max(axis=1, initial=0.0)
    t = np.abs(mean) / np.where(flat, 1.0, error)
    return np.where(flat, np.where(mean == 0.0, 1.0, 0.0), 2.0 * stdtr(n - 1, -t))
