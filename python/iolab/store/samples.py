"""Reading what a trial stored beside its record, when somebody asks for it. It may be large: never read all at once."""

import gzip
import re
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from iolab.errors import StoreError
from iolab.results.packets import PacketTrial
from iolab.store.codec import decode_packets, packets_in
from iolab.store.file_names import FIRST_RAW, PACKETS, SAMPLES, records_folder

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
    if not _KEY.fullmatch(key):
        return None
    samples = records_folder(folder) / SAMPLES
    for ending, decode in ((PACKETS, decode_packets), (FIRST_RAW, packets_in)):
        if (path := samples / f"{key}{ending}").is_file():
            return _read(path, decode)
    return None


def _read(path: Path, decode: Callable[[bytes], PacketTrial | None]) -> PacketTrial | None:
    try:
        with gzip.open(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise ValueError(f"more than {MOST_BYTES // 2**20} MiB unpacked; allowed is less")
        return decode(data)
    except StoreError as error:
        raise StoreError(f"{path}:1: {error}") from None
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise StoreError(
            f"reading {path}:1: {error}; restore the file from a copy, or measure again"
        ) from error
