"""Files that an experiment names: what they hold stands in the document in place of their names.

They lie beside the experiment file or below its folder, and a run keeps copies of them, so that it can be resumed
without the originals.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from iolab.experiment.document import line_of
from iolab.experiment.problems import Problems

RECORDING = "recording"
KEYS = ("rate_trace", "delivery_trace", "jitter_samples", "job_file", RECORDING)
"""Keys of the language whose value may be a file's name."""
COPIES = "files"
"""Where a run folder keeps them."""
MOST_BYTES = 1 << 20
"""Of one file."""
MOST_RECORDED_BYTES = 64 << 20
"""Of a recording, which is no text."""
RECORDING_ALLOWED = "the name of a readable file of at most 64 MiB, in the experiment's folder or below it"
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


class FileBytes(str):  # noqa: SLOT000 - as FileText
    """The name of a file that is no text, with what it holds."""

    content: bytes
    """All of it."""

    @classmethod
    def of(cls, name: str, content: bytes) -> "FileBytes":
        """Return a name with its content."""
        self = cls(name)
        self.content = content
        return self


def attach(document: Any, folder: Path, problems: Problems) -> Mapping[str, bytes]:
    """Put what files hold in the place of their names; return that by name."""
    found: dict[str, FileText | FileBytes] = {}
    contents: dict[str, bytes] = {}
    for holder, key, recorded in list(_names(document)):
        name = holder[key]
        if name == "none":
            continue
        if name not in found:
            read = _read(folder, name, MOST_RECORDED_BYTES if recorded else MOST_BYTES)
            if isinstance(read, str):
                allowed = RECORDING_ALLOWED if recorded else ALLOWED
                problems.add(line_of(holder, key), f"reading the file {name}", read, allowed)
                holder[key] = "none"
                continue
            contents[name] = read
            text = None if recorded else read.decode("utf-8", "replace")
            found[name] = FileBytes.of(name, read) if text is None else FileText.of(name, text)
        holder[key] = found[name]
    return contents


def _names(value: Any) -> Iterator[tuple[Any, Any, bool]]:
    """Yield where in the document a file's name stands: the mapping or list, the key, whether it is a recording's."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inside:
        path, _, last = str(key).rpartition(".")
        if last not in KEYS:
            yield from _names(item)
        elif isinstance(item, str):
            yield value, key, last == RECORDING
        elif path and isinstance(item, dict | list):  # a factor: its levels
            levels = item.items() if isinstance(item, dict) else enumerate(item)
            named = (level for level, name in levels if isinstance(name, str))
            yield from ((item, level, last == RECORDING) for level in named)


def _read(folder: Path, name: str, most_bytes: int) -> bytes | str:
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
            if place.stat().st_size > most_bytes:
                return f"a file of {place.stat().st_size} bytes"
            return place.read_bytes()
        except OSError as error:
            return error.strerror or str(error)
    return "no such file"
