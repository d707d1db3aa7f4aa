"""Devices and goals shared by the tests of the load searches, and the number of seeds."""

import os
from collections.abc import Sequence

from iolab.results.search import Found, Goal, LoadResult
from iolab.trial.search.evidence import run
from iolab.trial.search.simulated import Bench, Device
from iolab.trial.search.types import Strategy
from iolab.units import NS_PER_S

SEEDS = int(os.environ.get("IOLAB_SEARCH_SEEDS", "40"))
"""Seeds per device; more for a long run."""

LINE_FPS = 1.488e6
"""1 Gbit/s in frames of 64 bytes."""

CAPACITY_FPS = 612_300.0
"""Capacity of a kernel forwarder on two virtual CPUs."""

CLEAN = Device(capacity_fps=CAPACITY_FPS)
NOISY = Device(capacity_fps=CAPACITY_FPS, noise_ratio=0.01)
STALLING = Device(capacity_fps=CAPACITY_FPS, stalls_per_s=0.2)


def goal_for(
    capacity_fps: float, *, width: float = 0.01, min_fps: float = 9001.0, limit_s: int = 600
) -> Goal:
    """Return a goal of 1e-4 whose full trials have enough frames to decide, and last half a second or more."""
    trial_s = max(0.5, 1.01e5 / capacity_fps)
    return Goal(
        loss_ratio=1e-4,
        relative_width=width,
        min_fps=min_fps,
        max_fps=LINE_FPS,
        trial_ns=round(trial_s * NS_PER_S),
        limit_ns=limit_s * NS_PER_S,
    )


def results_of(
    strategy: Strategy, device: Device, seed: int, before: Sequence[LoadResult] = ()
) -> list[LoadResult]:
    """Return all results of a search on a new device."""
    return list(run(strategy.propose, Bench(device, seed).measure, before))


def search(strategy: Strategy, device: Device, seed: int) -> Found:
    """Return the result of a search on a new device."""
    return strategy.conclude(results_of(strategy, device, seed))
