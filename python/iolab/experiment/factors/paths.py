"""Resolve dotted paths to places in the document, and set the values of levels there.

Data is copied, never modified in place.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import reduce
from operator import or_
from typing import Any, NamedTuple, TypeVar, cast

from iolab.errors import InputError
from iolab.experiment.experiment import Cell, Factor, Section, Target
from iolab.experiment.reading.attached import EACH
from iolab.experiment.reading.document import Items, Table, line_of
from iolab.experiment.reading.grammar import Lost, locate, models
from iolab.experiment.reading.old_keys import with_new_words
from iolab.experiment.reading.problems import Problems
from iolab.experiment.reading.sections import model_of, tables
from iolab.frozen import frozen
from iolab.locale import Phrase, Text

Content = TypeVar("Content", Table, Items)

GROUPS = ("machines", "links", "volumes")
"""First words of paths into the lab."""


class Misled(NamedTuple):
    """A path that does not resolve."""

    word: str
    """The word that does not match."""
    known: tuple[str, ...]
    """Valid words at that position."""
    said: Text
    """Description of a valid path, or of a valid next word."""


class NoSuchItem(LookupError):
    """A path with a list index that is not a number or is past the end of the list."""

    def __init__(self, word: str, line: int) -> None:
        self.word = word
        """The invalid index."""
        self.line = line
        """Line of the level that has the path."""
        super().__init__(word)


@frozen
class Places:
    """The places to which paths can resolve in one experiment."""

    sections: Mapping[Section, Any]
    """Pydantic annotation of the data of each section; if the kind is varied, the annotation covers all kinds."""
    base: frozenset[Section]
    """The sections of the base document; all other sections are created by a level that sets the whole section."""
    known: dict[str, tuple[Target, ...] | Misled] = field(default_factory=dict, compare=False)
    """Cache of resolved paths."""

    def names(self, group: str) -> tuple[str, ...]:
        """Return the section names in a group."""
        return tuple(section.name for section in self.sections if section.group == group)

    def is_path(self, key: str) -> bool:
        """Whether a factor's key is a dotted path, and not the name of a named factor."""
        head, dot, _ = key.partition(".")
        return bool(dot) and (head in GROUPS or head == "*" or Section("measure", head) in self.sections)

    def targets(self, path: str) -> tuple[Target, ...] | Misled:
        """Return every place to which a path resolves. A `*` skips sections without such a place."""
        if path not in self.known:
            found = self._targets(path)
            if isinstance(found, Misled):
                renamed = map(self._targets, with_new_words(path))
                found = next((one for one in renamed if not isinstance(one, Misled)), found)
            self.known[path] = found
        return self.known[path]

    def _targets(self, path: str) -> tuple[Target, ...] | Misled:
        words = tuple(path.split("."))
        group, name, rest = self._split(words)
        known = self.names(group)
        stem = name.removesuffix(EACH)
        numbered = (one for one in known if name != stem and one.startswith(stem))
        each = tuple(one for one in numbered if one.removeprefix(stem).isdecimal())
        if not name or (group == "measure" and not rest):
            return Misled(
                path,
                known,
                f"{words[0]}.KEY" if group == "measure" else Phrase("check.name-or-key-of", group=group),
            )
        if name != "*" and name not in known and not each:
            heads = (*GROUPS, *known) if group == "measure" else known
            return Misled(
                name,
                (*heads, "*"),
                Phrase("check.group-or-measure")
                if group == "measure"
                else Phrase("check.one-of-group", group=group),
            )
        sections = [Section(group, one) for one in each or (known if name == "*" else (name,))]
        found: list[Target] = []
        lost: list[Lost] = []
        for section in sections:
            place = locate(self.sections[section], rest)
            if isinstance(place, Lost):
                lost.append(place)
            else:
                found.append(Target(section, place))
        if found:
            return tuple(found)
        if not lost:
            return Misled(path, (), Phrase("check.existing-of-group", group=group))
        furthest = max(lost, key=lambda place: place.depth)
        return Misled(furthest.word, furthest.known, Phrase("check.key-of-this-place"))

    @staticmethod
    def _split(words: tuple[str, ...]) -> tuple[str, str, tuple[str, ...]]:
        if words[0] in GROUPS:
            return words[0], words[1] if len(words) > 1 else "", words[2:]
        return "measure", words[0], words[1:]


def level_paths(factors: "Iterable[Factor]") -> Iterator[str]:
    """Yield every path that a level sets."""
    for factor in factors:
        for level in factor.levels:
            yield from level.sets
            yield from level_paths(level.factors)


def survey(
    tree: Mapping[str, Any], paths: Iterable[str], scopes: Mapping[str, tuple[Target, ...]] | None = None
) -> Places:
    """Return the places of a base document, given every key in it that may be the path of a factor.

    `scopes` has the places of paths that must not be resolved in the document.
    """
    base = tables(tree)
    made: dict[Section, None] = {}
    varied: set[tuple[str, str]] = set()
    for path in paths:
        words = path.split(".")
        group, name, rest = Places._split(tuple(words))
        if group in GROUPS and name and name != "*" and not rest:
            made[Section(group, name)] = None
            varied.add((group, name))
        elif rest in (("kind",), ()) and name:
            varied.add((group, name))
    sections: dict[Section, Any] = {}
    for section in (*base, *made):
        model = model_of(section, base.get(section))
        open_kind = model is None or (section.group, section.name) in varied or (section.group, "*") in varied
        sections[section] = reduce(or_, models()[section.group].values()) if open_kind else model
    return Places(sections, frozenset(base), dict(scopes or {}))


