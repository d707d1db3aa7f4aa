"""The lines of a run: sealed parts (zstd), parts that are not sealed yet, and the journal that grows, in this order.

`trials-001.jsonl` becomes a part with one rename of the journal. `trials-001.jsonl.zst` takes precedence as soon as it
exists, so each line counts once, even if a process is killed at any moment.
"""

import hashlib
import io
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import IO, Any

from iolab.errors import StoreError
from iolab.files import open_own
from iolab.locale import Phrase
from iolab.store.frames import compressed, footer, read_footer, sync_folder, whole_number

SEALED = ".zst"
"""Suffix of a sealed part."""
CHUNK = 8 * 2**20
"""Size of the lines in one zstd frame [bytes]."""
MAX_LINE = 64 * 2**20
"""Maximum length of a line [bytes]; a longer line was not written by iolab."""
TRIES = 100
"""Number of times that the parts are listed again while a different process seals them."""


def parts_of(folder: Path, name: str) -> list[Path]:
    """Return the files with the lines of a journal, oldest first."""
    stem, _, suffix = name.partition(".")
    pattern = re.compile(rf"{re.escape(stem)}-(\d{{3,9}})\.{re.escape(suffix)}({re.escape(SEALED)})?")
    found: dict[int, Path] = {}
    for entry in [each.name for each in folder.iterdir()] if folder.is_dir() else ():
        if (match := pattern.fullmatch(entry)) and (match[2] or int(match[1]) not in found):
            found[int(match[1])] = folder / entry
    parts = [found[number] for number in sorted(found)]
    return [*parts, folder / name] if (folder / name).exists() else parts


def next_part(folder: Path, name: str) -> Path:
    """Return the path to which a journal is renamed to become the next part."""
    stem, _, suffix = name.partition(".")
    numbers = [int(path.name[len(stem) + 1 :].partition(".")[0]) for path in parts_of(folder, name)
               if path.name != name]  # fmt: skip
    return folder / f"{stem}-{max(numbers, default=0) + 1:03d}.{suffix}"


def stored_lines(folder: Path, name: str) -> Iterator[tuple[str, bytes]]:
    """Yield the place and the bytes of each line; only the last line may be incomplete, without its line end.

    Raises:
        StoreError: a part is damaged or cannot be read.
    """
    with ExitStack() as stack:
        for path, file in _opened(folder, name, stack):
            number = 0
            try:
                for number, line in enumerate(_lines(path, file), start=1):  # errors name this line
                    yield f"{path}:{number}", line
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or error
                raise StoreError(
                    Phrase("store.restore-from-copy", path=f"{path}:{number + 1}", reason=reason)
                ) from error


def count_lines(folder: Path, name: str) -> int:
    """Return the number of complete lines, without decompressing sealed parts.

    Raises:
        OSError, ValueError: a part cannot be read.
    """
    with ExitStack() as stack:
        return sum(_count(path, file) for path, file in _opened(folder, name, stack))


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The identity of a journal, which only grows: the first line identifies the journal, and its length and last line
    show how far it has grown."""

    trials: int
    """Number of complete lines."""
    first: str
    """SHA-256 of the first line; empty: the journal has no line."""
    last: str
    """SHA-256 of the last line."""


def identity(folder: Path, name: str) -> Identity:
    """Return the identity of a journal; sealed parts are not decompressed.

    Raises:
        StoreError: a part cannot be read.
    """
    trials, first, last = 0, "", ""
    with ExitStack() as stack:
        for path, file in _opened(folder, name, stack):
            try:
                count, begin, end = _ends(path, file)
            except (OSError, ValueError) as error:
                raise StoreError(Phrase("store.restore-from-copy", path=path, reason=error)) from error
            trials, first, last = trials + count, first or begin, end or last
    return Identity(trials=trials, first=first, last=last)


def seal(part: Path) -> None:
    """Replace a part with its compressed form, which is read back and compared before the part is removed.

    Raises:
        OSError: the disk is full, or the data read back differs from the data written.
    """
    sealed = part.with_name(part.name + SEALED)
    fresh = part.with_name(f".{sealed.name}.new")
    _compress(part, fresh)
    with part.open("rb") as ours, fresh.open("rb") as theirs:
        if any(mine != other for mine, other in zip_longest(ours, _lines(sealed, theirs))):
            raise ValueError(Phrase("store.sealed-content-differs"))
    fresh.replace(sealed)
    sync_folder(part.parent)
    part.unlink()
    sync_folder(part.parent)


def _ends(path: Path, file: IO[bytes]) -> tuple[int, str, str]:
    """Return the number of complete lines of a part, and the digests of its first and last line."""
    if path.suffix == SEALED:
        values, _ = read_footer(file)
        return whole_number(values, "lines"), str(values.get("first", "")), str(values.get("last", ""))
    first, last, count = b"", b"", 0
    for line in file:
        if line.endswith(b"\n"):
            first, last, count = first or line, line, count + 1
    return count, _sha256(first), _sha256(last)


def _sha256(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest() if line else ""


def _compress(part: Path, fresh: Path) -> None:
    digest, lines, size = hashlib.sha256(), 0, 0
    with (
        part.open("rb") as source,
        os.fdopen(open_own(fresh, flags=os.O_WRONLY | os.O_TRUNC), "wb") as target,
    ):
        while chunk := source.read(CHUNK):
            digest.update(chunk)
            lines, size = lines + chunk.count(b"\n"), size + len(chunk)
            target.write(compressed(chunk))
        source.seek(0)
        _, first, last = _ends(part, source)
        ends = {"first": first, "last": last}
        target.write(footer({"lines": lines, "bytes": size, "sha256": digest.hexdigest(), **ends}))
        target.flush()
        os.fsync(target.fileno())


def _opened(folder: Path, name: str, stack: ExitStack) -> list[tuple[Path, IO[bytes]]]:
    """Return the parts as open files, so a part that is sealed in the meantime stays readable."""
    for _ in range(TRIES):
        with suppress(FileNotFoundError):
            parts = parts_of(folder, name)
            files: list[tuple[Path, IO[bytes]]] = [
                (path, stack.enter_context(path.open("rb"))) for path in parts
            ]
            if parts_of(folder, name) == parts:
                return files
    raise StoreError(Phrase("store.parts-change", path=folder / name))


def _count(path: Path, file: IO[bytes]) -> int:
    if path.suffix == SEALED:
        return whole_number(read_footer(file)[0], "lines")
    return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(CHUNK), b""))


def _lines(path: Path, file: IO[bytes]) -> Iterator[bytes]:
    if path.suffix != SEALED:
        yield from file
        return
    promised, _ = read_footer(file)
    file.seek(0)
    content, digest, number = _decompressing(file), hashlib.sha256(), 0
    while line := content.readline(MAX_LINE):
        if not line.endswith(b"\n"):
            raise ValueError(Phrase("store.sealed-line-cut"))
        digest.update(line)
        number += 1
        yield line
    if number != promised.get("lines") or digest.hexdigest() != promised.get("sha256"):
        raise ValueError(Phrase("store.sealed-content-differs"))


def _decompressing(file: IO[bytes]) -> IO[bytes]:
    import pyarrow as pa

    stream: Any = pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd")
    return io.BufferedReader(stream, 1 << 20)
