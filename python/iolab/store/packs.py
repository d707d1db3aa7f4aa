"""Samples of trials: files, or members of packs.

A pack has a zstd frame per distinct content, then an index and a footer, both in frames that `zstd -d` skips. A file
takes precedence over a member with the same name, because a repeated trial writes its files again.
"""

import gzip
import hashlib
import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import IO, Any

from iolab.files import open_own
from iolab.locale import Phrase
from iolab.store.frames import (
    compressed,
    decompressed,
    footer,
    read_footer,
    skippable,
    sync_folder,
    whole_number,
)
from iolab.untrusted_json import read_untrusted

PACK = re.compile(r"pack-(\d{3,9})\.zst")
PACK_BYTES = 64 * 2**20
"""Size at which a pack is closed [bytes]; only the last pack of a run may be smaller."""
MAX_SAMPLE = 64 * 2**20
"""Maximum decompressed size of one trial's samples [bytes]; larger files were not written by iolab."""
LOOSE = (".pcapng", ".new")
"""Suffixes of files that stay outside packs: captures, which other programs open, and incomplete files."""
GZIP = ".gz"
MAX_INDEX = 256 * 2**20


@dataclass(frozen=True, slots=True)
class Frame:
    """The place of one file's content in a pack."""

    offset: int
    """Position of the first byte of the content's frame."""
    length: int
    """Length of the content's frame [bytes]."""
    size: int
    """Length of the content [bytes]."""
    sha256: str
    """Digest of the content."""


@dataclass(frozen=True, slots=True)
class _Index:
    frames: tuple[Frame, ...]
    members: dict[str, int]


def sample_names(samples: Path, ending: str) -> set[str]:
    """Return the names of all samples that end with `ending`; packed samples keep their file names."""
    found = {entry for entry in _listed(samples) if entry.endswith(ending) and not entry.startswith(".")}
    for pack in packs_of(samples):
        found |= {name for name in _index(*_stamp(pack)).members if name.endswith(ending)}
    return found


def sample(samples: Path, name: str) -> bytes | None:
    """Return the content of one sample, decompressed if its name ends with .gz; None: the sample does not exist.

    Raises:
        OSError, EOFError, ValueError, zlib.error: the file or its pack is damaged, or the sample is too large.
    """
    path = samples / name
    if path.is_file():
        with gzip.open(path, "rb") if name.endswith(GZIP) else path.open("rb") as file:
            return _bounded(file)
    for pack in reversed(packs_of(samples)):
        if (frame := _found(pack, name)) is not None:
            with pack.open("rb") as file:
                return _content(file, frame)
    return None


def packs_of(samples: Path) -> list[Path]:
    """Return the packs, oldest first."""
    return [*_numbered(samples).values()]


def _numbered(samples: Path) -> dict[int, Path]:
    """Return the packs by their numbers, oldest first."""
    found = {int(match[1]): samples / entry for entry in _listed(samples) if (match := PACK.fullmatch(entry))}
    return dict(sorted(found.items()))


def pack_samples(samples: Path) -> int:
    """Move the files of trials into packs; return the number of files.

    A pack is complete, synced and read again before its files are removed. Files that a killed process packed but did
    not remove are removed without packing them again.

    Raises:
        OSError: the disk is full, or the data read back differs from the data written.
    """
    names = sorted(name for name in _listed(samples) if _packable(samples, name))
    packs = packs_of(samples)  # listed once: a run may have a million files
    left = [name for name in names if not _is_packed(samples / name, packs)]
    for name in set(names) - set(left):
        (samples / name).unlink()
    waiting, moved = iter(left), len(names) - len(left)
    *_, newest = (0, *_numbered(samples))
    for number in count(newest + 1):
        members = _write_pack(samples, samples / f"pack-{number:03d}.zst", waiting)
        if not members:
            break
        for name in members:
            (samples / name).unlink()
        moved += len(members)
    sync_folder(samples)
    return moved


def _write_pack(samples: Path, pack: Path, waiting: Iterator[str]) -> list[str]:
    """Write one pack of the next files; return the names of the packed files; no names: no pack was written.

    Every frame is read again and compared with the digest of its file.
    """
    frames: dict[str, Frame] = {}
    members: dict[str, str] = {}
    fresh, offset = pack.with_name(f".{pack.name}.new"), 0
    with os.fdopen(open_own(fresh, flags=os.O_RDWR | os.O_TRUNC), "w+b") as file:
        for name in waiting:
            try:
                content = _plain(samples / name)
            except (OSError, EOFError, ValueError, zlib.error):
                continue  # a file that is damaged or too large stays as it is
            digest = hashlib.sha256(content).hexdigest()
            members[name] = digest
            if digest not in frames:
                data = compressed(content)
                file.write(data)
                frames[digest] = Frame(offset, len(data), len(content), digest)
                offset += len(data)
            if offset >= PACK_BYTES:
                break
        if not members:
            fresh.unlink()
            return []
        file.write(_index_and_footer(frames, members))
        file.flush()
        os.fsync(file.fileno())
        for frame in frames.values():
            _content(file, frame)
    fresh.replace(pack)
    sync_folder(samples)
    return list(members)


