"""Read the files that an experiment names, and put their content in the document instead of the names.

The files are in or below the folder of the experiment file. A run stores copies of them, so that it can be resumed
without the originals.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from iolab.experiment.model.files import FileBytes, FileText
from iolab.experiment.reading.document import Items, Table, line_of
from iolab.experiment.reading.problems import Problems
from iolab.frozen import frozen
from iolab.locale import Phrase, Text

RECORDING = "recording"

KEYS = ("rate_trace", "delivery_trace", "jitter_samples", "job_file", RECORDING)
"""Keys whose value may be a file name."""

COPIES = "files"
"""Folder of the copies in a run folder."""

MOST_BYTES = 1 << 20
"""Maximum size of a text file."""

MOST_RECORDED_BYTES = 64 << 20
"""Maximum size of a recording, which is a binary file."""

RECORDING_ALLOWED = Phrase("check.name-of-readable-file")

ALLOWED = Phrase("check.name-of-readable-text")


def attach(document: Any, folder: Path, problems: Problems) -> Mapping[str, bytes]:
    """Replace file names in the document with the content of the files; return the contents by name."""
    found: dict[str, FileText | FileBytes] = {}
    contents: dict[str, bytes] = {}
    for holder, key, recorded in list(_names(document)):
        name = holder[key]
        if name == "none":
            continue
        if name not in found:
            read = _read(folder, name, MOST_RECORDED_BYTES if recorded else MOST_BYTES)
            if isinstance(read, str | Phrase):
                allowed = RECORDING_ALLOWED if recorded else ALLOWED
                problems.add(
                    line_of(holder, key), Phrase("check.reading-file-name", name=name), read, allowed
                )
                holder[key] = "none"
                continue
            contents[name] = read
            text = None if recorded else read.decode("utf-8", "replace")
            found[name] = FileBytes.of(name, read) if text is None else FileText.of(name, text)
        holder[key] = found[name]
    return contents


def _names(value: Any) -> Iterator[tuple[Any, Any, bool]]:
    """Yield each file name in the document: its container, its key, and whether the file is a recording."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inside:
        path, _, last = str(key).rpartition(".")
        if last not in KEYS:
            yield from _names(item)
        elif isinstance(item, str):
            yield value, key, last == RECORDING
        elif path and isinstance(item, dict | list):  # levels of a factor
            levels = item.items() if isinstance(item, dict) else enumerate(item)
            named = (level for level, name in levels if isinstance(name, str))
            yield from ((item, level, last == RECORDING) for level in named)


def _read(folder: Path, name: str, most_bytes: int) -> bytes | Text:
    """Return the content of a file, or the reason why it cannot be read."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not name.isprintable():
        return Phrase("check.path-out-of-folder")
    for place in (folder / path, folder / COPIES / path):
        try:
            if not place.exists():
                continue
            if not place.is_file():
                return Phrase("check.not-file")
            if place.stat().st_size > most_bytes:
                return Phrase("check.file-of-bytes", size=place.stat().st_size)
            return place.read_bytes()
        except OSError as error:
            return error.strerror or str(error)
    return Phrase("check.no-such-file")


EACH = "[*]"

MOST_COUNT = 1000
"""Maximum count of a machine; a bridge in the kernel has about this many ports."""

COUNT_ALLOWED = Phrase("check.whole-number-up-to", most=MOST_COUNT)

GROUPS = ("machines", "links", "volumes", "measure")

World = dict[tuple[str, str], tuple[Any, int]]
"""Data and line of every section, by group and name; counted machines are expanded."""


class Named(Table):
    """The levels of a named factor, even if the name looks like a path."""

    __slots__ = ()


@frozen
class Written:
    """The sections as written in the file."""

    groups: Mapping[str, Table]
    """Sections of each group, by name."""
    counts: Mapping[str, int]
    """Count of each counted machine in the base document, by the machine's name."""


