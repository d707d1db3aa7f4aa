"""How many disk trials have a ledger that closes: every difference of its layers has a name.

Usage: PYTHONPATH=. python benches/ledger.py local|iscsi|nvme [BLOCKS [SEED]]. Needs root, fio and loop devices; iscsi
also tgt and qemu-block-extra; nvme QEMU and the image linux. A block has four trials, of nvme two: short ones of fio,
thput-fsys and bonnie++, on a bare disk and on ext4. Prints the layers that were seen, each ledger that is open, and the
share that closes; exit status 1 below 99 %.
"""

import collections
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.netns.runs import trials

IOLAB = Path(sys.executable).with_name("iolab")
BOUND = 0.99
SHORT = "{each: 200ms, blocks: [4K, 64K], depths: [1, 8], access: [read, write, mixed]}"
PROGRAMS = f"""
measure:
  fio: {{kind: disk, program: fio, on: pc2, size: 32M, fio: {SHORT}}}
  own: {{kind: disk, program: thput-fsys, on: pc2, size: 8M, profile: honest}}
  warm: {{kind: disk, program: bonnie++, on: pc2, size: 8M, profile: legacy-2006, files: 1024}}
"""
LOCAL = f"""
title: Ledgers of a local disk
lab:
  machines: {{pc2: {{kind: netns}}}}
  volumes: {{counted: {{size: 128M}}}}
{PROGRAMS}
factors:
  machines.pc2.disks: {{bare: [{{volume: counted}}], ext4: [{{volume: counted, fs: ext4}}]}}
"""
ISCSI = f"""
title: Ledgers of a disk over iSCSI
lab:
  machines: {{pc2: {{kind: netns}}, pc3: {{kind: netns}}}}
  links: {{san: {{ends: [pc2.eth0, pc3.eth0]}}}}
  volumes: {{counted: {{on: pc3, size: 128M, export: iscsi}}}}
{PROGRAMS}
factors:
  machines.pc2.disks:
    bare: [{{volume: counted, via: user}}]
    ext4: [{{volume: counted, via: user, fs: ext4}}]
"""
NVME = f"""
title: Ledgers of a disk over NVMe/TCP
lab:
  machines: {{target: {{kind: vm, accel: tcg, memory: 512M}}, pc2: {{kind: vm, accel: tcg, memory: 512M}}}}
  links: {{san: {{ends: [target.eth0, pc2.eth0]}}}}
  volumes: {{counted: {{on: target, size: 64M, export: nvme-tcp}}}}
measure:
  fio: {{kind: disk, program: fio, on: pc2, size: 16M, fio: {SHORT}}}
  long: {{kind: disk, program: fio, on: pc2, size: 16M, fio: {{each: 300ms, blocks: [1M], depths: [8]}}}}
factors:
  machines.pc2.disks: {{bare: [{{volume: counted, via: kernel}}]}}
"""
KINDS = {"local": LOCAL, "iscsi": ISCSI, "nvme": NVME}


def open_steps(trial: dict[str, Any]) -> list[str]:
    """Return each difference of a trial's layers that has no name."""
    return [
        f"{one['direction']}: {one['below']} less {one['above']} is {one['more_bytes']} bytes"
        for one in trial["warnings"]
        if one["code"] == "ledger-open"
    ]


def layers_of(trial: dict[str, Any]) -> str:
    """Return the layers that were counted."""
    parts = [
        one["dimensions"]["part"].split(",")[0]
        for one in trial["metrics"]
        if one["name"] == "disk_layer_bytes"
    ]
    return " > ".join(dict.fromkeys(parts))


def main() -> int:
    """Run, count and print."""
    kind = sys.argv[1] if len(sys.argv) > 1 else "local"
    blocks, seed = (sys.argv[2:] + ["25", "1"][len(sys.argv[2:]) :])[:2]
    with tempfile.TemporaryDirectory() as parent:
        file = Path(parent) / "ledger.yaml"
        file.write_text(f"{KINDS[kind]}blocks: {blocks}\nseed: {seed}\n")
        subprocess.run([IOLAB, "run", file, "-o", parent], check=False, stdout=subprocess.DEVNULL)
        (stored,) = Path(parent).glob("*/trials.jsonl")
        every = trials(stored.parent)
    done = [one for one in every if one["status"] == "ok"]
    for failed in (one for one in every if one["status"] != "ok"):
        print(f"{failed['measure']}: {failed['status']}: {failed.get('reason')}")
    seen = collections.Counter(layers_of(one) for one in done)
    for layers, count in seen.items():
        print(f"{layers}: {count} trials")
    opened = [one for one in done if open_steps(one)]
    for one in opened:
        print(f"{one['measure']}, {one['cell']['machines.pc2.disks']}: {'; '.join(open_steps(one))}")
    share = 1 - len(opened) / len(done) if done else 0.0
    print(f"{kind}: {len(done) - len(opened)} of {len(done)} ledgers close, {share:.1%} (bound {BOUND:.0%})")
    return 0 if share >= BOUND else 1


if __name__ == "__main__":
    sys.exit(main())
