"""Disks, a folder and targets that exist before the labs of kill.py, and their state: only one disk may be written, and
there only the first bytes."""

import hashlib
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benches.harness.programs import output
from tests.netns.existing_box import ADDRESS, IQN, SECRET, Box, existing_box

WRITTEN = 8 << 20
"""Size of the part that is written [bytes]."""
LAB = f"""
title: Existing disks
lab:
  machines: {{pc: {{kind: host}}}}
  volumes:
    killedread: {{device: READ}}
    killedwrite: {{device: WRITE, writes: allowed}}
    killed: {{folder: FOLDER, size: 64M}}
    killedlun: {{target: {{portal: {ADDRESS}, iqn: "{IQN}", lun: 1, chap: {{user: box, secret: {{file: SECRET}}}}}}}}
    killedstore: {{target: {{portal: "{ADDRESS}:10809", nbd: store}}}}
measure:
  reads: {{kind: disk, program: fio, on: pc, size: 8M, fio: {{each: 300ms, blocks: [4K], depths: [8], access: [read]}}}}
factors:
  disk:
    device: {{machines.pc.disks: [{{volume: killedread}}]}}
    written device:
      machines.pc.disks: [{{volume: killedwrite}}]
      reads.fio.access: [write]
    folder: {{machines.pc.disks: [{{volume: killed}}]}}
    iSCSI: {{machines.pc.disks: [{{volume: killedlun, via: user}}]}}
    NBD: {{machines.pc.disks: [{{volume: killedstore, via: user}}]}}
blocks: 2
"""


@dataclass(frozen=True)
class Disks:
    """Disks that exist before the labs."""

    folder: Path
    nodes: dict[str, str]
    """Loop devices, by the names of their backing files."""
    box: Box

    @property
    def options(self) -> tuple[str, ...]:
        """Return the permission to write to one disk."""
        return ("--allow-writes", str(self.folder / "write"))

    def lab(self, text: str) -> str:
        """Return the lab on these disks."""
        places = {
            "READ": self.nodes["read"], "WRITE": self.nodes["write"], "FOLDER": self.folder / "data",
            "SECRET": self.folder / "secret",
        }  # fmt: skip
        for name, place in places.items():
            text = text.replace(f" {name}", f" {place}")
        return text

    def state(self) -> dict[str, str]:
        """Return what no lab may change."""
        for node in self.nodes.values():
            subprocess.run(["blockdev", "--flushbufs", node], check=True)
        read, write = ((self.folder / name).read_bytes() for name in ("read", "write"))
        return {
            "bytes": f"{digest(read)} {digest(write[WRITTEN:])}",
            "data": " ".join(sorted(map(str, (self.folder / "data").rglob("*")))),
            "target": " ".join(self.box.state()),
            "other session": str(Path(f"/proc/{self.box.other}").exists()),
        }


def digest(content: bytes) -> str:
    """Return a digest of bytes."""
    return hashlib.sha256(content).hexdigest()


@contextmanager
def existing_disks(folder: Path) -> Iterator[Disks]:
    """Create the disks, the folder and the targets."""
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "kept").write_text("kept")
    secret = folder / "secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    nodes = dict[str, str]()
    try:
        for name in ("read", "write"):
            content = os.urandom(4 * WRITTEN) if name == "read" else bytes(WRITTEN) + os.urandom(WRITTEN)
            (folder / name).write_bytes(content)
            nodes[name] = output("losetup", "--find", "--show", str(folder / name)).strip()
        with existing_box(folder / "box") as box:
            yield Disks(folder, nodes, box)
    finally:
        for node in nodes.values():
            subprocess.run(["losetup", "--detach", node], check=False)