def expand(document: Table, problems: Problems) -> None:
    """Expand the counted machines in a document; report problems with the counts."""
    lab = document.get("lab")
    if not isinstance(lab, Table):
        return
    groups = {group: _table(lab, group) for group in GROUPS[:-1]} | {"measure": _table(document, "measure")}
    counts = dict(_counts(groups["machines"], problems))
    written = Written(groups, counts)
    _check_factors(document.get("factors"), counts, problems)
    if not counts or problems:
        return
    factors = _Factors(written)
    base = factors.base
    _check_names(base, written, problems)
    document["factors"] = factors.rewritten(document.get("factors"))
    for group, content in groups.items():
        _fill(content, [(name, *given) for (of, name), given in base.items() if of == group])


def _table(holder: Table, key: str) -> Table:
    value = holder.get(key)
    return value if isinstance(value, Table) else Table()


def _counts(machines: Table, problems: Problems) -> Iterator[tuple[str, int]]:
    """Yield the counted machines with their counts."""
    for name, data in machines.items():
        if isinstance(data, Table) and "count" in data:
            doing, line = (
                Phrase("check.reading-lab-machines-count", name=name),
                line_of(data, "count", data.line),
            )
            if _is_count(data["count"]):
                yield name, data["count"]
            else:
                problems.add(line, doing, data["count"], COUNT_ALLOWED)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST_COUNT


def _check_factors(content: object, counts: Mapping[str, int], problems: Problems) -> None:
    """Report levels of a count that are not numbers, and levels that set the count of a machine without a `count`."""
    if not isinstance(content, Table):
        return
    for key, value in content.items():
        name, line = _counted(key), line_of(content, key)
        if not name:
            _check_factors(value, counts, problems)
            continue
        if name not in counts:
            advice = Phrase("check.write-count-of-one", name=name)
            problems.add(
                line, Phrase("check.reading", place=key), name, Phrase("check.machine-with-count"), advice
            )
        for _, level in _levels(value):
            if not _is_count(level):
                problems.add(line, Phrase("check.reading", place=key), level, COUNT_ALLOWED)


def _counted(path: str) -> str:
    """Return the machine whose count a path sets; empty: the path sets a different key."""
    group, _, rest = path.partition(".")
    name, _, key = rest.rpartition(".")
    return name if group == "machines" and key == "count" else ""


def _levels(value: object) -> Iterator[tuple[str, object]]:
    """Yield label and value of each level of a path, or the single value in a level."""
    match value:
        case Table():
            yield from value.items()
        case Items():
            yield from ((str(one), one) for one in value)
        case one:
            yield str(one), one


def _check_names(base: World, written: Written, problems: Problems) -> None:
    """Report machines whose name equals a numbered machine's name, and each `[*]` that matches no counted machine."""
    plain = set(written.groups["machines"]) - set(written.counts)
    for name, count in written.counts.items():
        for taken in sorted(plain & {f"{name}{number}" for number in range(1, count + 1)}):
            line = line_of(written.groups["machines"], taken)
            problems.add(
                line,
                Phrase("check.counting-machines"),
                taken,
                Phrase("check.name-that-no-count-makes", name=name),
            )
    for (group, name), (data, line) in base.items():
        left = next((text for text in (name, *_texts(data)) if EACH in text), None)
        if left is not None:
            known = [f"{each}{EACH}" for each in written.counts]
            allowed = Phrase("check.list-or-each", known=known, each=EACH)
            problems.add(line, Phrase("check.reading-part", place=group, part=name), left, allowed)


def _texts(data: Any) -> Iterator[str]:
    match data:
        case str():
            yield data
        case Mapping():
            for key, value in data.items():
                yield str(key)
                yield from _texts(value)
        case list():
            for value in data:
                yield from _texts(value)


def _world(written: Written, counts: Mapping[str, int]) -> World:
    """Return all sections with the given number of each counted machine."""
    world: World = {}
    for group, content in written.groups.items():
        for name, data in content.items():
            line = line_of(content, name)
            if group == "machines" and name in written.counts:
                plain = _copy(data, {key: value for key, value in data.items() if key != "count"})
                copies = [(f"{name}{number}", _numbered(plain, number)) for number in _numbers(counts[name])]
            elif group != "measure" and EACH in name and (count := _common(data, counts)):
                copies = [
                    (name.replace(EACH, str(number)), _numbered(data, number)) for number in _numbers(count)
                ]
            else:
                copies = [(name, _listed(data, counts))]
            world |= {(group, each): (value, line) for each, value in copies}
    return world


