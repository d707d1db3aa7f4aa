"""Reading the raw samples of one trial, when somebody asks for them. They may be large: never read them all at once."""

import gzip
import json
import re
import zlib
from pathlib import Path

from iolab.errors import StoreError
from iolab.store.folder import SAMPLES

MOST_BYTES = 64 * 2**20
"""Of one trial's samples, unpacked; more is no trial of ours."""
_KEY = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
"""A key is a file name, never a path."""


def read_samples(folder: Path, key: str) -> object | None:
    """Return what a trial stored beside its record, as JSON; None where it stored nothing.

    Raises:
        StoreError: the file is damaged, too large or cannot be read.
    """
    path = folder / SAMPLES / f"{key}.json.gz"
    if not _KEY.fullmatch(key) or not path.is_file():
        return None
    try:
        with gzip.open(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise StoreError(f"reading {path}: more than {MOST_BYTES // 2**20} MiB unpacked; allowed is less")
        found: object = json.loads(data)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise StoreError(
            f"reading {path}: {error}; restore the file from a copy, or measure again"
        ) from error
    return found
