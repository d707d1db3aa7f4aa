"""Compute confidence intervals and p-values of means with Student's t, so that an interval always agrees with its
p-value.

Means of quantities that cannot be negative have intervals on the log scale. Only ratios of means have p-values, which
are corrected for the number of comparisons.

Input and output are arrays with axes (cell, trial). All cells of one call have the same number of trials. The reasons
for t at any number of trials, and its coverage under each kind of noise, are in docs/method/statistics.md.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from iolab.analysis.neighbours import NONE, Resemblance
from iolab.analysis.types import Interval

Floats = NDArray[np.float64]

FEWEST = 4
"""Minimum number of trials for an interval; with fewer trials the t quantile exceeds 4.3 and the interval is too
wide."""
METHOD = "t"
LOG_METHOD = "t on the log scale"
NOT_NEGATIVE = frozenset({"bit/s", "byte/s", "frame/s", "op/s", "1/s", "byte", "ns", "s", "count", "ratio"})
"""Units of quantities that cannot be negative; a negative value disables the log scale."""


def interval_of_mean(
    samples: Floats, alike: Resemblance = NONE, *, log_scale: bool = False
) -> Interval | None:
    """Return the interval of the mean of a cell's trials; None if there are too few trials."""
    if len(samples) < FEWEST:
        return None
    make, method = (log_interval, LOG_METHOD) if log_scale else (t_interval, METHOD)
    low, high = make(samples[None, :], widening=alike.widening(len(samples)))
    return Interval(float(low[0]), float(high[0]), method)


def t_interval(samples: Floats, level_ratio: float = 0.95, widening: float = 1.0) -> tuple[Floats, Floats]:
    """Return Student's t interval of each row's mean, its width multiplied by `widening`; shape (cell,)."""
    n = samples.shape[1]
    mean = samples.mean(axis=1)
    half = widening * stdtrit(n - 1, 0.5 + level_ratio / 2) * samples.std(axis=1, ddof=1) / np.sqrt(n)
    return mean - half, mean + half


def log_interval(samples: Floats, level_ratio: float = 0.95, widening: float = 1.0) -> tuple[Floats, Floats]:
    """Return the interval of each row's mean on the log scale, for quantities that cannot be negative; shape (cell,).

    The error of the logarithm of a mean m is s / (m sqrt n) (delta method). The ends are m exp(+-h) with h = t s / (m
    sqrt n): equal to Student's t for a small spread, and never below 0.
    """
    low, high = t_interval(samples, level_ratio, widening)
    mean = samples.mean(axis=1)
    known = mean > 0
    half = np.where(known, (high - low) / 2 / np.where(known, mean, 1.0), 0.0)
    return mean * np.exp(-half), mean * np.exp(half)


def t_p_value(samples: Floats) -> Floats:
    """Return the two-sided p-value of mean = 0, per row; shape (cell,). A row with zero variance has 1 at mean 0, else
    0."""
    n = samples.shape[1]
    mean = samples.mean(axis=1)
    error = samples.std(axis=1, ddof=1) / np.sqrt(n)
    flat = error <= np.finfo(float).eps * np.abs(samples).max(axis=1, initial=0.0)
    t = np.abs(mean) / np.where(flat, 1.0, error)
    return np.where(flat, np.where(mean == 0.0, 1.0, 0.0), 2.0 * stdtr(n - 1, -t))


def holm(p_values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Holm's step-down adjusted p-values in the given order; NaN (not compared) stays NaN and is not counted.

    Holm (1979), A simple sequentially rejective multiple test procedure, Scand. J. Statist. 6:65-70.
    """
    adjusted = np.full(p_values.shape, np.nan)
    compared = np.flatnonzero(~np.isnan(p_values))
    order = compared[np.argsort(p_values[compared], kind="stable")]
    steps = (len(order) - np.arange(len(order))) * p_values[order]
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted
