"""Disks of known speed, measured: QEMU's throttle at 40 MiB/s and at 500 operations/s, read and written.

Usage: python -m benches.truth.known_disk [ROUNDS [SECONDS [guest]]]. Needs root, fio, qemu-storage-daemon and a loop
device; with `guest` the disk is a guest's, which needs QEMU and the image linux. Prints each figure beside the speed,
the verdict and the warnings, then the median error of each case. A round that iolab itself marks, because others had
the CPUs or the disk below, is left out: that disk was slower than its throttle. Exit status 1 where a median is beyond
the bound, or every round of a case was left out.
"""

import math
import statistics
import sys
from dataclasses import dataclass

from iolab.experiment import Resolver, cells, parse
from iolab.experiment.model.measures import DiskMeasure
from iolab.lab.compose import compose
from iolab.lab.topology import make_topology
from iolab.results.dimensions import Dimensions
from iolab.run.agents import Agents
from iolab.run.hosts.host_agent import open_agent
from iolab.run.lab.standing_lab import StandingLab
from iolab.trial.disk.measure import conclude_disk, measure_disk
from iolab.trial.lab_access import Site

BOUND_PERCENT = 2.0
MIB = 1 << 20


@dataclass(frozen=True)
class Case:
    """A disk's limit, and how fio meets it."""

    limit: str
    access: str
    metric: str
    speed: float
    block_bytes: int

    def lab(self, seconds: int, machine: str) -> str:
        """Return the experiment: this disk, whose volume is a file of this computer."""
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
"""Warnings by which a round shows nothing of the instrument."""
MACHINES = {
    "host": "kind: netns, disks: [{volume: v, via: user, ",
    "guest": "kind: vm, accel: tcg, memory: 512M, disks: [{volume: v, ",
}
"""What has the disk: behind the door in user space, or as a disk of QEMU's."""
CASES = tuple(
    Case(limit, access, metric, speed, block_bytes)
    for limit, metric, speed, block_bytes in (
        ("bytes: 40M", "disk_bytes_per_s", 40.0 * MIB, 65536),
        ("operations: 500", "disk_operations_per_s", 500.0, 4096),
    )
    for access in ("read", "write")
)


def measured(case: Case, lab: StandingLab, agents: Agents, text: str, rounds: int) -> list[float]:
    """Return by how much the figure of each calm round differs from the disk's speed [%]; print all with verdicts."""
    experiment = parse(text, "bench")
    setup = Resolver(experiment).setup(next(cells(experiment)))
    measure = setup.measures["it"]
    assert isinstance(measure, DiskMeasure)
    lab.change_to(compose(setup.lab))
    kernels = {kernel: agents.of(kernel) for kernel in agents}
    site = Site(agent=agents.here, lab=setup.lab, topology=make_topology(setup.lab), agents=kernels)
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
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    seconds = int(sys.argv[2]) if len(sys.argv) > 2 else 15
    where = sys.argv[3] if len(sys.argv) > 3 else "host"
    worst = 0.0
    with open_agent() as agent:
        agents = Agents(agent)
        lab = StandingLab(agents, lambda _: None)
        for case in CASES:
            text = case.lab(seconds, MACHINES[where])
            calm = measured(case, lab, agents, text, rounds)
            error = statistics.median(calm) if calm else math.inf
            worst = max(worst, abs(error))
            over = f"{len(calm)} of {rounds} rounds (bound {BOUND_PERCENT:.0f} %)"
            print(f"{case.limit}, {case.access}: median {error:+.2f} % over {over}", flush=True)
        lab.take_down()
    return int(worst > BOUND_PERCENT)


if __name__ == "__main__":
    sys.exit(main())
