"""Random labs on targets that they did not create: does a byte change without permission, or a session of others end?

Usage: python -m benches.faults.existing_targets [LABS [SEED]]. Needs root, fio, tgt, QEMU's storage daemon, iscsi-inq
and FUSE; about 5 s per lab.

A box with an iSCSI target and an NBD server exists; a different initiator has a session. Before each lab, the LUN and
the NBD export get random content: blank, ext4, swap, a partition table or an LVM label. The lab reads with hdparm or
fio, or writes with fio. The file and the command line permit writing, permit it for a different disk, or do not; the
LUN may have been exchanged, so that it reports a different serial number. Some labs are killed and cleaned. Writing is
right only if both consents name the disk and its content may be destroyed; then only its first 8 MiB may change. Exit
status 1: a byte changed, a permitted lab was refused, the configuration or the sessions of the target changed, or
something was left on the host.
"""

import random
import subprocess
import tempfile
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
from tests.netns.existing_box import ADDRESS, IQN, LUN_BYTES, SECRET, SERIAL, Box, existing_box

ARGUMENTS = (Argument("labs", 300, "random labs"), Argument("seed", 1, "of the random labs"))
LAB = """
title: Existing target
lab:
  machines: {{pc: {{kind: host}}}}
  volumes: {{{volume}: {{target: {target}{keys}}}}}
measure: {{m: {measure}}}
factors: {{machines.pc.disks: {{user: [{{volume: {volume}, via: user}}]}}}}
blocks: 1
"""
TARGETS = {
    "iscsi": f'{{portal: {ADDRESS}, iqn: "{IQN}", lun: 1, chap: {{user: box, secret: {{file: SECRET}}}}}}',
    "nbd": f'{{portal: "{ADDRESS}:10809", nbd: store}}',
}
IDENTITIES = {"iscsi": f"{IQN},1/{SERIAL}", "nbd": f"nbd://{ADDRESS}:10809/store"}


@dataclass(frozen=True, slots=True)
class Case:
    """The random properties of a lab."""

    protocol: str
    content: str
    exchanged: bool
    measure: str
    in_file: bool
    allowed: str
    destroyed: str
    killed: bool

    @property
    def permitted(self) -> bool:
        """Whether the file and the command line permit writing to a disk of this identity."""
        return self.in_file and self.allowed == "this"

    @property
    def kept(self) -> bool:
        """Whether the disk has content whose loss is not permitted."""
        return self.content != "blank" and self.destroyed != "this"

    @property
    def may_write(self) -> bool:
        """Whether the lab may change its disk."""
        return self.measure in WRITING and self.permitted and not self.exchanged and not self.kept

    @property
    def must_end_well(self) -> bool:
        """Whether iolab must not refuse the lab: it may write, or attaches the disk read-only and reads."""
        reads = self.measure not in WRITING and not self.permitted
        return (self.may_write or reads) and not self.killed


def drawn(draws: random.Random) -> Case:
    """Return a random case; consents are frequent, so that some labs do write."""
    protocol = draws.choice([*TARGETS])
    return Case(
        protocol=protocol,
        content=draws.choice([*CONTENTS]),
        exchanged=protocol == "iscsi" and draws.random() < 0.2,
        measure=draws.choice(("hdparm", "read", "write", "mixed", "write")),
        in_file=draws.random() < 0.7,
        allowed=draws.choice(("this", "this", "other", "none")),
        destroyed=draws.choice(("this", "this", "other", "none")),
        killed=draws.random() < 0.15,
    )


def main() -> int:
    """Run the labs; return the exit status."""
    given = arguments(__doc__, *ARGUMENTS)
    draws = random.Random(given.seed)
    with tempfile.TemporaryDirectory(prefix="iolab-box-") as name:
        folder = Path(name)
        secret = folder / "secret"
        secret.write_text(SECRET)
        secret.chmod(0o600)
        with existing_box(folder / "box") as box:

            def once() -> Outcome:
                case = drawn(draws)
                return judged(case, case.killed, lambda: ran(folder, case, box, draws))

            return all_labs(given.labs, once)


def fill(folder: Path, disk: Path, content: str, draws: random.Random) -> None:
    """Write random bytes and the content to a disk of the box, in place."""
    head = bytes(LUN_BYTES // 2) if content == "blank" else draws.randbytes(LUN_BYTES // 2)
    with disk.open("r+b") as file:
        file.write(head + draws.randbytes(LUN_BYTES // 2))
    label = folder / "label"
    label.write_bytes(lvm_label(draws))
    script = CONTENTS[content].format(node=disk, label=label)
    subprocess.run(["sh", "-ec", script], check=True, capture_output=True)


def ran(folder: Path, case: Case, box: Box, draws: random.Random) -> tuple[str, list[str]]:
    """Run a lab; return what became of its disk, and what was wrong."""
    for protocol, disk in box.disks.items():
        fill(folder, disk, case.content if protocol == case.protocol else "blank", draws)
    box.rename("EXCHANGED" if case.exchanged else SERIAL)
    before, sessions = {name: disk.read_bytes() for name, disk in box.disks.items()}, box.sessions()
    other = next(name for name in box.disks if name != case.protocol)
    named = {"this": IDENTITIES[case.protocol], "other": IDENTITIES[other]}
    options = consents(case.allowed, case.destroyed, named)
    keys = ", writes: allowed" if case.in_file else ""
    target = TARGETS[case.protocol].replace("SECRET", str(folder / "secret"))
    file = folder / "lab.yaml"
    file.write_text(LAB.format(volume=VOLUME, target=target, keys=keys, measure=MEASURES[case.measure]))
    status = ended(folder, file, options, killed_after_s=draws.uniform(0, 3) if case.killed else None)
    after, problems = {name: disk.read_bytes() for name, disk in box.disks.items()}, []
    if after[other] != before[other]:
        problems.append("THE OTHER DISK CHANGED")
    ours, was = after[case.protocol], before[case.protocol]
    if ours != was and not case.may_write:
        problems.append("BYTES CHANGED WITHOUT CONSENT")
    if ours[WRITTEN:] != was[WRITTEN:]:
        problems.append("BYTES CHANGED BEYOND THE SIZE")
    if case.must_end_well and (status != 0 or (case.may_write and ours == was)):
        problems.append(f"permitted lab ended with {status}")
    if box.sessions() != sessions:
        problems.append("THE SESSIONS CHANGED")
    return ("written" if ours != was else "read" if status == 0 else "refused or ended"), problems


if __name__ == "__main__":
    raise SystemExit(main())
