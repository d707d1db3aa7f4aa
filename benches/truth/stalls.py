"""How many stalls of the host are in the stall log: a program that runs before everything burns 2 ms at random times.

Usage: python -m benches.truth.stalls [STALLS_PER_CPU]; 100 take about a minute. Needs root and two CPUs. One CPU is
that of the sender, the other that of the receiver and of the kernel's thread that takes its frames in. A stall counts
as marked when a log entry of that end overlaps it and tells of at least half of it. Perturbed: the trial says that it
was.
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
"""It prints when it began and ended to burn, on the clock of the stall log."""


@dataclass(frozen=True, slots=True)
class Burnt:
    """One injected stall."""

    begin_ns: int
    """When it began [ns, monotonic]."""
    end_ns: int
    """When it ended [ns, monotonic]."""


def injected(bench: LoadBench, cpu: int, fps: float, chance: random.Random) -> tuple[LoadRecord, list[Burnt]]:
    """Run one trial with stalls at random times on a CPU; return those that lie within it."""
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
    """Return whether an entry of a log tells of a stall."""
    overlapping = (one for one in stalls if one["begin_ns"] < burnt.end_ns and one["end_ns"] > burnt.begin_ns)
    return any(one["late_ns"] >= STALL_NS // 2 for one in overlapping)


def counts(bench: LoadBench, end: str, fps: float, stalls: int) -> Iterator[tuple[int, int, int]]:
    """Yield injected, marked, and perturbed or not, trial by trial."""
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
