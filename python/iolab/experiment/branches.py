"""What each factor does to each section of a document, taken apart once: branches of levels and their changes."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from iolab.errors import InputError
from iolab.experiment.document import line_of
from iolab.experiment.experiment import Cell, Factor
from iolab.experiment.paths import Misled, Places
from iolab.experiment.problems import Problems
from iolab.experiment.sections import Section


class Change(NamedTuple):
    """What a level does to one section."""

    order: tuple[int, int, int, int]
    """Wider places first, then `*` before names, then as written: what is said more exactly holds."""
    words: tuple[str, ...]
    """Place within the section."""
    value: Any
    """Put there."""
    line: int
    """In the file."""


class Branch(NamedTuple):
    """A factor, as far as it concerns one section."""

    name: str
    """Of the factor."""
    levels: Mapping[str, tuple[tuple[Change, ...], "tuple[Branch, ...]"]]
    """Label to the changes it makes and the sub-factors under it."""


def names_of(branches: Iterable[Branch]) -> tuple[str, ...]:
    """Return the factors of branches, and those below them."""
    found: dict[str, None] = {}
    for branch in branches:
        found[branch.name] = None
        for _, inner in branch.levels.values():
            found.update(dict.fromkeys(names_of(inner)))
    return tuple(found)


def narrowed(branches: Iterable[Branch], keys: frozenset[str]) -> Iterable[Branch]:
    """Yield the branches that change one of these keys, or the section as a whole."""
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
    """Yield the changes that a cell's levels make."""
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
    problems.add(0, f"resolving the path {path}", misled.word, misled.said)
    return problems.error().problems
