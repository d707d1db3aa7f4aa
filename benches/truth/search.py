"""Simulate the load searches: trials, simulated seconds, error and spread per strategy.

Usage: python -m benches.truth.search [seeds]; 20 seeds take about a minute. Uses no network and no clock: the seconds
are the simulated time of the trials, with an overhead of 50 ms each. The goal is the same for all: loss of 1e-4, width
of 1 %. Trials last half a second or as long as the frames needed for a decision, whichever is longer; mlr decides on 5
s of trials per load.
"""

import math
import statistics

from benches.harness.arguments import Argument, arguments
from benches.harness.table import Table

from iolab.results.search import Found, Goal
from iolab.trial.search.bisect import Bisect
from iolab.trial.search.evidence import run
from iolab.trial.search.fast import Fast
from iolab.trial.search.mlr import Mlr
from iolab.trial.search.simulated import Bench, Device
from iolab.trial.search.types import Strategy
from iolab.units import NS_PER_S

ARGUMENTS = (Argument("seeds", 20, "searches of each strategy on each device"),)
LOSS_RATIO = 1e-4
LINE_FPS = 1.488e6
KERNEL = 612_300.0

DEVICES = {
    "20 kpps": Device(capacity_fps=20_000),
    "100 kpps": Device(capacity_fps=100_000),
    "300 kpps": Device(capacity_fps=300_000),
    "612.3 kpps": Device(capacity_fps=KERNEL),
    ", queue 1000": Device(capacity_fps=KERNEL, queue_frames=1000),
    ", noise 1 %": Device(capacity_fps=KERNEL, noise_ratio=0.01),
    ", drift 0.1 %/s": Device(capacity_fps=KERNEL, drift_ratio_per_s=0.001),
    ", 5 ms stalls 0.2/s": Device(capacity_fps=KERNEL, stalls_per_s=0.2),
    ", stalls and noise": Device(capacity_fps=KERNEL, stalls_per_s=0.2, noise_ratio=0.01),
    ", livelock": Device(capacity_fps=KERNEL, livelock=1.0),
    ", early loss": Device(capacity_fps=KERNEL, onset_ratio=0.02),
}


def main() -> None:
    """Print the table."""
    seeds = arguments(__doc__, *ARGUMENTS).seeds
    print(f"{seeds} seeds; seconds simulated; errors against the rate that loses {LOSS_RATIO:g} without end")
    heads = ("trials", "seconds", "longest", "error", "worst", "CV", "in interval", "complete")
    table = Table("<device             ", "<search", *heads, least=8)
    for name, device in DEVICES.items():
        for strategy in strategies(device):
            table.row(name, type(strategy).__name__.lower(), *row(strategy, device, seeds))


def strategies(device: Device) -> list[Strategy]:
    """Return the searches, all with the same goal."""
    goal = Goal(
        loss_ratio=LOSS_RATIO,
        relative_width=0.01,
        min_fps=9001.0,
        max_fps=LINE_FPS,
        trial_ns=round(max(0.5, 10.1 / LOSS_RATIO / device.capacity_fps) * NS_PER_S),
    )
    return [Bisect(goal), Mlr(goal=goal), Fast(goal)]


def row(strategy: Strategy, device: Device, seeds: int) -> tuple[str, ...]:
    """Return the figures of a table row."""
    found = [search(strategy, device, seed) for seed in range(seeds)]
    truth = true_rate(device)
    rates = [each.robust_fps or 0.0 for each in found]
    errors = [rate / truth - 1 for rate in rates]
    held = [
        each.interval_fps is not None and each.interval_fps[0] <= truth <= each.interval_fps[1]
        for each in found
    ]
    spent_s = [each.spent_ns / NS_PER_S for each in found]
    return (
        f"{statistics.median(each.trials for each in found):.0f}",
        f"{statistics.median(spent_s):.2f}",
        f"{max(spent_s):.2f}",
        f"{statistics.fmean(errors):+.3%}",
        f"{max(map(abs, errors)):.3%}",
        f"{statistics.pstdev(rates) / statistics.fmean(rates):.3%}",
        f"{sum(held) / seeds:.0%}",
        f"{sum(each.complete for each in found) / seeds:.0%}",
    )


def search(strategy: Strategy, device: Device, seed: int) -> Found:
    """Return the result of one search on a new device."""
    return strategy.conclude(list(run(strategy.propose, Bench(device, seed).measure)))


def true_rate(device: Device) -> float:
    """Return the load that loses the ratio of the goal [frames/s]."""
    if device.onset_ratio:
        return device.capacity_fps * (1 + device.onset_ratio * math.log10(LOSS_RATIO / 0.01))
    return device.rate_fps(LOSS_RATIO)


if __name__ == "__main__":
    main()
