"""Count the disk trials with a complete ledger: every difference between layers has a cause.

Usage: python -m benches.truth.ledger local|iscsi|nvme [BLOCKS [SEED]]. Needs root, fio and loop devices; iscsi also
needs tgt and qemu-block-extra; nvme needs QEMU and the image linux. A block has four short trials (for nvme two): of
fio, on a bare disk and on ext4, and on ext4 also of thput-fsys and bonnie++. Prints the layers of the trials, each
ledger with an unexplained difference, and the share of ledgers without an unexplained difference; the exit status is 1
below 99 %.
"""

import collections
import sys
import tempfile
from pathlib import Path
from typing import Any

from benches.harness.arguments import Argument, arguments
from benches.harness.run import ran, trials

ARGUMENTS = (
    Argument("protocol", "local", "how the disk is reached", allowed=("local", "iscsi", "nvme")),
    Argument("blocks", 25, "blocks of each experiment"),
    Argument("seed", 1, "of the order"),
)
BOUND = 0.99
SHORT = "{each: 200ms, blocks: [4K, 64K], depths: [1, 8], access: [read, write, mixed]}"
FIO = f"""
measure:
  fio: {{kind: disk, program: fio, on: pc2, size: 32M, fio: {SHORT}}}
"""
FILES = """  own: {kind: disk, program: thput-fsys, on: pc2, size: 8M, profile: honest}
  warm: {kind: disk, program: bonnie++, on: pc2, size: 8M, profile: legacy-2006, files: 1024}
"""
LOCAL = """
title: Ledgers of a local disk
lab:
  machines: {pc2: {kind: netns, disks: [{volume: counted%s}]}}
  volumes: {counted: {size: 128M}}
"""
ISCSI = """
title: Ledgers of a disk over iSCSI
lab:
  machines: {pc2: {kind: netns, disks: [{volume: counted, via: user%s}]}, pc3: {kind: netns}}
  links: {san: {ends: [pc2.eth0, pc3.eth0]}}
  volumes: {counted: {on: pc3, size: 128M, export: iscsi}}
"""
NVME = f"""
title: Ledgers of a disk over NVMe/TCP
lab:
  machines:
    target: {{kind: vm, accel: tcg, memory: 512M}}
    pc2: {{kind: vm, accel: tcg, memory: 512M, disks: [{{volume: counted, via: kernel}}]}}
  links: {{san: {{ends: [target.eth0, pc2.eth0]}}}}
  volumes: {{counted: {{on: target, size: 64M, export: nvme-tcp}}}}
measure:
  fio: {{kind: disk, program: fio, on: pc2, size: 16M, fio: {SHORT}}}
  long: {{kind: disk, program: fio, on: pc2, size: 16M, fio: {{each: 300ms, blocks: [1M], depths: [8]}}}}
"""


def experiments(kind: str) -> tuple[str, ...]:
    """Return the experiments of a kind: on a bare disk, and on one with a file system."""
    if kind == "nvme":
        return (NVME,)
    lab = ISCSI if kind == "iscsi" else LOCAL
    return (lab % "" + FIO, lab % ", fs: ext4" + FIO + FILES)


def open_steps(trial: dict[str, Any]) -> list[str]:
    """Return each unexplained difference between a trial's layers."""
    return [
        f"{one['direction']}: {one['below']} less {one['above']} is {one['more_bytes']} bytes"
        for one in trial["warnings"]
        if one["code"] == "ledger-open"
    ]


def layers_of(trial: dict[str, Any]) -> str:
    """Return the layers with counters."""
    parts = [
        one["dimensions"]["part"].split(",")[0]
        for one in trial["metrics"]
        if one["name"] == "disk_layer_bytes"
    ]
    return " > ".join(dict.fromkeys(parts))


def main() -> int:
    """Run, count and print."""
    asked = arguments(__doc__, *ARGUMENTS)
    every: list[dict[str, Any]] = []
    for text in experiments(asked.protocol):
        with tempfile.TemporaryDirectory() as parent:
            every += trials(ran(f"{text}blocks: {asked.blocks}\nseed: {asked.seed}\n", Path(parent)))
    done = [one for one in every if one["status"] == "ok"]
    for failed in (one for one in every if one["status"] != "ok"):
        print(f"{failed['measure']}: {failed['status']}: {failed.get('reason')}")
    seen = collections.Counter(layers_of(one) for one in done)
    for layers, count in seen.items():
        print(f"{layers}: {count} trials")
    opened = [one for one in done if open_steps(one)]
    for one in opened:
        print(f"{one['measure']}: {'; '.join(open_steps(one))}")
    share = 1 - len(opened) / len(done) if done else 0.0
    print(
        f"{asked.protocol}: {len(done) - len(opened)} of {len(done)} ledgers close, {share:.1%} (bound {BOUND:.0%})"
    )
    return 0 if share >= BOUND else 1


if __name__ == "__main__":
    sys.exit(main())
