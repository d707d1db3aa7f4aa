"""Check with random labs on logical volumes of a host reached by ssh that no byte changes without permission.

Usage: python -m benches.faults.existing_lvm [LABS [SEED]]. Needs root, QEMU and the image host:fdisk,lvm2 (iolab
image build host:fdisk,lvm2); about 20 s per lab.

The host is a guest with its own kernel, a real sshd and lvm2. The disk of a lab is a logical volume, a logical volume
that has a snapshot, a snapshot, or the physical volume of them all. Contents, other uses, names, permissions, changed
links and kills are those of benches/faults/existing_disks.py. A lab may write only if both consents name the disk, no
other program uses it, and its content may be destroyed; then only its first 8 MiB may change, and neither a snapshot,
its origin, nor the neighbouring volume. Nothing may be written to a physical volume. Exit status 1: a byte changed, a
permitted lab was refused, or something was left on the host.
"""

import base64
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from benches.faults.existing_disks import Case, drawn
from benches.faults.existing_labs import (
    CONTENTS,
    MEASURES,
    VOLUME,
    WRITTEN,
    Outcome,
    all_labs,
    consents,
    ended,
    lvm_label,
)
from benches.harness.arguments import Argument, arguments
from tests.guest.computers import Computers, computers_for_runs

ARGUMENTS = (Argument("labs", 100, "random labs"), Argument("seed", 3, "of the random labs"))
HOST = """
lab:
  machines:
    ctl: {kind: netns}
    pc6: {kind: vm, accel: tcg, image: "host:fdisk,lvm2", memory: 512M, cpus: 2, disks: [{volume: physical}]}
  links:
    ssh6: {ends: [ctl.c6, pc6.eth0], addresses: {ctl.c6: 198.19.6.1/24, pc6.eth0: 198.19.6.2/24}}
  volumes: {physical: {size: 160M}}
measure:
  tcp: {kind: stream, from: ctl, to: pc6}
"""
LAB = """
title: Logical volume
lab:
  machines: {{pc6: {{kind: host, ssh: pc6, disks: [{{volume: {volume}}}]}}}}
  volumes: {{{volume}: {{on: pc6, device: {device}{keys}}}}}
measure: {{m: {measure}}}
blocks: 1
"""
KINDS = ("linear", "linear", "origin", "snapshot", "physical")
"""What the disk of a lab is."""
BEGIN = """
set -e; modprobe -a dm-mod dm-snapshot loop; mkdir -p /run/lvm /run/lock/lvm
printf 'activation { udev_sync = 0 udev_rules = 0 }\\ndevices { obtain_device_list_from_udev = 0 }\\n' \
    >/etc/lvm/lvmlocal.conf
for serial in /sys/block/vd*/serial; do read -r name <$serial || true; [ "$name" != physical ] || break; done
disk=/dev/$(basename $(dirname $serial)); vgcreate -qq -y exists $disk >&2; echo $disk
"""
"""Script that makes a volume group of the host's disk, and prints the disk."""
LEFT = f"""
losetup -l -n -O NAME,BACK-FILE; cat /proc/mounts; dmsetup info -c --noheadings -o name,uuid,open
find /dev /run /var/tmp -name '*{VOLUME}*' ! -path '*/leases/*'
find /run/other /run/iolab -mindepth 2 -type d 2>/dev/null | sort; true
"""
"""Script that prints what a lab could leave on the host."""
DIGESTS = """
for node in {nodes}; do
    blockdev --flushbufs $node
    head -c {written} $node | sha256sum; tail -c +{after} $node | sha256sum
done; true
"""
"""Script that prints the digests of the part that may be written and of the rest, of each node."""


class Volumes:
    """Logical volumes of one lab on the host."""

    def __init__(self, host: Computers, physical: str, kind: str, content: str, draws: random.Random) -> None:
        self._host = host
        label = base64.b64encode(lvm_label(draws)).decode()
        blank = "head -c 12M /dev/zero;" if content == "blank" else "head -c 12M /dev/urandom;"
        self.told(
            "for name in disk other; do lvcreate -qq -y -an -L 24M -n $name exists && lvchange -ay exists/$name; done;"
            f" for name in disk other; do ({blank} head -c 12M /dev/urandom) >/dev/exists/$name; done;"
            f" echo {label} | base64 -d >/run/label;"
            + CONTENTS[content].format(node="/dev/exists/disk", label="/run/label")
        )
        if kind in ("origin", "snapshot"):
            self.told("lvcreate -qq -y -s -L 28M -n snap exists/disk")
        self.path = {"snapshot": "/dev/exists/snap", "physical": physical}.get(kind, "/dev/exists/disk")
        self.nodes = [self.path, "/dev/exists/other"]
        if kind in ("origin", "snapshot"):
            self.nodes.append("/dev/exists/snap" if kind == "origin" else "/dev/exists/disk")

    def told(self, script: str) -> str:
        """Run a script on the host; return its output."""
        done = self._host.agent(6).run(["sh", "-ec", script], timeout_ms=120_000)
        assert done.succeeded, f"{script}: {done.complaint}"
        return done.stdout

    def identity(self, path: str) -> str:
        """Return the UUID of a logical volume, or the serial number of the physical one."""
        if not path.startswith("/dev/exists/"):
            return "physical"
        return self.told(f"lvs --noheadings -o lv_uuid {path}").strip()

    def digests(self) -> list[tuple[str, str]]:
        """Return the digests of each node's first part and of its rest."""
        script = DIGESTS.format(nodes=" ".join(self.nodes), written=WRITTEN, after=WRITTEN + 1)
        found = [line.split()[0] for line in self.told(script).splitlines()]
        return list(zip(found[::2], found[1::2], strict=True))

    def remove(self) -> None:
        """Remove the volumes."""
        self.told(
            "for name in snap disk other; do"
            " [ ! -e /dev/exists/$name ] || lvremove -qq -fy exists/$name; done"
        )


