"""Acknowledged flushes: after the forwarding process is killed, the disk has their blocks, or the loss is reported.

The volume is on a separate file system whose device is read, so blocks that are only in a page cache do not count.
"""

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.netns.conftest import IOLAB
from tests.netns.runs import Iolab, needs_devices, trials, until, value

pytestmark = [pytest.mark.netns, needs_devices("/dev/fuse", "/dev/loop-control")]
AGENT = IOLAB.with_name("iolab-agent")
MEBIBYTE = 1 << 20
HONEST, LIAR = "cache.direct=off", "cache.direct=off,cache.no-flush=on"
"""Two cache modes that keep written data in the page cache; only the first writes the data out on a flush."""
BLOCKS, BATCH = 2048, 64


def ran(*argv: object) -> str:
    """Run a command that must succeed; return its output."""
    return subprocess.run([str(word) for word in argv], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """Provide a file that contains an ext4 of 128 MiB."""
    path = tmp_path / "image"
    with path.open("wb") as file:
        file.truncate(128 * MEBIBYTE)
    ran("mkfs.ext4", "-q", "-m", "0", path)
    return path


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[ExitStack]:
    """Provide an exit stack."""
    with ExitStack() as made:
        yield made


def loop(stack: ExitStack, file: Path) -> str:
    """Attach a loop device to a file."""
    node = ran("losetup", "--find", "--show", file).strip()
    stack.callback(ran, "losetup", "--detach", node)
    return node


def daemon(stack: ExitStack, *words: str) -> subprocess.Popen[bytes]:
    """Start a storage daemon."""
    started = subprocess.Popen(["qemu-storage-daemon", *words])
    stack.callback(started.wait)
    stack.callback(started.kill)
    return started


class Store:
    """A file of blocks that were written once, on a separate file system, behind a user-space export."""

    def __init__(
        self, stack: ExitStack, folder: Path, image: Path, *, cache: str, behind_target: bool
    ) -> None:
        place, door, socket = folder / "mnt", folder / "door", folder / "nbd"
        place.mkdir()
        ran("mount", loop(stack, image), place)
        stack.callback(ran, "umount", place)
        self.file = place / "store"
        ran("dd", "if=/dev/urandom", f"of={self.file}", "bs=1M", "count=16", "conv=fsync")
        node = f"driver=file,filename={self.file},node-name=disk,{cache}"
        if behind_target:
            served = "type=nbd,id=out,node-name=disk,writable=on,name=disk"
            at = ("--nbd-server", f"addr.type=unix,addr.path={socket}")
            self.victim = daemon(stack, "--blockdev", node, *at, "--export", served)
            until(socket.exists)
            node = f"driver=nbd,server.type=unix,server.path={socket},export=disk,node-name=disk"
        door.touch()
        shown = f"type=fuse,id=door,node-name=disk,mountpoint={door},writable=on"
        opened = daemon(stack, "--blockdev", node, "--export", shown)
        if not behind_target:
            self.victim = opened
        until(lambda: door.stat().st_size == 16 * MEBIBYTE)
        self.door, self.node = door, loop(stack, door)

    def stamps(self) -> dict[str, object]:
        """Return the stamped blocks: 8 MiB of the file, repeatedly."""
        target = {"kind": "device", "device": self.node, "serial": str(self.door), "claim": True}
        about = {"run": time.monotonic_ns(), "block_bytes": 4096, "blocks": BLOCKS, "batch": BATCH}
        return {"target": target, **about, "passes": 1000}

    def stamped_until_killed(self, batches: int) -> tuple[dict[str, object], int]:
        """Stamp the file, kill the forwarding process after that many batches; return the stamps and the last batch."""
        stamps, acknowledged = self.stamps(), 0
        program = subprocess.Popen(
            [AGENT, "disk"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert program.stdin is not None
        assert program.stdout is not None
        program.stdin.write(json.dumps({"program": "stamp", **stamps}))
        program.stdin.close()
        for line in program.stdout:
            acknowledged = json.loads(line).get("acknowledged", acknowledged)
            if acknowledged == batches:
                self.victim.kill()
        program.wait()
        return stamps, acknowledged

    def verified(self, stamp: dict[str, object], acknowledged: int) -> dict[str, int]:
        """Return which acknowledged blocks the disk below has."""
        asked = {"program": "verify", "stamp": stamp, "acknowledged": acknowledged, "below": str(self.file)}
        done = subprocess.run([AGENT, "disk"], input=json.dumps(asked), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        found: dict[str, int] = json.loads(done.stdout)["verified"]
        return found


@pytest.mark.parametrize("behind_target", [False, True], ids=["daemon", "target"])
@pytest.mark.parametrize("batches", [1, pytest.param(40, marks=pytest.mark.full)])
def test_acknowledged_blocks_are_on_the_disk_after_the_forwarding_process_is_killed(
    stack: ExitStack, tmp_path: Path, image: Path, batches: int, behind_target: bool
) -> None:
    """Check every block of every batch, including the second pass."""
    store = Store(stack, tmp_path, image, cache=HONEST, behind_target=behind_target)
    found = store.verified(*store.stamped_until_killed(batches))
    assert found["acknowledged"] >= min(batches * BATCH, BLOCKS)
    assert found["kept"] == found["acknowledged"]


@pytest.mark.parametrize("behind_target", [False, True], ids=["daemon", "target"])
def test_server_that_acknowledges_flushes_without_writing_is_detected(
    stack: ExitStack, tmp_path: Path, image: Path, behind_target: bool
) -> None:
    """Read the device, because the file's blocks are in the page cache."""
    store = Store(stack, tmp_path, image, cache=LIAR, behind_target=behind_target)
    stamp, acknowledged = store.stamped_until_killed(10)
    found = store.verified(stamp, acknowledged)
    assert found["kept"] < found["acknowledged"]
    assert found["lost"] > 0
    with store.file.open("rb") as file:
        assert file.read(8) == b"iolabstp"


CHECKED = """
title: Flushes
lab:
  machines: {pc: {kind: netns}}
  volumes: {v: {size: 32M}}
measure: {check: {kind: disk, program: flush-check, on: pc}}
factors:
  machines.pc.disks:
    plain: [{volume: v}]
    honest: [{volume: v, via: user, cache: writeback}]
    lying: [{volume: v, via: user, cache: unsafe}]
blocks: 1
"""


@pytest.mark.full
def test_run_reports_the_disk_that_would_lose_acknowledged_blocks(
    iolab: Iolab, tmp_path: Path, image: Path
) -> None:
    """Use volumes on a file system with a separate device."""
    path = tmp_path / "flushes.yaml"
    path.write_text(CHECKED)
    script = 'mount "$0" /var/tmp && exec "$@"'
    iolab("clean")  # creates nothing, and shows that the host is as before
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, image, IOLAB, "run", path],
        capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found = {
        trial["cell"]["machines.pc.disks"]: trial for trial in trials(tmp_path / done.stdout.split()[-1])
    }
    for name in ("plain", "honest"):
        assert (
            value(found[name], "disk_blocks_kept") == value(found[name], "disk_blocks_acknowledged") == 4096
        )
        assert "acknowledged-lost" not in [one["code"] for one in found[name]["warnings"]]
    assert value(found["lying"], "disk_blocks_kept") < 4096
    assert "acknowledged-lost" in [one["code"] for one in found["lying"]["warnings"]]


def test_trial_reports_that_the_page_cache_cannot_be_bypassed(iolab: Iolab, tmp_path: Path) -> None:
    """Use a file system without a block device."""
    path = tmp_path / "flushes.yaml"
    path.write_text(CHECKED.replace("    honest", "    #").replace("    lying", "    #"))
    done = iolab("run", path)
    stored = trials(tmp_path / done.stdout.split()[-1])[0]
    if stored["status"] == "ok":
        pytest.skip("the disk of this computer may be read")
    assert "below the page cache" in str(stored)
