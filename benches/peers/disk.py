"""Compare fio through iolab with plain fio on the same blocks of a disk, in alternation; measure a trial's overhead.

Usage: python -m benches.peers.disk [BLOCKS [fs | steady]]. Needs root, fio and a loop device. In each block, plain fio,
iolab, iolab and plain fio read the first 128 MiB of one volume for a second each. There are many short blocks, because
a disk drifts. The figures of a shared disk still vary: for such a disk, mount a file system whose device is in memory
on /var/tmp, or use `steady`, a disk behind QEMU's throttle (which needs qemu-storage-daemon). With `fs` each program
has a file on one ext4, which iolab fills in every trial. Prints each block, the ratio with its interval, and the time
of a trial without its programs.
"""

import json
import os
import statistics
import time
from pathlib import Path

from benches.harness.arguments import Argument, arguments
from benches.harness.lab import standing
from benches.harness.pairs import Block, agreement
from benches.harness.programs import output

from iolab.experiment.model.measures import DiskMeasure
from iolab.lab.volumes.places import door_of, mount_of, node_of
from iolab.results.metric import Dimensions
from iolab.run.hosts.host_agent import open_agent
from iolab.trial.disk.fio_jobs import RAMP_MS
from iolab.trial.disk.measure import conclude_disk, measure_disk
from iolab.trial.lab_access import Site

SECONDS = 1
LAB = f"""
title: Against fio
lab:
  machines: {{a: {{kind: netns, disks: [DISK]}}}}
  volumes: {{plain: {{size: 512M}}}}
measure:
  it: {{kind: disk, program: fio, on: a, size: 128M,
        fio: {{blocks: [4K], depths: [32], access: [read], each: {SECONDS}s}}}}
"""
DISKS = {
    "": "{volume: plain}",
    "fs": "{volume: plain, fs: ext4}",
    "steady": "{volume: plain, via: user, throttle: {operations: 4000}}",
}
ARGUMENTS = (
    Argument("blocks", 10, "blocks of four runs"),
    Argument("disk", "", "the disk, where it is not a bare one", allowed=("fs", "steady")),
)
ABOUT = Dimensions(part="read", block_bytes=4096, depth=32)


def plain_per_s(path: str, door: str | None) -> float:
    """Return operations per second of plain fio on the file or device.

    `door`: the FUSE file below it, whose blocks the kernel caches. As in iolab, these blocks are dropped from the cache
    first, and no block is read twice.
    """
    if door is not None:
        with Path(door).open("rb") as kept:
            os.posix_fadvise(kept.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    words = (
        "fio", "--name=plain", f"--filename={path}", "--ioengine=io_uring", "--direct=1", "--rw=randread", "--bs=4096",
        "--iodepth=32", "--size=128M", "--time_based", f"--runtime={SECONDS}", "--readonly",
        f"--norandommap={int(door is None)}", "--output-format=json",
        # As in iolab: QEMU's throttle first lets a credit through, which no figure includes.
        *(() if door is None else (f"--ramp_time={RAMP_MS}ms",)),
    )  # fmt: skip
    said = output(*words)
    return float(json.loads(said[said.index("{") :])["jobs"][0]["read"]["iops"])


def iolab_per_s(site: Site, measure: DiskMeasure) -> tuple[float, float]:
    """Return operations per second of a trial, and its overhead [s]."""
    begin = time.monotonic()
    done = conclude_disk(measure_disk(site, measure), {})
    beside_s = time.monotonic() - begin - sum(one.duration_ns for one in done.commands) / 1e9
    found = done.metrics.get("disk_operations_per_s", ABOUT)
    assert found is not None
    return found.value, beside_s


def main() -> None:
    """Measure blocks and print their ratios."""
    asked = arguments(__doc__, *ARGUMENTS)
    done: list[Block] = []
    beside: list[float] = []
    text = LAB.replace("DISK", DISKS[asked.disk])
    with open_agent() as agent, standing(agent, text, DiskMeasure) as (site, measure):
        path = node_of("plain")
        door = door_of("plain") if asked.disk == "steady" else None
        if asked.disk == "fs":
            path = f"{mount_of('plain')}/by-hand"
            output("dd", "if=/dev/urandom", f"of={path}", "bs=1M", "count=128", "conv=fsync", "status=none")
        for _ in range(asked.blocks):
            first = plain_per_s(path, door)
            ours, again = iolab_per_s(site, measure), iolab_per_s(site, measure)
            done.append(Block(first, ours[0], again[0], plain_per_s(path, door)))
            beside += [ours[1], again[1]]
            print(f"{done[-1]}: {done[-1].ratio:.4f}", flush=True)
    print(f"iolab by plain fio: {agreement(done)} (bounds 0.98 to 1.02)")
    print(f"beside the programs: median {statistics.median(beside):.3f} s per trial (bound 0.5 s)")


if __name__ == "__main__":
    main()
