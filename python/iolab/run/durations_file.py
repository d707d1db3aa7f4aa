"""Durations of earlier runs on this host, in a file in the user's cache."""

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path

from iolab.files import cache_folder, write_whole
from iolab.plan.durations import Learned, Took, decode_learned, encode_learned

MOST_BYTES = 1 << 20
"""Maximum size of the file; a larger file is not iolab's and is ignored."""


def durations_file() -> Path:
    """Return the path of the file (XDG base directories)."""
    return cache_folder() / "durations.json"


def recall(path: Path) -> Learned:
    """Return the stored durations; empty if the file is missing or damaged."""
    try:
        if path.stat().st_size > MOST_BYTES:
            return Learned()
        return decode_learned(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError):
        return Learned()


def remember(path: Path, took: Sequence[Took]) -> None:
    """Add the durations of trials, either all or none; if the file cannot be written, the durations are discarded."""
    if not took:
        return
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(encode_learned(recall(path).also(took)), indent=1))
