"""The archive that a kernel unpacks before anything runs (cpio "newc"; Linux, initramfs-buffer-format). Pure bytes."""

import stat
from collections.abc import Iterable
from dataclasses import dataclass

MAGIC = b"070701"
TRAILER = "TRAILER!!!"
ALIGNMENT_BYTES = 4


@dataclass(frozen=True, slots=True)
class Entry:
    """One file, folder or device of the archive."""

    path: str
    """Without a slash before it."""
    mode: int
    """Type and permissions, as st_mode."""
    content: bytes = b""
    """Of a file."""
    device: tuple[int, int] = (0, 0)
    """Major and minor number of a device."""


def folder(path: str) -> Entry:
    """Return a folder's entry; every folder comes before what is in it."""
    return Entry(path, stat.S_IFDIR | 0o755)


def file(path: str, content: bytes, executable: bool = False) -> Entry:
    """Return a file's entry."""
    return Entry(path, stat.S_IFREG | (0o755 if executable else 0o644), content)


def character_device(path: str, major: int, minor: int) -> Entry:
    """Return the entry of a character device."""
    return Entry(path, stat.S_IFCHR | 0o600, device=(major, minor))


def pack(entries: Iterable[Entry]) -> bytes:
    """Return the archive; equal entries make equal bytes, for it holds no dates and no owners."""
    packed = [_pack_entry(number, entry) for number, entry in enumerate(entries, start=1)]
    return b"".join([*packed, _pack_entry(0, Entry(TRAILER, 0))])


def _pack_entry(inode: int, entry: Entry) -> bytes:
    name = entry.path.encode() + b"\0"
    links = 2 if stat.S_ISDIR(entry.mode) else 1
    numbers = (inode, entry.mode, 0, 0, links, 0, len(entry.content), 0, 0, *entry.device, len(name), 0)
    header = MAGIC + b"".join(b"%08X" % number for number in numbers)
    return _aligned(header + name) + _aligned(entry.content)


def _aligned(data: bytes) -> bytes:
    return data + bytes(-len(data) % ALIGNMENT_BYTES)
