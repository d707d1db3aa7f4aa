"""The probability of a device's capacity, given trials in which it forwarded what it could.

A device of capacity C forwards C (1 + noise) w frames in a time w at its limit; a trial of duration d below it only
says that C d, and the burst that the device is known for, was no less than what it forwarded. Now and then a stall that
nobody saw takes some away. The posterior is summed on a grid that closes in on its bulk. No randomness. Called by fast.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

Floats = NDArray[np.float64]

OUTLIER_SHARE = 0.03
"""Prior share of trials disturbed unseen; 0.2 stalls/s of which 5 % are missed give 0.002 of short trials [ratio]."""
OUTLIER_DEPTH = 0.5
"""How much of the frames such a disturbance takes at most [ratio]."""
LARGEST_NOISE = 0.06
"""Highest noise of the capacity considered [ratio]."""
LEAST_LOG = -680.0
"""Logarithm below which a probability is none: numbers too small for a normal float cost ten times the time."""
GRID = 81
NOISES = 24
PASSES = 5


@dataclass(frozen=True, slots=True)
class Observation:
    """What one trial tells of the capacity."""

    offered_fps: float
    """Load [frames/s]."""
    forwarded_frames: float
    """Frames that came out, in one direction, less those that a burst may have taken up."""
    duration_s: float
    """Time at the limit; of the whole trial where it was below [s]."""
    saturated: bool
    """More was offered than forwarded; otherwise the capacity may be any higher."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """The posterior, reduced."""

    median_fps: float
    """As likely too high as too low [frames/s]."""
    low_fps: float
    """2.5 % quantile [frames/s]."""
    high_fps: float
    """97.5 % quantile [frames/s]."""
    noise_ratio: float
    """Posterior mean of the standard deviation from trial to trial, per capacity [ratio]."""

    @property
    def width_ratio(self) -> float:
        """Width of the interval, per its upper end [ratio]."""
        return (self.high_fps - self.low_fps) / self.high_fps


@lru_cache(maxsize=128)
def estimate(observations: tuple[Observation, ...], finest_ratio: float) -> Capacity:
    """Return the posterior of the capacity; `finest_ratio` is how fine it is looked at, per capacity.

    At least one observation must be saturated. The same is asked for again for each load that is looked at by itself,
    and when the search is concluded.
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
    """Return whether overload itself lowers what is forwarded: then the forwarded rate is not the capacity.

    A straight line must fit very well (Student's t of its slope beyond 12, five trials or more): noise does that in one
    of 1500 looks, and there are several looks in a search.
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
    """Return the probability of each (noise, capacity), of that shape, summing to 1.

    Prior: flat in the capacity, flat in the logarithm of the noise.
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