def _numbers(count: int) -> range:
    return range(1, count + 1)


def _common(data: Any, counts: Mapping[str, int]) -> int:
    """Return the number of machines for which `[*]` in a value stands: the minimum of the counts of the machines that
    it names.

    The result is 0 if the value names no counted machine.
    """
    texts = list(_texts(data))
    return min(
        (count for name, count in counts.items() if any(f"{name}{EACH}" in text for text in texts)), default=0
    )


def _numbered(data: Any, number: int) -> Any:
    """Return data in which a number replaces each `[*]`."""
    match data:
        case str():
            return data.replace(EACH, str(number))
        case Mapping():
            return _copy(
                data, {_numbered(key, number): _numbered(value, number) for key, value in data.items()}
            )
        case list():
            return _copy(data, [_numbered(value, number) for value in data])
        case _:
            return data


def _listed(data: Any, counts: Mapping[str, int]) -> Any:
    """Return data whose list items with `[*]` are repeated, once for each counted machine."""
    match data:
        case Mapping():
            return _copy(data, {key: _listed(value, counts) for key, value in data.items()})
        case list():
            found: list[Any] = []
            for item in data:
                count = _common(item, counts)
                found += (
                    [_numbered(item, number) for number in _numbers(count)]
                    if count
                    else [_listed(item, counts)]
                )
            return _copy(data, found)
        case _:
            return data


def _copy(data: Any, content: Any) -> Any:
    """Return content in a container of the same type, with the same line numbers."""
    match data:
        case Table():
            table = Table(content, line=data.line)
            table.lines = {key: line_of(data, key, data.line) for key in content}
            table.texts = {key: text for key, text in data.texts.items() if key in content}
            return table
        case Items():
            items = Items(content, line=data.line)
            items.texts = dict(data.texts) if len(content) == len(data) else {}
            return items
        case _:
            return content


def _fill(content: Table, sections: list[tuple[str, Any, int]]) -> None:
    content.clear()
    content.lines.clear()
    for name, data, line in sections:
        content[name] = data
        content.lines[name] = line


class _Factors:
    """Rewrites levels that set the count of a machine as levels that set the sections that differ with the count."""

    def __init__(self, written: Written) -> None:
        self._written = written
        self.base = _world(written, written.counts)
        """All sections without any level applied."""

    def rewritten(self, content: Any) -> Any:
        """Return factors, or the levels of a factor, with the counts replaced."""
        if not isinstance(content, Table):
            return content
        found = Table(line=content.line)
        found.texts = dict(content.texts)
        for key, value in content.items():
            line = line_of(content, key, content.line)
            name = _counted(key)
            if not name:
                new = {key: self.rewritten(value)}
            elif isinstance(value, Table | Items):
                levels = Named(line=line)
                for label, count in _levels(value):
                    levels[label] = self._sets(name, count, line)
                    levels.lines[label] = line
                new = {key: levels}
            else:
                new = self._sets(name, value, line)
            for path, given in new.items():
                found[path] = given
                found.lines[path] = line
        return found

    def _sets(self, name: str, count: Any, line: int) -> Table:
        """Return the sections that differ from the base document if a machine has a different count."""
        world = _world(self._written, {**self._written.counts, name: count})
        sets = Table(line=line)
        for group, each in {**self.base, **world}:
            path = each if group == "measure" else f"{group}.{each}"
            before, now = (there.get((group, each), (None, 0))[0] for there in (self.base, world))
            if now is None:
                sets[path] = "none"
            elif before is None:
                sets[path] = now
            elif now != before:
                sets |= {f"{path}.{key}": now[key] for key in now if now[key] != before[key]}
        sets.lines = dict.fromkeys(sets, line)
        return sets
