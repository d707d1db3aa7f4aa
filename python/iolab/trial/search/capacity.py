"""Estimate the probability distribution of a device's capacity from trials at its limit.

A device of capacity C at its limit forwards C (1 + noise) w frames in time w. A trial of duration d below the limit
only shows that C d plus the device's known burst is at least the number of frames forwarded. An undetected stall
occasionally reduces the count. The posterior is summed on a grid that is refined around its bulk. The module uses no
randomness. The strategy `fast` uses it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

Floats = NDArray[np.float64]

OUTLIER_SHARE = 0.03
"""Prior share of trials with an undetected disturbance [ratio]; 0.2 stalls/s of which 5 % are missed affect 0.002 of
short trials."""
OUTLIER_DEPTH = 0.5
"""Maximum share of frames lost in an undetected disturbance [ratio]."""
LARGEST_NOISE = 0.06
"""Maximum capacity noise in the prior [ratio]."""
LEAST_LOG = -680.0
"""Logarithm below which a probability counts as 0: subnormal floats would take ten times as long."""
GRID = 81
NOISES = 24
PASSES = 5


@dataclass(frozen=True, slots=True)
class Observation:
    """Information about the capacity, from one trial."""

    offered_fps: float
    """Offered load [frames/s]."""
    forwarded_frames: float
    """Frames forwarded in one direction, without those that a burst may have absorbed."""
    duration_s: float
    """Time for which the device was at its limit, or the whole trial if the load was below the limit [s]."""
    saturated: bool
    """Whether more frames were offered than forwarded; otherwise the trial gives only a lower bound of the capacity."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """Summary of the posterior."""

    median_fps: float
    """Median [frames/s]."""
    low_fps: float
    """2.5 % quantile [frames/s]."""
    high_fps: float
    """97.5 % quantile [frames/s]."""
    noise_ratio: float
    """Posterior mean of the standard deviation between trials, relative to the capacity [ratio]."""

    @property
    def width_ratio(self) -> float:
        """Return the width of the interval relative to its upper end [ratio]."""
        return (self.high_fps - self.low_fps) / self.high_fps


@lru_cache(maxsize=128)
def estimate(observations: tuple[Observation, ...], finest_ratio: float) -> Capacity:
    """Return the posterior of the capacity; `finest_ratio` is the grid resolution relative to the capacity.

    At least one observation must be saturated. Results are cached, because the same observations are evaluated for
    several loads and again at the end of the search.
    """
    rates = sorted(each.forwarded_frames / each.duration_s for each in observations if each.saturated)
    centre = max(rates[len(rates) // 2], 1e-9)
    low, high = centre * 0.75, centre * 1.08
    for _ in range(PASSES):
        grid = np.linspace(low, high, GRID)
        spacing = (high - low) / (GRID - 1) / centre
        noises = np.geomspace(max(finest_ratio, spacing), LARGEST_NOISE, NOISES)
        weights = posterior(observations, grid, noises)
        by_capacity = weights.sum(axis=0)
        if spacing <= finest_ratio:
            break
        cumulated = np.cumsum(by_capacity)
        inner = grid[(cumulated > 1e-4) & (cumulated < 1 - 1e-4)]
        low, high = (float(inner[0]), float(inner[-1])) if len(inner) else (centre, centre)
        low, high = low - 2 * spacing * centre, high + 2 * spacing * centre
        if (high - low) / (GRID - 1) / centre > 0.8 * spacing:
            break
    cumulated = np.cumsum(by_capacity)
    low, median, high = np.interp([0.025, 0.5, 0.975], cumulated - by_capacity / 2, grid)
    return Capacity(
        median_fps=float(median),
        low_fps=float(low) * (1 - finest_ratio),
        high_fps=float(high) * (1 + finest_ratio),
        noise_ratio=float(weights.sum(axis=1) @ noises),
    )


def falls_with_load(observations: Sequence[Observation]) -> bool:
    """Whether overload reduces the forwarded rate, in which case that rate is not the capacity.

    A straight line must fit very well (Student's t of its slope beyond 12, at least five trials): noise causes this in
    one of 1500 checks, and a search makes several checks.
    """
    points = [
        (each.offered_fps, each.forwarded_frames / each.duration_s) for each in observations if each.saturated
    ]
    if len(points) < 5:
        return False
    loads, rates = np.array(points).T
    if np.ptp(loads) == 0 or np.ptp(rates) <= 1e-3 * rates.mean():
        return False
    correlation = float(np.corrcoef(loads, rates)[0, 1])
    scatter = max(1e-12, 1 - correlation**2)
    return correlation * float(np.sqrt((len(points) - 2) / scatter)) < -12


def posterior(observations: Sequence[Observation], capacities: Floats, noises: Floats) -> Floats:
    """Return the probability of each pair of noise and capacity, as an array (noise, capacity) whose sum is 1.

    The prior is flat in the capacity and flat in the logarithm of the noise.
    """
    log_weights = np.zeros((len(noises), len(capacities)))
    for each in observations:
        expected = capacities * each.duration_s
        per_spread = 1 / (noises[:, None] * expected + 1.0)
        beyond = expected - each.forwarded_frames
        short = beyond * per_spread
        depth = beyond / (OUTLIER_DEPTH * expected)
        if each.saturated:
            density = (1 - OUTLIER_SHARE) / np.sqrt(2 * np.pi) * per_spread
            calm = np.exp(np.maximum(-0.5 * short**2, LEAST_LOG)) * density
            missed = np.where((depth > 0) & (depth < 1), OUTLIER_SHARE / (OUTLIER_DEPTH * expected), 0.0)
        else:
            calm = (1 - OUTLIER_SHARE) * ndtr(short)
            missed = OUTLIER_SHARE * np.clip(depth, 0.0, 1.0)
        log_weights += np.log(calm + (missed + 1e-300))
    weights: Floats = np.exp(np.maximum(log_weights - log_weights.max(), LEAST_LOG))
    weights /= weights.sum()
    return weights
