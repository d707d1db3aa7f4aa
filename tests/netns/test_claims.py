"""Claims: only unused devices may be written; each refusal has its reason and changes no byte."""

import hashlib
import json
import os
import stat
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.netns.runs import needs_devices

pytestmark = [pytest.mark.netns, needs_devices("/dev/loop-control")]
AGENT = Path(sys.executable).with_name("iolab-agent")
MEBIBYTE = 1 << 20


class Disk:
    """A loop device on a separate file."""

    def __init__(self, backing: Path) -> None:
        self.backing = backing
        backing.write_bytes(bytes(64 * MEBIBYTE))
        found = subprocess.run(
            ["losetup", "--show", "--find", "--partscan", backing], check=True, capture_output=True, text=True
        )
        self.node = found.stdout.strip()

    def digest(self) -> str:
        """Return a digest of all bytes."""
        os.sync()
        return hashlib.sha256(self.backing.read_bytes()).hexdigest()

    def detach(self) -> None:
        """Detach the device."""
        subprocess.run(["losetup", "--detach", self.node], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """Provide a blank disk."""
    made = Disk(tmp_path / "disk")
    yield made
    made.detach()


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[list[Path]]:
    """Provide a list of mount points that are unmounted at the end."""
    places: list[Path] = []
    yield places
    for place in places:
        subprocess.run(["umount", place], check=True)


def asked(request: dict[str, object]) -> subprocess.CompletedProcess[str]:
    """Run a disk program of the agent."""
    return subprocess.run(
        [AGENT, "disk"], input=json.dumps(request), capture_output=True, text=True, timeout=60
    )


def claim_of(disk: Disk, node: str | None = None, **more: object) -> dict[str, object]:
    """Return the claim of a disk, whose serial number is the file behind it."""
    return {"device": node or disk.node, "serial": str(disk.backing), "claim": True, **more}


def refusal(disk: Disk, node: str | None = None, **more: object) -> str:
    """Return why stamps are not written to a disk; no byte of the disk may have changed."""
    before = disk.digest()
    said = refusal_while_used(disk, node, **more)
    assert disk.digest() == before
    return said


def refusal_while_used(disk: Disk, node: str | None = None, **more: object) -> str:
    """Return why stamps are not written to a disk to which the kernel itself may write in the meantime."""
    target = {"kind": "device", **claim_of(disk, node, **more)}
    done = asked(
        {
            "program": "stamp",
            "target": target,
            "run": 1,
            "block_bytes": 4096,
            "blocks": 8,
            "batch": 4,
            "passes": 1,
        }
    )
    assert done.returncode == 1, done.stdout
    assert "acknowledged" not in done.stdout
    return done.stderr


def test_claimed_blank_disk_is_written_and_keeps_flushed_blocks(disk: Disk) -> None:
    """Find all stamps after two acknowledged flushes."""
    target = {"kind": "device", **claim_of(disk)}
    stamp = {"target": target, "run": 1, "block_bytes": 4096, "blocks": 8, "batch": 4, "passes": 1}
    done = asked({"program": "stamp", **stamp})
    assert done.returncode == 0, done.stderr
    assert [json.loads(line) for line in done.stdout.splitlines()[:2]] == [
        {"acknowledged": 1},
        {"acknowledged": 2},
    ]
    found = json.loads(asked({"program": "verify", "stamp": stamp, "acknowledged": 2}).stdout)
    assert found["verified"]["kept"] == 8


def test_disk_without_a_valid_claim_is_refused(disk: Disk) -> None:
    """Refuse no claim, a wrong serial number, and a node of a different disk."""
    assert "--claim" in refusal(disk, claim=False)
    assert "is not the device with serial number" in refusal(disk, serial="S3Z9NB0K")


def test_device_that_changed_after_its_claim_is_refused(disk: Disk, tmp_path: Path) -> None:
    """Replace the disk behind its node."""
    assert asked({"program": "claim", **claim_of(disk)}).returncode == 0
    other = Disk(tmp_path / "other")
    node = tmp_path / "lun"
    node.symlink_to(disk.node)
    assert asked({"program": "claim", **claim_of(disk, str(node))}).returncode == 0
    node.unlink()
    node.symlink_to(other.node)
    try:
        assert "is not the device with serial number" in refusal(disk, str(node))
        assert other.digest() == hashlib.sha256(bytes(64 * MEBIBYTE)).hexdigest()
    finally:
        other.detach()


def test_disk_under_a_loop_device_is_refused(disk: Disk) -> None:
    """Use an offset, so that the disk has no signature."""
    found = subprocess.run(
        ["losetup", "--show", "--find", "--offset", str(MEBIBYTE), disk.node],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    try:
        assert "is a loop device that lies on it" in refusal(disk)
    finally:
        subprocess.run(["losetup", "--detach", found.stdout.strip()], check=True)


@pytest.mark.parametrize("kind", ["ext4", "swap", "LVM2_member", "linux_raid_member", "dos"])
def test_disk_with_a_signature_is_refused_and_the_signature_is_named(disk: Disk, kind: str) -> None:
    """Check a file system, swap, members of a volume group and an array, and a partition table."""
    match kind:
        case "ext4":
            subprocess.run(["mkfs.ext4", "-q", disk.node], check=True)
        case "swap":
            subprocess.run(["mkswap", disk.node], check=True, capture_output=True)
        case "LVM2_member":
            with Path(disk.node).open("r+b") as node:
                node.seek(512)
                node.write(lvm_label())
        case "linux_raid_member":
            with Path(disk.node).open("r+b") as node:
                node.seek(4096)
                node.write(md_superblock())
        case "dos":
            partition(disk)
    assert kind in refusal(disk)


def lvm_label() -> bytes:
    """Return the label of a physical volume as LVM2 writes it into the second sector."""
    rest = (32).to_bytes(4, "little") + b"LVM2 001" + b"x" * 32
    rest = rest.ljust(492, b"\0")
    sum_ = zlib.crc32(rest, 0xF597A6CF ^ 0xFFFFFFFF) ^ 0xFFFFFFFF
    return b"LABELONE" + (1).to_bytes(8, "little") + sum_.to_bytes(4, "little") + rest


def md_superblock() -> bytes:
    """Return the superblock of an array's member as md 1.2 writes it at 4 KiB: one device, and a checksum."""
    sectors = 8
    head = struct.pack("<4I16s32sQIIQIII", 0xA92B4EFC, 1, 0, 0, b"u" * 16, b"array", 0, 1, 0, 131072, 0, 1, 0)
    body = bytearray(head.ljust(256 + 2, b"\0"))
    struct.pack_into("<QQQ", body, 128, 2048, 129024, sectors)
    struct.pack_into("<I", body, 220, 1)  # devices in the table behind it
    words = sum(struct.unpack("<64I", body[:256])) + struct.unpack("<H", body[256:258])[0]
    struct.pack_into("<I", body, 216, ((words & 0xFFFFFFFF) + (words >> 32)) & 0xFFFFFFFF)
    return bytes(body)


def partition(disk: Disk) -> None:
    """Make one partition."""
    subprocess.run(["sfdisk", "-q", disk.node], input="2048,65536\n", check=True, text=True)
    # Needed if sfdisk's request to re-read the table came too early.
    subprocess.run(["partx", "--add", disk.node], capture_output=True)


def node_of_partition(disk: Disk, folder: Path) -> Path:
    """Return the node of the first partition, created if no other program creates it."""
    name = Path(disk.node).name + "p1"
    number = Path(f"/sys/class/block/{name}/dev")
    if not number.exists():
        pytest.skip("needs a kernel that reads partition tables of loop devices")
    node = Path("/dev") / name
    if not node.exists():
        node = folder / name
        major, _, minor = number.read_text().strip().partition(":")
        os.mknod(node, 0o600 | stat.S_IFBLK, os.makedev(int(major), int(minor)))
    return node


def test_mounted_or_exclusively_opened_disk_is_refused(
    disk: Disk, tmp_path: Path, mounted: list[Path]
) -> None:
    """Print the mount point."""
    held = os.open(disk.node, os.O_RDWR | os.O_EXCL)
    try:
        assert "busy" in refusal(disk)
    finally:
        os.close(held)
    subprocess.run(["mkfs.ext4", "-q", disk.node], check=True)
    place = tmp_path / "mnt"
    place.mkdir()
    # Read-only: the kernel keeps writing to a file system that was mounted writable.
    subprocess.run(["mount", "-o", "ro,noload", disk.node, place], check=True)
    mounted.append(place)
    assert f"is mounted on {place}" in refusal(disk)


def test_disk_with_a_mounted_partition_and_the_partition_are_refused(
    disk: Disk, tmp_path: Path, mounted: list[Path]
) -> None:
    """Check the parent and the partition."""
    partition(disk)
    part = str(node_of_partition(disk, tmp_path))
    subprocess.run(["mkfs.ext4", "-q", part], check=True)
    place = tmp_path / "mnt"
    place.mkdir()
    subprocess.run(["mount", "-o", "ro,noload", part, place], check=True)
    mounted.append(place)
    assert f"is mounted on {place}" in refusal(disk)
    assert f"is mounted on {place}" in refusal(disk, part)


def test_disk_used_as_swap_is_refused_even_without_its_signature(disk: Disk) -> None:
    """Check the kernel's list of swap devices."""
    subprocess.run(["mkswap", disk.node], check=True, capture_output=True)
    if subprocess.run(["swapon", disk.node], capture_output=True).returncode != 0:
        pytest.skip("needs a kernel that swaps to loop devices")
    try:
        assert "is swapped to" in refusal_while_used(disk)
    finally:
        subprocess.run(["swapoff", disk.node], check=True)


@pytest.fixture
def file_system(disk: Disk, tmp_path: Path, mounted: list[Path]) -> Path:
    """Provide a folder on a file system of 64 MiB."""
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", disk.node], check=True)
    place = tmp_path / "mnt"
    place.mkdir()
    subprocess.run(["mount", disk.node, place], check=True)
    mounted.append(place)
    place.chmod(0o700)
    return place


def thput(folder: Path, size_bytes: int) -> dict[str, object]:
    """Return a request of one pass."""
    return {
        "program": "thput-fsys",
        "folder": str(folder),
        "size_bytes": size_bytes,
        "buffers_bytes": [65536],
    }


def test_program_that_would_leave_less_than_a_tenth_of_a_file_system_free_is_refused(
    file_system: Path,
) -> None:
    """Print both figures; write no byte."""
    done = asked(thput(file_system, 60 * MEBIBYTE))
    assert done.returncode == 1
    assert "60 MiB are wanted" in done.stderr
    assert "a tenth of the file system stays free" in done.stderr
    assert asked(thput(file_system, 32 * MEBIBYTE)).returncode == 0
    assert [path.name for path in file_system.iterdir()] == ["lost+found"]


def test_storage_failure_during_a_write_fails_the_program_with_the_reason(
    tmp_path: Path, mounted: list[Path]
) -> None:
    """Fill the store below its file system; leave no figure and no file."""
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "none", small], check=True)
    backing = small / "disk"
    with backing.open("wb") as file:
        file.truncate(128 * MEBIBYTE)
    argv = ["losetup", "--show", "--find", str(backing)]
    node = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()
    place = tmp_path / "mnt"
    place.mkdir()
    try:
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", node], check=True)
        subprocess.run(["mount", node, place], check=True)
        place.chmod(0o700)
        done = asked(thput(place, 64 * MEBIBYTE))
        assert done.returncode == 1, done.stdout
        assert "phases" not in done.stdout
        assert "thput-fsys" in done.stderr
        assert "flushing" in done.stderr or "writing" in done.stderr
        subprocess.run(["umount", place], check=True)
    finally:
        subprocess.run(["losetup", "--detach", node], check=True)
        subprocess.run(["umount", small], check=True)
