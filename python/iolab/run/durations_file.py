"""What earlier runs on this host took, in a file of the user's cache."""

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path

from iolab.files import cache_folder, write_whole
from iolab.plan.durations import Learned, Took, decode_learned, encode_learned

MOST_BYTES = 1 << 20
"""Of the file; a larger one is not ours."""


def durations_file() -> Path:
    """Return where it lies (XDG base directories)."""
    return cache_folder() / "durations.json"


def recall(path: Path) -> Learned:
    """Return what is known; nothing where the file is absent or damaged."""
    try:
        if path.stat().st_size > MOST_BYTES:
            return Learned()
        return decode_learned(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError):
        return Learned()


def remember(path: Path, took: Sequence[Took]) -> None:
    """Add what trials took, whole or not at all; where nothing can be written, the next run knows no more than this."""
    if not took:
        return
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(encode_learned(recall(path).also(took)), indent=1))
