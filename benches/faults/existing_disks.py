"""Check with random labs on existing disks that no byte changes without permission.

Usage: python -m benches.faults.existing_disks [LABS [SEED]]. Needs root, loop devices and fio; about 4 s per lab.

Each lab has one volume on a loop device with random content: blank, ext4, a partition table, swap or an LVM signature;
free, mounted, below a second loop device, or read-only; named by its node, by a link, or by a link that is changed to a
neighbouring disk while the lab runs. The lab reads with hdparm or fio, or writes with fio. The file and the command
line permit writing, permit it for a different disk, or do not. Some labs are killed and cleaned. A lab may write only
if both consents name the disk, no other program uses the disk, and its content may be destroyed; even then, only its
first 8 MiB may change. In all other labs no byte may change. The neighbour may change only if the link led to it and
both consents name it. Exit status 1: a byte changed, a permitted write was refused, or something was left on the host.
"""

import random
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benches.faults.existing_labs import (
    CONTENTS,
    MEASURES,
    VOLUME,
    WRITING,
    WRITTEN,
    Outcome,
    all_labs,
    consents,
    ended,
    judged,
    lvm_label,
)
from benches.harness.arguments import Argument, arguments
from benches.harness.programs import shown

ARGUMENTS = (Argument("labs", 1000, "random labs"), Argument("seed", 1, "of the random labs"))
SIZE = 32 << 20
LAB = """
title: Existing
lab:
  machines: {{pc: {{kind: host, disks: [{{volume: {volume}}}]}}}}
  volumes: {{{volume}: {{device: {device}{keys}}}}}
measure: {{m: {measure}}}
blocks: 1
"""


@dataclass(frozen=True, slots=True)
class Case:
    """The random properties of a lab."""

    content: str
    use: str
    name: str
    measure: str
    in_file: bool
    allowed: str
    destroyed: str
    killed: bool

    @property
    def may_write(self) -> bool:
        """Whether the lab may change its disk."""
        consents = self.in_file and self.allowed == "this"
        return (
            self.measure in WRITING
            and consents
            and self.use == "free"
            and (self.content == "blank" or self.destroyed == "this")
        )

    @property
    def may_write_neighbour(self) -> bool:
        """Whether the lab may change the neighbour: the link led there, and both consents name it."""
        return self.measure in WRITING and self.name == "swapped" and self.in_file and self.allowed == "other"

    @property
    def must_read(self) -> bool:
        """Whether the lab must end well without writing."""
        return self.measure not in WRITING and self.name != "swapped" and not self.killed

    @property
    def must_write(self) -> bool:
        """Whether the lab must change its disk."""
        return self.may_write and self.name != "swapped" and not self.killed


def drawn(draws: random.Random) -> Case:
    """Return a random case; consents are frequent, so that some labs write."""
    return Case(
        content=draws.choice([*CONTENTS]),
        use=draws.choice(("free", "free", "free", "mounted", "looped", "read-only")),
        name=draws.choice(("node", "link", "swapped")),
        measure=draws.choice([*MEASURES, "write"]),
        in_file=draws.random() < 0.7,
        allowed=draws.choice(("this", "this", "other", "none")),
        destroyed=draws.choice(("this", "this", "other", "none")),
        killed=draws.random() < 0.15,
    )


