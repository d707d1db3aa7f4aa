"""Simulate the load searches with queues, bursts and slow generators: error and warnings.

Usage: python -m benches.truth.queues [seeds] [capacity ...]; one seed of one capacity takes about a minute on one CPU.
Uses no network and no clock. Each cell is the worst error of the measured rate over the seeds, relative to the nearer
of two rates: the rate that the device can sustain, and the load at which its loss equals the goal's loss ratio. After
the error, the cell has the number of results with each mark: `q` a queue absorbed the excess, `g` the generator or `l`
the line is the limit (a lower bound), `p` partial, `-` no rate. The last line counts rates with an error above 1 % and
without a mark; some such rates are expected if the noise exceeds the width.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from benches.harness.arguments import Argument, arguments
from benches.harness.table import Table
from benches.truth.search import search

from iolab.results.search import Found, Goal, StopReason
from iolab.trial.search.bisect import Bisect
from iolab.trial.search.fast import Fast
from iolab.trial.search.mlr import Mlr
from iolab.trial.search.simulated import Device
from iolab.trial.search.types import Strategy
from iolab.units import NS_PER_S

ARGUMENTS = (
    Argument("seeds", 1, "searches of each cell"),
    Argument("capacity", (30_000.0, 100_000.0, 1_000_000.0), "frames/s", float, several=True),
)
DEPTHS = (64, 1_000, 20_000, 100_000)
GOALS = (0.0, 1e-5, 1e-4, 1e-3, 1e-2)
FAST_FPS = 2e6
"""Rate of a generator that is not the limit, because it exceeds the line rate."""
LINE_FPS = 1.488e6
HOSTS: dict[str, dict[str, Any]] = {
    "calm": {},
    "noise 0.3 %": {"noise_ratio": 0.003},
    "5 ms stalls 0.2/s": {"stalls_per_s": 0.2},
    "50 ms stalls 1/s": {"stalls_per_s": 1.0, "stall_ns": 50_000_000, "sender_stalls_ratio": 1.0},
    "sends 0.1 % less": {"shortage_ratio": 0.001},
    "sends 5 % less": {"shortage_ratio": 0.05},
    "sends 50 % less": {"shortage_ratio": 0.5},
}
CEILINGS = (0.5, 0.95, 0.999)
"""Rates of a generator that is the limit, as ratios of the capacity."""
MARKS = {
    StopReason.GENERATOR: "g",
    StopReason.LINE: "l",
    StopReason.NARROW: "",
    StopReason.NOTHING_PASSES: "-",
}


def main() -> None:
    """Print the table."""
    asked, wrong, total = arguments(__doc__, *ARGUMENTS), 0, 0
    heads = ("capacity", "<device       ", "<host             ", "<search")
    table = Table(*heads, *(f"{goal:>12g}" for goal in GOALS))
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        rows = [row for capacity in asked.capacity for row in cases(capacity)]
        jobs = [(device, name, asked.seeds) for *_, device in rows for name in ("bisect", "mlr", "fast")]
        found = pool.map(judge, jobs)
        for capacity, depth, host, _ in rows:
            for name in ("bisect", "mlr", "fast"):
                cells, bad = next(found)
                wrong, total = wrong + bad, total + len(GOALS) * asked.seeds
                table.row(f"{capacity:.0f}", depth, host, name, *cells)
    print(f"{wrong} of {total} rates are off by more than 1 % and not marked")


def cases(capacity_fps: float) -> Iterator[tuple[float, str, str, Device]]:
    """Yield capacity, device name, host name, and the device."""
    shapes = {"nothing waits": (0, 0)}
    shapes |= {f"queue {depth}": (depth, 0) for depth in DEPTHS}
    shapes |= {f"burst {depth}": (0, depth) for depth in DEPTHS}
    shapes |= {f"both {depth}": (depth, depth) for depth in DEPTHS}
    for shape, (queue, burst) in shapes.items():
        hosts = {host: {"generator_fps": FAST_FPS, **keys} for host, keys in HOSTS.items()}
        hosts |= {f"sends {share:.1%} of it": {"generator_fps": share * capacity_fps} for share in CEILINGS}
        for host, keys in hosts.items():
            device = Device(capacity_fps=capacity_fps, queue_frames=queue, burst_frames=burst, **keys)
            yield capacity_fps, shape, host, device


def judge(job: tuple[Device, str, int]) -> tuple[list[str], int]:
    """Return a cell for each goal, and the number of wrong rates without a warning."""
    device, name, seeds = job
    cells, wrong = [], 0
    for loss_ratio in GOALS:
        if name == "fast" and not loss_ratio:
            cells.append(f"{'':>12}")
            continue
        worst, marks = 0.0, ""
        for seed in range(seeds):
            found = search(strategy_of(name, loss_ratio), device, seed)
            off = error(found, device, loss_ratio)
            mark = "q" if found.taken_up else MARKS.get(found.reason, "p")
            wrong += abs(off) > 0.01 and not mark
            marks += mark
            worst = max(worst, off, key=abs)
        shown = "".join(f"{mark}{marks.count(mark)}" for mark in sorted(set(marks)))
        cells.append(f"{worst:+8.2%}{shown:>4}")
    return cells, wrong


def strategy_of(name: str, loss_ratio: float) -> Strategy:
    """Return a search with trials of one second."""
    goal = Goal(
        loss_ratio=loss_ratio, relative_width=0.01, min_fps=1000.0, max_fps=LINE_FPS, trial_ns=NS_PER_S
    )
    if name == "bisect":
        return Bisect(goal, searches=1)
    return Mlr(goal=goal) if name == "mlr" else Fast(goal)


def error(found: Found, device: Device, loss_ratio: float) -> float:
    """Return the relative error of the rate; -1 if there is none."""
    if found.robust_fps is None:
        return -1.0
    most = min(LINE_FPS * (1 - device.shortage_ratio), device.generator_fps)
    low, high = (min(fps, most) for fps in (device.capacity_fps, device.rate_fps(loss_ratio)))
    return found.robust_fps / min(max(found.robust_fps, low), high) - 1


if __name__ == "__main__":
    main()
