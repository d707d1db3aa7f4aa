"""Volumes that exist, on loop devices: reading changes nothing, writing needs every consent, kill -9 leaves nothing."""

import hashlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.netns.conftest import IOLAB
from tests.netns.runs import PATIENCE_S, Iolab, needs_devices, storage_state, until

pytestmark = [pytest.mark.netns, needs_devices("/dev/loop-control")]
SIZE = 64 << 20

LAB = """
title: A disk that exists
lab:
  machines: {{pc: {{kind: host, disks: [{{volume: existing}}]}}}}
  volumes: {{existing: {{device: {device}{keys}}}}}
measure: {{{measure}}}
blocks: 1
"""
READ = "m: {kind: disk, program: fio, on: pc, size: 8M, fio: {each: 200ms, blocks: [64K], depths: [4], access: [read]}}"
WRITE = READ.replace("access: [read]", "access: [write]")
HDPARM = (
    "m: {kind: disk, program: hdparm, on: pc}, own: {kind: disk, program: hdparm, on: pc, profile: honest}"
)


class Disk:
    """A loop device with random content at its end."""

    def __init__(self, backing: Path) -> None:
        self.backing = backing
        backing.write_bytes(bytes(SIZE - (1 << 20)) + os.urandom(1 << 20))
        argv = ["losetup", "--show", "--find", str(backing)]
        self.node = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()
        # A loop device keeps the read-only flag that an earlier user has set.
        subprocess.run(["blockdev", "--setrw", self.node], check=True)

    def digest(self) -> str:
        """Return a digest of all bytes."""
        subprocess.run(["blockdev", "--flushbufs", self.node], check=False)
        return hashlib.sha256(self.backing.read_bytes()).hexdigest()

    def detach(self) -> None:
        """Detach the device."""
        subprocess.run(["losetup", "--detach", self.node], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """Provide a disk, and check that a lab leaves nothing on it."""
    before = storage_state()
    made = Disk(tmp_path / "disk")
    yield made
    made.detach()
    assert storage_state() == before


def written(folder: Path, device: str, measure: str, keys: str = "") -> Path:
    """Write an experiment on a device."""
    path = folder / "lab.yaml"
    path.write_text(LAB.format(device=device, measure=measure, keys=keys))
    return path


def test_reading_an_existing_disk_needs_no_consent_and_changes_no_byte_even_if_it_is_mounted(
    iolab: Iolab, disk: Disk, tmp_path: Path
) -> None:
    """Run hdparm, its own definition, and fio; mount the disk read-only meanwhile."""
    subprocess.run(["mkfs.ext4", "-q", disk.node], check=True)
    place = tmp_path / "mnt"
    place.mkdir()
    subprocess.run(["mount", "-o", "ro,noload", disk.node, place], check=True)
    try:
        before = disk.digest()
        done = iolab("run", written(tmp_path, disk.node, f"{HDPARM}, fio: {READ.removeprefix('m: ')}"))
        assert done.returncode == 0, done.stdout + done.stderr
        assert "3 ok, 0 failed, 0 invalid" in done.stdout
        assert disk.digest() == before
    finally:
        subprocess.run(["umount", place], check=True)


def test_writing_needs_two_consents_and_a_third_if_the_device_has_content(
    iolab: Iolab, disk: Disk, tmp_path: Path
) -> None:
    """Each refusal names the option, and changes no byte."""
    subprocess.run(["mkfs.ext4", "-q", disk.node], check=True)
    before, identity = disk.digest(), str(disk.backing)
    rest = disk.backing.read_bytes()[8 << 20 :]
    named = ("--allow-writes", identity)
    file, unsaid = ", writes: allowed", written(tmp_path, disk.node, WRITE)
    done = iolab("run", unsaid, *named)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "writes: allowed" in done.stderr
    for options, said in (
        ((), f"--allow-writes {identity}"),
        (("--allow-writes", "S3Z9NB0K"), f"--allow-writes {identity}"),
        (named, f"--destroy-data {identity}"),
    ):
        done = iolab("run", written(tmp_path, disk.node, WRITE, file), *options)
        assert done.returncode != 0, done.stdout
        assert said in done.stderr
        assert disk.digest() == before
    done = iolab("run", written(tmp_path, disk.node, WRITE, file), *named, "--destroy-data", identity)
    assert done.returncode == 0, done.stdout + done.stderr
    assert disk.digest() != before
    assert disk.backing.read_bytes()[8 << 20 :] == rest, "only the first 8 MiB may be written"


def test_device_path_that_leads_to_a_different_device_is_refused(disk: Disk, tmp_path: Path) -> None:
    """Swap the devices between the examination and the opening."""
    agent, record, link = (
        IOLAB.with_name("iolab-agent"),
        Path("/run/iolab-swap.device"),
        Path("/dev/iolab-swap"),
    )
    agent = Path(os.environ.get("IOLAB_AGENT", agent))
    other = Disk(tmp_path / "other")
    before = other.digest()

    def asked(request: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run([agent, "disk"], input=json.dumps(request), capture_output=True, text=True)

    link.symlink_to(disk.node)
    try:
        about = {"program": "examine", "device": str(link), "record": str(record)}
        assert asked(about | {"expected": str(other.backing)}).returncode == 1
        done = asked(about)
        assert done.returncode == 0, done.stderr
        (seen,) = json.loads(done.stdout)["devices"]
        assert seen["identities"] == [str(disk.backing)]
        same = {"program": "same", "record": str(record)}
        assert asked(same).returncode == 0
        link.unlink()
        link.symlink_to(other.node)
        done = asked(same)
        assert done.returncode == 1
        assert "is a different device now" in done.stderr
        assert other.digest() == before
    finally:
        link.unlink()
        record.unlink(missing_ok=True)
        other.detach()


def test_killed_run_leaves_no_trace_on_a_device_or_in_a_folder(
    iolab: Iolab, disk: Disk, tmp_path: Path
) -> None:
    """Kill the controller and its agents; `clean` removes the record, the link and the files in the folder."""
    subprocess.run(["mkfs.ext4", "-q", disk.node], check=True)
    place = tmp_path / "data"
    place.mkdir()
    subprocess.run(["mount", disk.node, place], check=True)
    try:
        kept = sorted(path.name for path in place.iterdir())
        text = LAB.format(device=disk.node, measure=HDPARM, keys="").replace(
            "volume: existing}", "volume: existing}]}, two: {kind: netns, disks: [{volume: inside}"
        )
        text = text.replace("volumes: {", f"volumes: {{inside: {{folder: {place}, size: 16M}}, ")
        path = tmp_path / "lab.yaml"
        path.write_text(text)
        running = subprocess.Popen(
            [IOLAB, "run", path], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        until(lambda: Path("/dev/iolab-inside").exists() and Path("/dev/iolab-existing").exists(), PATIENCE_S)
        assert (place / ".iolab-volumes/iolab-inside").exists()
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        until(lambda: iolab("clean").returncode == 0 and not Path("/dev/iolab-existing").exists())
        assert sorted(path.name for path in place.iterdir()) == kept
    finally:
        subprocess.run(["umount", place], check=True)


def test_folder_behind_a_symbolic_link_or_owned_by_another_user_is_refused(
    iolab: Iolab, tmp_path: Path
) -> None:
    """Create nothing there."""
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    for folder in (link, open_to_all):
        path = tmp_path / "lab.yaml"
        text = LAB.format(device="/dev/x", measure=HDPARM, keys="")
        path.write_text(text.replace("device: /dev/x", f"folder: {folder}, size: 1M"))
        done = iolab("run", path)
        assert done.returncode != 0, done.stdout
        assert (
            "symbolic link" in done.stdout + done.stderr
            or "other users can write" in done.stdout + done.stderr
        )
        assert list(folder.iterdir()) == []
