"""How many stalls of the host are in the stall log: a program that runs before everything burns 2 ms at random times.

Usage: python -m benches.truth.stalls [STALLS_PER_CPU]; 100 take about a minute. Needs root and two CPUs. One CPU is
that of the sender, the other that of the receiver and of the kernel's thread that takes its frames in. A stall counts
as marked when a log entry of that end overlaps it and tells of at least half of it. Perturbed: the trial says that it
was.
"""

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from benches.harness.standing_lab import PAIR, load_bench

from iolab.results.load import LoadRecord
from iolab.run.hosts.host_agent import open_agent
from iolab.trial.packets.load import LoadBench
from iolab.trial.search.types import LoadTrial

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
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as hog:
        assert hog.stdin is not None
        assert hog.stdout is not None
        hog.stdout.readline()
        hog.stdin.write("go\n")
        hog.stdin.flush()
        record = bench.run(LoadTrial(intended_fps=fps, duration_ns=TRIAL_NS), "bench")
        burnt = [Burnt(*map(int, line.split())) for line in hog.stdout]
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
    stalls = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    with open_agent() as agent, load_bench(agent, PAIR, os.cpu_count() or 1) as bench:
        print(f"{'stalls of 2 ms at the':24}{'frames/s':>10}{'injected':>10}{'marked':>10}{'perturbed':>12}")
        for end in ("senders", "receivers"):
            for fps in RATES_FPS:
                found = list(counts(bench, end, fps, stalls))
                all_of, marked, perturbed = (sum(row[at] for row in found) for at in range(3))
                share = f"{marked / all_of:10.1%}{perturbed / len(found):12.1%}"
                print(f"{end:24}{fps:>10}{all_of:>10}{share}", flush=True)


if __name__ == "__main__":
    main()
