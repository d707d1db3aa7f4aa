"""Reading what a trial stored beside its record, when somebody asks for it. It may be large: never read all at once."""

import gzip
import re
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from iolab.errors import StoreError
from iolab.record.packets import PacketTrial
from iolab.store.codec import decode_packets
from iolab.store.file_names import PACKETS, SAMPLES, records_folder

PROFILE, FOLDED = ".profile", ".folded"
"""What the names of files with folded stacks have after the key, and at the end."""
MOST_BYTES = 64 * 2**20
"""Of one trial's samples, unpacked; more is no trial of ours."""
_KEY = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
"""A key is a file name, never a path."""


def stacks_of(folder: Path) -> Callable[[str], dict[str, str]]:
    """Return what reads the folded stacks of a trial's profiles by its key; it looks once which trials stored any.

    They are by machine; this computer has no name.
    """
    stored: dict[str, list[Path]] = {}
    for path in sorted((records_folder(folder) / SAMPLES).glob(f"*{PROFILE}*{FOLDED}")):
        stored.setdefault(path.name.partition(PROFILE)[0], []).append(path)
    return lambda key: _read_stacks(stored.get(key, ()), key)


def _read_stacks(paths: Sequence[Path], key: str) -> dict[str, str]:
    found = {}
    for path in paths:
        machine = path.name.removeprefix(f"{key}{PROFILE}").removesuffix(FOLDED).lstrip(".")
        with suppress(OSError):
            found[machine] = path.read_text(encoding="utf-8", errors="replace")[:MOST_BYTES]
    return found


def read_packets(folder: Path, key: str) -> PacketTrial | None:
    """Return everything behind the metrics of a packet trial; None where it stored nothing.

    Raises:
        StoreError: the file is damaged, too large, of another version, or has a field too few or too many.
    """
    path = records_folder(folder) / SAMPLES / f"{key}{PACKETS}"
    if not _KEY.fullmatch(key) or not path.is_file():
        return None
    try:
        with gzip.open(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise StoreError(f"reading {path}: more than {MOST_BYTES // 2**20} MiB unpacked; allowed is less")
        return decode_packets(data)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise StoreError(
            f"reading {path}:1: {error}; restore the file from a copy, or measure again"
        ) from error
