"""The probability of a device's capacity, given trials in which it forwarded what it could.

A trial of duration d above capacity C forwards C (1 + noise) d + Q frames, Q being the queue that it fills; one below
capacity only says that C d + Q was no less than what it forwarded. Now and then a stall that nobody saw takes some
away. The posterior is summed on a grid that closes in on its bulk. No randomness. Called by fast.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

Floats = NDArray[np.float64]

OUTLIER_SHARE = 0.03
"""Prior share of trials with a disturbance that the stall log missed; 0.2 stalls/s of which 5 % are missed give 0.002."""
OUTLIER_DEPTH = 0.5
"""How much of the frames such a disturbance takes at most [ratio]."""
LARGEST_NOISE = 0.06
"""Highest noise of the capacity considered [ratio]."""
QUEUES: Floats = np.array([0.0, *(2.0**power for power in range(5, 13))])
"""Queues considered [frames]: none to 4096; a veth ring has 256, a qdisc 1000."""
GRID = 81
NOISES = 8
PASSES = 5


@dataclass(frozen=True, slots=True)
class Observation:
    """What one trial tells of the capacity."""

    forwarded_frames: int
    """Frames that came out."""
    duration_s: float
    """Time that frames were sent [s]."""
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
    queue_frames: float
    """Posterior mean of the queue [frames]."""


def estimate(observations: Sequence[Observation], finest_ratio: float) -> Capacity:
    """Return the posterior of the capacity; `finest_ratio` is how fine it is looked at, per capacity.

    At least one observation must be saturated.
    """
    rates = sorted(each.forwarded_frames / each.duration_s for each in observations if each.saturated)
    centre = max(rates[len(rates) // 2], 1e-9)
    low, high = centre * 0.75, centre * 1.08
    for _ in range(PASSES):
        grid = np.linspace(low, high, GRID)
        spacing = (high - low) / (GRID - 1) / centre
        noises = np.geomspace(max(finest_ratio, spacing), LARGEST_NOISE, NOISES)
        weights = posterior(observations, grid, noises)
        by_capacity = weights.sum(axis=(1, 2))
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
        low_fps=float(low),
        high_fps=float(high),
        noise_ratio=float(weights.sum(axis=(0, 1)) @ noises),
        queue_frames=float(weights.sum(axis=(0, 2)) @ QUEUES),
    )


def posterior(observations: Sequence[Observation], capacities: Floats, noises: Floats) -> Floats:
    """Return the probability of each (capacity, queue, noise), shape (capacity, queue, noise), summing to 1.

    Prior: flat in the capacity, flat in the logarithm of the noise, falling with the queue beyond 256 frames.
    """
    log_weights = np.broadcast_to(
        -np.log1p(QUEUES / 256.0)[None, :, None], (len(capacities), len(QUEUES), len(noises))
    ).copy()
    for each in observations:
        served = capacities * each.duration_s
        expected = (served[:, None] + QUEUES[None, :])[:, :, None]
        spread = served[:, None, None] * noises[None, None, :] + 1.0
        short = (expected - each.forwarded_frames) / spread
        depth = (expected - each.forwarded_frames) / (OUTLIER_DEPTH * expected)
        if each.saturated:
            calm = np.exp(-0.5 * short**2) / (spread * np.sqrt(2 * np.pi))
            missed = np.where((depth > 0) & (depth < 1), 1 / (OUTLIER_DEPTH * expected), 0.0)
        else:
            calm = ndtr(short)
            missed = np.clip(depth, 0.0, 1.0)
        log_weights += np.log((1 - OUTLIER_SHARE) * calm + OUTLIER_SHARE * missed + 1e-300)
    weights = np.exp(log_weights - log_weights.max())
    return weights / weights.sum()