def _index_and_footer(frames: dict[str, Frame], members: dict[str, str]) -> bytes:
    numbers = {digest: number for number, digest in enumerate(frames)}
    rows = [[each.offset, each.length, each.size, each.sha256] for each in frames.values()]
    index = json.dumps(
        {"frames": rows, "members": {name: numbers[of] for name, of in members.items()}}
    ).encode()
    packed = skippable(compressed(index))
    about = {"first": min(members), "last": max(members), "index": len(packed), "size": len(index)}
    return packed + footer(about)


def _is_packed(path: Path, packs: Sequence[Path]) -> bool:
    for pack in reversed(packs):
        if (frame := _found(pack, path.name)) is not None:
            with suppress(OSError, EOFError, ValueError, zlib.error):
                return hashlib.sha256(_plain(path)).hexdigest() == frame.sha256
    return False


def _found(pack: Path, name: str) -> Frame | None:
    """Return the place of a member; a pack whose range of names does not include it is not searched."""
    stamp = _stamp(pack)
    about = _footer(*stamp)
    if not str(about.get("first")) <= name <= str(about.get("last")):
        return None
    index = _index(*stamp)
    number = index.members.get(name)
    return None if number is None else index.frames[number]


def _stamp(pack: Path) -> tuple[Path, int, int]:
    status = pack.stat()
    return pack, status.st_mtime_ns, status.st_size


@lru_cache(maxsize=4096)
def _footer(pack: Path, _changed_ns: int, _size: int) -> dict[str, Any]:
    with pack.open("rb") as file:
        values, begin = read_footer(file)
    return {**values, "begin": begin - whole_number(values, "index")}


@lru_cache(maxsize=8)
def _index(pack: Path, changed_ns: int, size: int) -> _Index:
    about = _footer(pack, changed_ns, size)
    begin, length = whole_number(about, "begin"), whole_number(about, "index")
    with pack.open("rb") as file:
        file.seek(begin + 8)  # after the 8-byte header of the frame
        packed = file.read(max(0, length - 8))
    if (plain := whole_number(about, "size")) > MAX_INDEX:
        raise ValueError(Phrase("store.no-footer"))
    values = read_untrusted(decompressed(packed, plain))
    try:
        frames = tuple(
            Frame(int(at), int(length), int(of), str(sha)) for at, length, of, sha in values["frames"]
        )
        members = {str(name): int(number) for name, number in values["members"].items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(Phrase("store.no-footer")) from error
    if any(not 0 <= each.offset <= each.offset + each.length <= begin for each in frames) or any(
        not 0 <= number < len(frames) for number in members.values()
    ):
        raise ValueError(Phrase("store.no-footer"))
    return _Index(frames, members)


def _content(file: IO[bytes], frame: Frame) -> bytes:
    if frame.size > MAX_SAMPLE:
        raise ValueError(Phrase("store.samples-too-large", most_mib=MAX_SAMPLE // 2**20))
    file.seek(frame.offset)
    content = decompressed(file.read(frame.length), frame.size) if frame.size else b""
    if hashlib.sha256(content).hexdigest() != frame.sha256:
        raise OSError(Phrase("store.sealed-content-differs"))
    return content


def _packable(samples: Path, name: str) -> bool:
    if name.startswith(".") or name.endswith(LOOSE) or PACK.fullmatch(name):
        return False
    path = samples / name
    return path.is_file() and not path.is_symlink()


def _plain(path: Path) -> bytes:
    with gzip.open(path, "rb") if path.name.endswith(GZIP) else path.open("rb") as file:
        return _bounded(file)


def _bounded(file: Any) -> bytes:
    data: bytes = file.read(MAX_SAMPLE + 1)
    if len(data) > MAX_SAMPLE:
        raise ValueError(Phrase("store.samples-too-large", most_mib=MAX_SAMPLE // 2**20))
    return data


def _listed(samples: Path) -> Iterable[str]:
    return [path.name for path in samples.iterdir()] if samples.is_dir() else ()
