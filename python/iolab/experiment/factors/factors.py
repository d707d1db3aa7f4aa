"""Read factors, their levels and their sub-factors."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from iolab.experiment.experiment import Factor, Level
from iolab.experiment.factors.paths import GROUPS, Misled, Places
from iolab.experiment.factors.product import MOST_CELLS, MOST_FACTORS, count, label_of, names
from iolab.experiment.reading.attached import Named
from iolab.experiment.reading.document import Items, Table, line_of, written
from iolab.experiment.reading.problems import Problems, did_you_mean, listed
from iolab.locale import Phrase, Text

LONGEST_LABEL = 100
"""Maximum length of a level label, which must fit in a table column [characters]."""

MOST_CHANGES = 50_000
"""Maximum number of places that all levels of all factors set; a `*` counts once for each match."""

LEVELS_ALLOWED = Phrase("check.list-of-values-or-mapping")

NAMED_ALLOWED = Phrase("check.mapping-of-labels")


def possible_paths(content: object) -> Iterator[str]:
    """Yield every key below `factors`: if a key is a path, it shows the sections that levels create, and the kinds that
    levels vary."""
    if isinstance(content, Mapping):
        for key, value in content.items():
            yield key
            yield from possible_paths(value)


def read_factors(
    content: object, line: int, places: Places, problems: Problems, *, within: str = "factors"
) -> tuple[Factor, ...]:
    """Return the factors in a mapping from names to levels; report problems and omit invalid factors."""
    if content is None:
        return ()
    if not isinstance(content, Mapping):
        problems.add(
            line, Phrase("check.reading", place=within), content, Phrase("check.mapping-of-path-or-name")
        )
        return ()
    reader = _Reader(places, problems)
    found: list[Factor] = []
    for name in content:
        at = line_of(content, name, line)
        factor = reader.factor(name, content[name], at, f"{within}.{name}")
        if factor is not None:
            before = len(problems)
            _check_apart(factor, found, at, Phrase("check.reading-part", place=within, part=name), problems)
            if len(problems) == before:
                found.append(factor)
    return tuple(found)


def check_size(factors: Sequence[Factor], line: int, places: Places, problems: Problems) -> bool:
    """Report a problem if there are too many factors or cells; return whether the cells can be enumerated."""
    depth = _depth(factors)
    if depth > MOST_FACTORS:
        problems.add(
            line,
            Phrase("check.counting-factors"),
            Phrase("check.in-one-cell", count=depth),
            Phrase("check.at-most-in-one-cell", most=MOST_FACTORS),
        )
        return False
    changes = _changes(factors, places)
    if changes > MOST_CHANGES:
        seen, allowed = (
            Phrase("check.places-set-by-all-levels", changes=changes),
            Phrase("check.at-most-places-set", most_changes=MOST_CHANGES),
        )
        problems.add(line, Phrase("check.counting-what-levels-set"), seen, allowed)
        return False
    total = count(factors)
    if total > MOST_CELLS:
        seen = (
            Phrase("check.cells", count=total) if total < 10**18 else Phrase("check.too-many-cells-to-count")
        )
        problems.add(
            line,
            Phrase("check.counting-cells"),
            seen,
            Phrase("check.at-most-cells", most_cells=MOST_CELLS),
            Phrase("check.drop-levels-or-nest-factors"),
        )
        return False
    return True


class _Reader:
    """Reader for one mapping of factors."""

    def __init__(self, places: Places, problems: Problems) -> None:
        self.places = places
        self.problems = problems

    def factor(self, name: str, content: object, line: int, within: str) -> Factor | None:
        doing, before = Phrase("check.reading", place=within), len(self.problems)
        if name in self.places.names("measure"):
            self.problems.add(
                line,
                doing,
                name,
                Phrase("check.path-or-free-name"),
                Phrase("check.to-vary-a-key", name=name),
            )
            return None
        if not content or not isinstance(content, Table | Items):
            allowed = LEVELS_ALLOWED if self.places.is_path(name) else NAMED_ALLOWED
            self.problems.add(line, doing, content or Phrase("check.no-levels"), allowed)
            return None
        path = self.places.is_path(name) or self._is_meant_as_path(name, content)
        if path and not isinstance(content, Named):
            levels = self._path_levels(name, content, line, within)
        elif isinstance(content, Items):
            near = did_you_mean(name, GROUPS)
            self.problems.add(
                line,
                doing,
                Phrase("check.a-list"),
                Phrase("check.allowed-as-no-path", allowed=NAMED_ALLOWED, name=name),
                near,
            )
            return None
        else:
            levels = self._named_levels(content, line, within)
        uses = Counter(level.label for level in levels)
        for label in (label for label in uses if uses[label] > 1):
            self.problems.add(
                line, doing, Phrase("check.label-twice", label=label), Phrase("check.labels-differ")
            )
        if (
            levels
            and not any(level.sets or level.factors for level in levels)
            and len(self.problems) == before
        ):
            self.problems.add(
                line,
                doing,
                Phrase("check.levels-change-nothing"),
                Phrase("check.level-that-sets-a-path"),
            )
            return None
        return Factor(name, tuple(levels)) if levels else None

    @staticmethod
    def _is_meant_as_path(name: str, content: Table | Items) -> bool:
        if "." not in name or any(letter.isspace() for letter in name):
            return False
        return isinstance(content, Items) or not all(
            isinstance(value, Mapping) or value is None for value in content.values()
        )

    def _path_levels(self, path: str, content: Table | Items, line: int, within: str) -> list[Level]:
        if not self._names_something(path, line, within):
            return []
        levels = []
        for key, whole in enumerate(content) if isinstance(content, Items) else content.items():
            at = line_of(content, key, line)
            text = written(content, key)
            value: Any = whole
            inner: tuple[Factor, ...] = ()
            place = f"{within}.{key}"
            label = label_of(text) if isinstance(content, Items) else str(key)
            if (
                isinstance(content, Table)
                and isinstance(whole, Table)
                and ("factors" in whole or "value" in whole)
            ):
                read = self._wrapped(whole, at, place)
                if read is None:
                    continue
                value, inner = read
            if self._label_fits(label, at, place):
                levels.append(Level(label, _single(path, value, at), inner))
        return levels

    def _wrapped(self, value: Table, line: int, within: str) -> tuple[Any, tuple[Factor, ...]] | None:
        for key in value:
            if key not in ("value", "factors"):
                self.problems.add(
                    line_of(value, key, line),
                    Phrase("check.reading", place=within),
                    Phrase("check.the-key", key=key),
                    Phrase("check.value-and-factors"),
                    Phrase("check.level-with-sub-factors"),
                )
                return None
        if "value" not in value:
            self.problems.add(
                line,
                Phrase("check.reading", place=within),
                Phrase("check.no-value"),
                "{value: ..., factors: {...}}",
            )
            return None
        return value["value"], self._inner(value, line, within)

    def _named_levels(self, content: Table, line: int, within: str) -> list[Level]:
        levels = []
        for label, value in content.items():
            at, place = line_of(content, label, line), f"{within}.{label}"
            if value is not None and not isinstance(value, Table):
                self.problems.add(
                    at,
                    Phrase("check.reading", place=place),
                    value,
                    Phrase("check.mapping-of-changes"),
                )
                continue
            given = value if value is not None else Table(line=at)
            sets = Table(line=at)
            for path in given:
                if path != "factors" and self._names_something(path, line_of(given, path, at), place):
                    sets[path] = given[path]
                    sets.lines[path] = line_of(given, path, at)
            inner = self._inner(given, at, place)
            if self._label_fits(label, at, place):
                levels.append(Level(label, sets, inner))
        return levels

    def _inner(self, value: Table, line: int, within: str) -> tuple[Factor, ...]:
        at = line_of(value, "factors", line)
        return read_factors(value.get("factors"), at, self.places, self.problems, within=f"{within}.factors")

    def _label_fits(self, label: str, line: int, within: str) -> bool:
        if label.strip() and len(label) <= LONGEST_LABEL and label.isprintable():
            return True
        self.problems.add(
            line,
            Phrase("check.reading", place=within),
            label,
            Phrase("check.label-of-one-line", longest_label=LONGEST_LABEL),
            Phrase("check.give-levels-labels"),
        )
        return False

    def _names_something(self, path: str, line: int, within: str) -> bool:
        found = self.places.targets(path)
        if not isinstance(found, Misled):
            return True
        allowed = (
            Phrase("check.one-of-names", what=found.said, names=listed(found.known))
            if found.known
            else found.said
        )
        self.problems.add(
            line,
            Phrase("check.reading-a-path", place=within),
            found.word,
            allowed,
            did_you_mean(found.word, found.known),
        )
        return False


def _single(path: str, value: object, line: int) -> Table:
    sets = Table({path: value}, line=line)
    sets.lines[path] = line
    return sets


def _changes(factors: Sequence[Factor], places: Places) -> int:
    levels = [level for factor in factors for level in factor.levels]
    own = sum(len(places.targets(path)) for level in levels for path in level.sets)
    return own + sum(_changes(level.factors, places) for level in levels)


def _depth(factors: Sequence[Factor]) -> int:
    return sum(1 + max((_depth(level.factors) for level in factor.levels), default=0) for factor in factors)


def _set_paths(factor: Factor) -> set[str]:
    return {
        path
        for level in factor.levels
        for path in (*level.sets, *(path for inner in level.factors for path in _set_paths(inner)))
    }


def _check_apart(
    factor: Factor, others: Sequence[Factor], line: int, doing: Text, problems: Problems
) -> None:
    """Report a problem if a factor shares its name or a path with a different factor in the same cells."""
    below = [(level, inner) for level in factor.levels for inner in level.factors]
    own = names([factor])
    for other in others:
        for name in own.keys() & names([other]).keys():
            problems.add(
                line, doing, Phrase("check.factor-in-two-places", name=name), Phrase("check.each-factor-once")
            )
        for path in _set_paths(factor) & _set_paths(other):
            problems.add(
                line,
                doing,
                path,
                Phrase("check.path-of-another-factor", name=other.name),
                Phrase("check.make-them-one-named-factor"),
            )
    for level, inner in below:
        if factor.name in names([inner]):
            problems.add(
                line, doing, Phrase("check.as-own-sub-factor", name=factor.name), Phrase("check.another-name")
            )
        for path in level.sets.keys() & _set_paths(inner):
            problems.add(line, doing, path, Phrase("check.path-of-this-level", label=level.label))
