"""fio through iolab against plain fio on one file system, in alternation; and the cost of a trial beside it.

Usage: python benches/disk.py [ROUNDS]. Needs root, fio and a loop device. Prints each ratio, and the medians.
"""

import json
import statistics
import subprocess
import sys
import time

from iolab.experiment import Resolver, cells, parse
from iolab.experiment.measures import DiskMeasure
from iolab.lab.compose import compose
from iolab.lab.topology import NAME_PREFIX, make_topology
from iolab.lab.volumes.places import mount_of
from iolab.record.dimensions import Dimensions
from iolab.run.agents import Agents
from iolab.run.hosts.host_agent import open_agent
from iolab.run.lab.standing_lab import StandingLab
from iolab.trial.disk.measure import measure_disk
from iolab.trial.lab_access import Site

SECONDS = 2
LAB = f"""
title: Against fio
lab:
  machines: {{a: {{kind: netns, disks: [{{volume: plain, fs: ext4}}]}}}}
  volumes: {{plain: {{size: 512M}}}}
measure:
  it: {{kind: disk, program: fio, on: a, size: 128M,
        fio: {{blocks: [4K], depths: [32], access: [read], each: {SECONDS}s}}}}
"""
ABOUT = Dimensions(part="read", block_bytes=4096, depth=32)


def plain_per_s(path: str) -> float:
    """Return what fio, started by hand, read of the file per second."""
    words = (
        "fio", "--name=plain", f"--filename={path}", "--ioengine=io_uring", "--direct=1", "--rw=randread", "--bs=4096",
        "--iodepth=32", "--size=128M", "--time_based", f"--runtime={SECONDS}", "--norandommap", "--output-format=json",
    )  # fmt: skip
    done = subprocess.run(words, capture_output=True, check=True, text=True)
    return float(json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]["read"]["iops"])


def main() -> None:
    """Measure pairs in alternating order and print their ratios."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 11
    experiment = parse(LAB, "bench")
    setup = Resolver(experiment).setup(next(cells(experiment)))
    measure = setup.measures["it"]
    assert isinstance(measure, DiskMeasure)
    ratios, beside_s = [], []
    with open_agent() as agent:
        lab = StandingLab(Agents(agent), lambda _: None)
        lab.change_to(compose(setup.lab))
        site = Site(agent=agent, lab=setup.lab, topology=make_topology(setup.lab))
        path = f"{mount_of('plain', NAME_PREFIX)}/by-hand"
        fill = ("dd", "if=/dev/urandom", f"of={path}", "bs=1M", "count=128", "conv=fsync", "status=none")
        subprocess.run(fill, check=True)
        for number in range(rounds):
            rates = {}
            for name in ("iolab", "plain") if number % 2 else ("plain", "iolab"):
                if name == "plain":
                    rates[name] = plain_per_s(path)
                    continue
                begin = time.monotonic()
                done = measure_disk(site, measure)
                programs_s = sum(one.duration_ns for one in done.commands) / 1e9
                beside_s.append(time.monotonic() - begin - programs_s)
                found = done.metrics.get("disk_operations_per_s", ABOUT)
                assert found is not None
                rates[name] = found.value
            ratios.append(rates["iolab"] / rates["plain"])
            print(
                f"iolab {rates['iolab']:.0f}, plain {rates['plain']:.0f} reads/s, ratio {ratios[-1]:.4f}",
                flush=True,
            )
        lab.take_down()
    print(f"median ratio {statistics.median(ratios):.4f} over {rounds} pairs (bounds 0.98 to 1.02)")
    print(
        f"beside fio: median {statistics.median(beside_s):.3f} s per trial, filling 128 MiB included (bound 0.5 s)"
    )


if __name__ == "__main__":
    main()