def main() -> int:
    """Run the labs; return the exit status."""
    given = arguments(__doc__, *ARGUMENTS)
    draws = random.Random(given.seed)
    with (
        tempfile.TemporaryDirectory(prefix="iolab-lvm-") as name,
        computers_for_runs(HOST, Path(name)) as host,
    ):
        done = host.agent(6).run(["sh", "-c", BEGIN], timeout_ms=120_000)
        assert done.succeeded, done.complaint
        physical = done.stdout.strip()

        def once() -> Outcome:
            kind, case = draws.choice(KINDS), drawn(draws)
            if kind == "physical" and case.name == "swapped":  # the neighbour is a part of it
                case = replace(case, name="link")
            with tempfile.TemporaryDirectory(prefix=f"{VOLUME}-", dir=name) as folder:
                result, problems = ran(Path(folder), host, physical, kind, case, draws)
            return f"{kind} {result}", [f"{problem}: {kind}, {case}" for problem in problems]

        return all_labs(given.labs, once)


def ran(folder: Path, host: Computers, physical: str, kind: str, case: Case, draws: random.Random) -> Outcome:
    """Run a lab; return the outcome for its disk, and the errors."""
    volumes = Volumes(host, physical, kind, case.content, draws)
    try:
        with used(volumes, case):
            before, left = volumes.digests(), volumes.told(LEFT)
            status = run(folder, volumes, case, draws)
            (ours, *others), problems = volumes.digests(), []
            end = time.monotonic() + 20
            while (now := volumes.told(LEFT)) != left and time.monotonic() < end:
                time.sleep(0.5)  # no event reports that the agent has undone its changes
            if now != left:
                problems.append(f"left on the host: {sorted(set(now.splitlines()) ^ set(left.splitlines()))}")
    finally:
        volumes.remove()
    changed, may_write = ours != before[0], case.may_write and kind != "physical"
    if changed and not may_write:
        problems.append("BYTES CHANGED WITHOUT CONSENT")
    if ours[1] != before[0][1]:
        problems.append("BYTES CHANGED BEYOND THE SIZE")
    neighbour, was = others[0], before[1]
    if neighbour[1] != was[1] or (neighbour != was and not case.may_write_neighbour):
        problems.append("THE NEIGHBOUR CHANGED")
    if others[1:] != before[2:]:
        problems.append("A SNAPSHOT OR ITS ORIGIN CHANGED")
    if case.must_write and kind != "physical" and (status != 0 or not changed):
        problems.append(f"permitted write ended with {status}")
    if case.must_read and status != 0:
        problems.append(f"reading ended with {status}")
    return ("written" if changed else "read" if status == 0 else "refused or ended"), problems


@contextmanager
def used(volumes: Volumes, case: Case) -> Iterator[None]:
    """Use the disk by another program of the host, as the case requires."""
    node, undo = volumes.path, ""
    if case.use == "mounted" and case.content == "ext4" and node.startswith("/dev/exists"):
        volumes.told(f"mkdir -p /run/user; mount -o ro,noload {node} /run/user")
        undo = "umount /run/user"
    elif case.use in ("mounted", "looped"):
        above = volumes.told(f"losetup --show --find {node}").strip()
        undo = f"losetup --detach {above}"
    elif case.use == "read-only":
        volumes.told(f"blockdev --setro {node}")
        undo = f"blockdev --setrw {node}"
    try:
        yield
    finally:
        if undo:
            volumes.told(undo)


def run(folder: Path, volumes: Volumes, case: Case, draws: random.Random) -> int | None:
    """Run iolab on the disk; return its exit status, None if it was killed."""
    path = volumes.told(f"readlink -f {volumes.path}").strip()
    if case.name != "node":
        path = f"/dev/link-{VOLUME}"
        volumes.told(f"ln -s -n -T {volumes.path} {path}")
    keys = ", writes: allowed" if case.in_file else ""
    file = folder / "lab.yaml"
    measure = MEASURES[case.measure].replace("on: pc,", "on: pc6,")
    file.write_text(LAB.format(volume=VOLUME, device=path, keys=keys, measure=measure))
    named = {"this": volumes.identity(volumes.path), "other": volumes.identity("/dev/exists/other")}
    options = consents(case.allowed, case.destroyed, named)
    after_s = draws.uniform(0, 6)

    def swap() -> None:
        time.sleep(after_s)  # no event marks the steps of a run: the change hits each of them by chance
        volumes.told(f"ln -s -n -f -T /dev/exists/other {path}.new && mv -T {path}.new {path}")

    try:
        return ended(
            folder, file, options,
            killed_after_s=draws.uniform(0, 8) if case.killed else None,
            during=swap if case.name == "swapped" else None,
        )  # fmt: skip
    finally:
        if case.name != "node":
            volumes.told(f"rm {path}")


if __name__ == "__main__":
    raise SystemExit(main())