class Disk:
    """A loop device."""

    def __init__(self, backing: Path, content: str, draws: random.Random) -> None:
        self.backing = backing
        blank = content == "blank"
        head = bytes(SIZE // 2) if blank else draws.randbytes(SIZE // 2)
        backing.write_bytes(head + draws.randbytes(SIZE // 2))
        self.node = shown("losetup", "--show", "--find", str(backing)).strip()
        subprocess.run(["blockdev", "--setrw", self.node], check=True)
        label = backing.with_suffix(".label")
        label.write_bytes(lvm_label(draws))
        script = CONTENTS[content].format(node=self.node, label=label)
        subprocess.run(["sh", "-ec", script], check=True, capture_output=True)

    def bytes(self) -> bytes:
        """Return all bytes of the device."""
        subprocess.run(["blockdev", "--flushbufs", self.node], check=False)
        return self.backing.read_bytes()

    def detach(self) -> None:
        """Detach the device."""
        subprocess.run(["losetup", "--detach", self.node], check=False)


def main() -> int:
    """Run the labs; return the exit status."""
    given = arguments(__doc__, *ARGUMENTS)
    draws = random.Random(given.seed)

    def once() -> Outcome:
        case = drawn(draws)
        with tempfile.TemporaryDirectory(prefix=f"{VOLUME}-") as folder:
            return judged(case, case.killed, lambda: ran(Path(folder), case, draws))

    return all_labs(given.labs, once)


def ran(folder: Path, case: Case, draws: random.Random) -> tuple[str, list[str]]:
    """Run a lab; return the outcome for its disk, and the errors."""
    problems: list[str] = []
    with ExitStack() as held:
        disk = Disk(folder / "disk", case.content, draws)
        held.callback(disk.detach)
        other = Disk(folder / "other", "blank", draws)
        held.callback(other.detach)
        path = Path(disk.node)
        if case.name != "node":
            path = Path("/dev") / f"link-{VOLUME}"
            path.symlink_to(disk.node)
            held.callback(path.unlink)
        held.enter_context(used(folder, disk, case))
        before, other_before = disk.bytes(), other.bytes()
        status = run(folder, case, path, disk, other, draws)
        after, other_after = disk.bytes(), other.bytes()
        other_changed = other_after != other_before
        if other_after[WRITTEN:] != other_before[WRITTEN:] or (
            other_changed and not case.may_write_neighbour
        ):
            problems.append("THE NEIGHBOUR CHANGED")
        changed = after != before
        if changed and not case.may_write:
            problems.append("BYTES CHANGED WITHOUT CONSENT")
        if after[WRITTEN:] != before[WRITTEN:]:
            problems.append("BYTES CHANGED BEYOND THE SIZE")
        if case.must_write and (status != 0 or not changed):
            problems.append(f"permitted write ended with {status}")
        if case.must_read and status != 0:
            problems.append(f"reading ended with {status}")
    return ("written" if changed else "read" if status == 0 else "refused or ended"), problems


@contextmanager
def used(folder: Path, disk: Disk, case: Case) -> Iterator[None]:
    """Use the disk by another program, as the case requires."""
    undo: tuple[str, ...] = ()
    if case.use == "mounted" and case.content == "ext4":
        place = folder / "mounted"
        place.mkdir()
        subprocess.run(["mount", "-o", "ro,noload", disk.node, str(place)], check=True)
        undo = ("umount", str(place))
    elif case.use in ("mounted", "looped"):
        above = shown("losetup", "--show", "--find", disk.node).strip()
        undo = ("losetup", "--detach", above)
    elif case.use == "read-only":
        subprocess.run(["blockdev", "--setro", disk.node], check=True)
        undo = ("blockdev", "--setrw", disk.node)
    yield
    if undo:
        subprocess.run(undo, check=True)


def run(folder: Path, case: Case, path: Path, disk: Disk, other: Disk, draws: random.Random) -> int | None:
    """Run iolab on the disk; return its exit status, None if it was killed."""
    keys = ", writes: allowed" if case.in_file else ""
    file = folder / "lab.yaml"
    file.write_text(LAB.format(volume=VOLUME, device=path, keys=keys, measure=MEASURES[case.measure]))
    named = {"this": str(disk.backing), "other": str(other.backing)}
    options = consents(case.allowed, case.destroyed, named)
    after_s = draws.uniform(0, 2)

    def swap() -> None:
        time.sleep(after_s)  # no event marks the steps of a run: the change hits each of them by chance
        fresh = path.with_name(f"{path.name}.new")
        fresh.symlink_to(other.node)
        fresh.replace(path)

    return ended(
        folder, file, options,
        killed_after_s=draws.uniform(0, 2.5) if case.killed else None,
        during=swap if case.name == "swapped" else None,
    )  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
