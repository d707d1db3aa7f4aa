"""Count the injected host stalls that are in the stall log: a program of higher priority occupies a CPU for 2 ms.

Usage: python -m benches.truth.stalls [STALLS_PER_CPU]; 100 take about a minute. Needs root and two CPUs. The stalls
have random times. One CPU is that of the sender, the other that of the receiver and of the kernel thread that receives
its frames. A stall counts as marked if a log entry of that end overlaps it and covers at least half of it. The bench
also counts the trials that report that they were perturbed.
"""

import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from benches.harness.arguments import Argument, arguments
from benches.harness.lab import PAIR, load_bench
from benches.harness.programs import running
from benches.harness.table import Table

from iolab.results.packets import LoadRecord
from iolab.run.hosts.host_agent import open_agent
from iolab.trial.packets.load import LoadBench
from iolab.trial.search.types import LoadTrial

ARGUMENTS = (Argument("stalls", 100, "at each end and rate"),)
STALL_NS = 2_000_000
TRIAL_NS = 1_000_000_000
STALLS_PER_TRIAL = 4
RATES_FPS = (10_000, 100_000, 300_000)
HOG = """
import os, sys, time
cpu, length_ns = map(int, sys.argv[1:3])
gaps_ns = [int(word) for word in sys.argv[3:]]
os.sched_setaffinity(0, {cpu})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(90))
print("ready", flush=True)
sys.stdin.readline()
for gap_ns in gaps_ns:
    time.sleep(gap_ns / 1e9)  # the schedule of the stalls
    begin = time.monotonic_ns()
    while time.monotonic_ns() < begin + length_ns:
        pass
    print(begin, time.monotonic_ns(), flush=True)
"""
"""A program that occupies a CPU, and prints the start and end times on the clock of the stall log."""


@dataclass(frozen=True, slots=True)
class Burnt:
    """An injected stall."""

    begin_ns: int
    """Begin [ns, monotonic]."""
    end_ns: int
    """End [ns, monotonic]."""


def injected(bench: LoadBench, cpu: int, fps: float, chance: random.Random) -> tuple[LoadRecord, list[Burnt]]:
    """Run one trial with stalls at random times on a CPU; return the stalls within the trial."""
    spread_ns = TRIAL_NS // STALLS_PER_TRIAL
    gaps = [str(chance.randrange(spread_ns // 10, spread_ns * 9 // 10)) for _ in range(STALLS_PER_TRIAL)]
    argv = [sys.executable, "-c", HOG, str(cpu), str(STALL_NS), *gaps]
    with running(*argv, killed=False) as hog:
        hog.go()
        record = bench.run(LoadTrial(intended_fps=fps, duration_ns=TRIAL_NS), "bench")
        burnt = [Burnt(*map(int, line.split())) for line in hog.rest().splitlines()]
    sent = bench.answers[-1]["senders"][0]
    return record, [one for one in burnt if sent["begin_ns"] < one.begin_ns and one.end_ns < sent["end_ns"]]


def is_marked(burnt: Burnt, stalls: list[dict[str, int]]) -> bool:
    """Return whether a log entry covers a stall."""
    overlapping = (one for one in stalls if one["begin_ns"] < burnt.end_ns and one["end_ns"] > burnt.begin_ns)
    return any(one["late_ns"] >= STALL_NS // 2 for one in overlapping)


def counts(bench: LoadBench, end: str, fps: float, stalls: int) -> Iterator[tuple[int, int, int]]:
    """Yield the numbers of injected and marked stalls and whether the trial is perturbed, trial by trial."""
    placement = bench.site.placement
    assert placement is not None
    (cpu,) = (placement.senders if end == "senders" else placement.receivers).values()
    chance, done = random.Random(fps), 0
    while done < stalls:
        record, burnt = injected(bench, cpu, fps, chance)
        log = bench.answers[-1][end][0]["stalls"]
        done += STALLS_PER_TRIAL
        yield len(burnt), sum(is_marked(one, log) for one in burnt), bool(record.result.perturbations)


def main() -> None:
    """Print a line for each end and rate."""
    stalls = arguments(__doc__, *ARGUMENTS).stalls
    with open_agent() as agent, load_bench(agent, PAIR) as bench:
        table = Table("<stalls of 2 ms at the", "frames/s", "injected", "marked", "perturbed")
        for end in ("senders", "receivers"):
            for fps in RATES_FPS:
                found = list(counts(bench, end, fps, stalls))
                all_of, marked, perturbed = (sum(row[at] for row in found) for at in range(3))
                table.row(end, fps, all_of, f"{marked / all_of:.1%}", f"{perturbed / len(found):.1%}")


if __name__ == "__main__":
    main()
