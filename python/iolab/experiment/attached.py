"""Files that an experiment names: what they hold stands in the document in place of their names.

They lie beside the experiment file or below its folder, and a run keeps copies of them, so that it can be resumed
without the originals.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from iolab.experiment.document import line_of
from iolab.experiment.problems import Problems

KEYS = ("rate_trace", "delivery_trace", "jitter_samples")
"""Keys of the language whose value may be a file's name."""
COPIES = "files"
"""Where a run folder keeps them."""
MOST_BYTES = 1 << 20
"""Of one file."""
ALLOWED = "the name of a readable file of at most 1 MiB of text, in the experiment's folder or below it"


class FileText(str):  # noqa: SLOT000 - a name wherever a name is wanted, with two fields more
    """The name of a file, with what it holds."""

    text: str
    """All of it."""
    lines: tuple[str, ...]
    """Its lines, without comments (#) and blank ones."""

    @classmethod
    def of(cls, name: str, text: str) -> "FileText":
        """Return a name with its text."""
        self = cls(name)
        self.text = text
        bare = (line.split("#", maxsplit=1)[0].strip() for line in text.splitlines())
        self.lines = tuple(line for line in bare if line)
        return self


def attach(document: Any, folder: Path, problems: Problems) -> Mapping[str, str]:
    """Put what files hold in the place of their names; return the texts by name."""
    found: dict[str, FileText] = {}
    for holder, key in list(_names(document)):
        name = holder[key]
        if name == "none":
            continue
        if name not in found:
            read = _read(folder, name)
            if isinstance(read, str):
                problems.add(line_of(holder, key), f"reading the file {name}", read, ALLOWED)
                holder[key] = "none"
                continue
            found[name] = FileText.of(name, read.decode("utf-8", "replace"))
        holder[key] = found[name]
    return {name: held.text for name, held in found.items()}


def _names(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield where in the document a file's name stands: the mapping or list, and the key."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inside:
        path, _, last = str(key).rpartition(".")
        if last not in KEYS:
            yield from _names(item)
        elif isinstance(item, str):
            yield value, key
        elif path and isinstance(item, dict | list):  # a factor: its levels
            levels = item.items() if isinstance(item, dict) else enumerate(item)
            yield from ((item, level) for level, name in levels if isinstance(name, str))


def _read(folder: Path, name: str) -> bytes | str:
    """Return what a file holds, or why it cannot be had."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not name.isprintable():
        return "a path that leads out of the experiment's folder"
    for place in (folder / path, folder / COPIES / path):
        try:
            if not place.exists():
                continue
            if not place.is_file():
                return "not a file"
            if place.stat().st_size > MOST_BYTES:
                return f"a file of {place.stat().st_size} bytes"
            return place.read_bytes()
        except OSError as error:
            return error.strerror or str(error)
    return "no such file"
