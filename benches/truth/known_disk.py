"""Measure reads and writes on disks of known speed, set by QEMU's throttle to 40 MiB/s or 500 operations/s.

Usage: python -m benches.truth.known_disk [ROUNDS [SECONDS [guest]]]. Needs root, fio, qemu-storage-daemon and a loop
device; with `guest` the disk is a guest's, which needs QEMU and the image linux. Prints each figure with the set speed,
the verdict and the warnings, then the median error of each case. A round with a warning of iolab that other programs
used the CPUs or the disk below is excluded, because its disk was slower than its throttle. The exit status is 1 if a
median exceeds the bound, or every round of a case was excluded.
"""

import math
import statistics
import sys
from dataclasses import dataclass

from benches.harness.arguments import Argument, arguments
from benches.harness.lab import standing

from iolab.experiment.model.measures import DiskMeasure
from iolab.results.metric import Dimensions
from iolab.run.hosts.host_agent import open_agent
from iolab.trial.disk.measure import conclude_disk, measure_disk
from iolab.trial.lab_access import Site

ARGUMENTS = (
    Argument("rounds", 3, "trials of each disk"),
    Argument("seconds", 15, "length of a trial"),
    Argument("machine", "host", "what has the disk", allowed=("host", "guest")),
)
BOUND_PERCENT = 2.0
MIB = 1 << 20


@dataclass(frozen=True)
class Case:
    """A disk's limit, and the parameters of fio."""

    limit: str
    access: str
    metric: str
    speed: float
    block_bytes: int

    def lab(self, seconds: int, machine: str) -> str:
        """Return the experiment with this disk, whose volume is a file of the local host."""
        return f"""
title: A disk of known speed
lab:
  machines: {{a: {{{machine}throttle: {{{self.limit}}}}}]}}}}
  volumes: {{v: {{size: 1G}}}}
measure:
  it: {{kind: disk, program: fio, on: a, size: 896M,
        fio: {{blocks: [{self.block_bytes}], depths: [8], access: [{self.access}], each: {seconds}s}}}}
"""


DISTURBED = frozenset({"cpus-taken", "disk-used"})
"""Warnings that make a round useless for judging the instrument."""
MACHINES = {
    "host": "kind: netns, disks: [{volume: v, via: user, ",
    "guest": "kind: vm, accel: tcg, memory: 512M, disks: [{volume: v, ",
}
"""The machine with the disk: through the user-space export, or as a disk of QEMU."""
CASES = tuple(
    Case(limit, access, metric, speed, block_bytes)
    for limit, metric, speed, block_bytes in (
        ("bytes: 40M", "disk_bytes_per_s", 40.0 * MIB, 65536),
        ("operations: 500", "disk_operations_per_s", 500.0, 4096),
    )
    for access in ("read", "write")
)


def measured(case: Case, site: Site, measure: DiskMeasure, rounds: int) -> list[float]:
    """Return the deviation of each calm round from the disk's speed [%]; print all with verdicts."""
    errors = []
    for _ in range(rounds):
        done = conclude_disk(measure_disk(site, measure), {})
        about = Dimensions(part=case.access, block_bytes=case.block_bytes, depth=8)
        found = done.metrics.get(case.metric, about)
        assert found is not None
        error = 100 * (found.value / case.speed - 1)
        limit = "none" if done.verdict is None else done.verdict.limit.value
        codes = {one.code for one in done.warnings}
        marks = ", ".join(sorted(codes)) or "no warning"
        print(f"{case.limit}, {case.access}: {error:+.2f} %, verdict {limit}, {marks}", flush=True)
        if not codes & DISTURBED:
            errors.append(error)
    return errors


def main() -> int:
    """Measure every disk and print the median error of each."""
    asked, worst = arguments(__doc__, *ARGUMENTS), 0.0
    with open_agent() as agent:
        for case in CASES:
            text = case.lab(asked.seconds, MACHINES[asked.machine])
            with standing(agent, text, DiskMeasure) as (site, measure):
                calm = measured(case, site, measure, asked.rounds)
            error = statistics.median(calm) if calm else math.inf
            worst = max(worst, abs(error))
            over = f"{len(calm)} of {asked.rounds} rounds (bound {BOUND_PERCENT:.0f} %)"
            print(f"{case.limit}, {case.access}: median {error:+.2f} % over {over}", flush=True)
    return int(worst > BOUND_PERCENT)


if __name__ == "__main__":
    sys.exit(main())