def put(data: Any, words: tuple[str, ...], value: Any, line: int, own: dict[int, Any]) -> Any:
    """Return the data with the value set at a place; missing mappings on the path to it are created.

    Each container on the path is copied once: `own` maps the identity of a container to its copy.

    Raises:
        NoSuchItem: the place is in a list that has no such item.
    """
    if not words:
        return value
    first, rest = words[0], words[1:]
    if isinstance(data, list):
        content: Table | Items = _owned(data, Items, line, own)
        if first != "*" and not (first.isdecimal() and int(first) < len(content)):
            raise NoSuchItem(first, line)
        keys: Sequence[Any] = range(len(content)) if first == "*" else [int(first)]
    else:
        content = _owned(data if isinstance(data, Mapping) else {}, Table, line, own)
        keys = list(content) if first == "*" else [first]
    for key in keys:
        if rest:
            inner = content[key] if first == "*" or isinstance(content, list) else content.get(key)
            content[key] = put(inner, rest, value, line, own)
            content.lines.setdefault(key, line)
        else:
            content[key] = value
            content.lines[key] = line
    return content


def _owned(data: Any, kind: type[Content], line: int, own: dict[int, Any]) -> Content:
    """Return the container if it is already a copy, otherwise a new copy with the same line numbers."""
    if id(data) in own:
        return cast("Content", own[id(data)])
    copy = kind(data, line=getattr(data, "line", line))
    copy.lines.update(getattr(data, "lines", {}))
    own[id(copy)] = copy
    return copy


class Change(NamedTuple):
    """A change that a level makes to one section."""

    order: tuple[int, int, int, int]
    """Sort key: wider places first, then `*` before names, then file order, so that more specific changes override
    others."""
    words: tuple[str, ...]
    """The place within the section."""
    value: Any
    """The new value."""
    line: int
    """Line of the change in the file."""


class Branch(NamedTuple):
    """The part of a factor that changes one section."""

    name: str
    """Name of the factor."""
    levels: Mapping[str, tuple[tuple[Change, ...], "tuple[Branch, ...]"]]
    """Each level's changes of the section, and the level's sub-factors, by label."""


def names_of(branches: Iterable[Branch]) -> tuple[str, ...]:
    """Return the factor names of branches and of the branches below them."""
    found: dict[str, None] = {}
    for branch in branches:
        found[branch.name] = None
        for _, inner in branch.levels.values():
            found.update(dict.fromkeys(names_of(inner)))
    return tuple(found)


def narrowed(branches: Iterable[Branch], keys: frozenset[str]) -> Iterable[Branch]:
    """Yield the branches that change one of the given keys, or the whole section."""
    for branch in branches:
        levels = {
            label: (changes, tuple(narrowed(inner, keys)))
            for label, (changes, inner) in branch.levels.items()
        }
        changed = (change.words[:1] for changes, _ in levels.values() for change in changes)
        if any(not first or first[0] == "*" or first[0] in keys for first in changed) or any(
            inner for _, inner in levels.values()
        ):
            yield Branch(branch.name, levels)


def active(branches: Sequence[Branch], cell: Cell) -> Iterable[Change]:
    """Yield the changes that the levels of a cell make."""
    for branch in branches:
        changes, inner = branch.levels.get(cell.get(branch.name, ""), ((), ()))
        yield from changes
        if inner:
            yield from active(inner, cell)


def branches_of(factors: Sequence[Factor], places: Places) -> dict[Section, tuple[Branch, ...]]:
    """Return, for each section, the factors that change it."""
    found: dict[Section, list[Branch]] = {section: [] for section in places.sections}
    for number, factor in enumerate(factors):
        levels: dict[Section, dict[str, tuple[tuple[Change, ...], tuple[Branch, ...]]]] = {}
        for level in factor.levels:
            changes = _changes(level.sets, number, places)
            inner = (
                {
                    section: branches
                    for section, branches in branches_of(level.factors, places).items()
                    if branches
                }
                if level.factors
                else {}
            )
            for section in {**changes, **inner}:
                levels.setdefault(section, {})[level.label] = (
                    tuple(changes.get(section, ())),
                    inner.get(section, ()),
                )
        for section, own in levels.items():
            found[section].append(Branch(factor.name, own))
    return {section: tuple(branches) for section, branches in found.items()}


def _changes(sets: Mapping[str, object], number: int, places: Places) -> dict[Section, list[Change]]:
    found: dict[Section, list[Change]] = {}
    for path, value in sets.items():
        targets = places.targets(path)
        if isinstance(targets, Misled):
            raise InputError(_misled(path, targets))
        line = line_of(sets, path)
        for target in targets:
            words = target.words
            order = (len(words), words[-1:] != ("kind",), 0 if "*" in path.split(".") else 1, number)
            found.setdefault(target.section, []).append(Change(order, words, value, line))
    return found


def _misled(path: str, misled: Misled) -> Sequence[Any]:
    problems = Problems("factors")
    problems.add(0, Phrase("check.resolving-path", path=path), misled.word, misled.said)
    return problems.error().problems
