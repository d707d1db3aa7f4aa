"""Read factors, their levels and their sub-factors."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from iolab.experiment.experiment import Factor, Level, LevelRatio, Statistic, Summary
from iolab.experiment.factors.paths import GROUPS, Misled, Places
from iolab.experiment.factors.product import MOST_CELLS, MOST_FACTORS, count, label_of, names
from iolab.experiment.reading.attached import Named
from iolab.experiment.reading.document import Items, Table, line_of, written
from iolab.experiment.reading.problems import Problems, did_you_mean, listed

LONGEST_LABEL = 100
"""A label must fit a table's cell [characters]."""

MOST_CHANGES = 50_000
"""Places set by all levels of all factors, each place that a `*` stands for counted."""

LEVELS_ALLOWED = "a list of values, or a mapping of label to value"

NAMED_ALLOWED = "a mapping of label to {path: value, ...}"


def possible_paths(content: object) -> Iterator[str]:
    """Yield every key below `factors`: those that are paths show which sections levels make and which kinds vary."""
    if isinstance(content, Mapping):
        for key, value in content.items():
            yield key
            yield from possible_paths(value)


def read_factors(
    content: object, line: int, places: Places, problems: Problems, *, within: str = "factors"
) -> tuple[Factor, ...]:
    """Return the factors of a mapping name -> levels; problems are noted and what they concern is left out."""
    if content is None:
        return ()
    if not isinstance(content, Mapping):
        problems.add(line, f"reading {within}", content, "a mapping of path or name to levels")
        return ()
    reader = _Reader(places, problems)
    found: list[Factor] = []
    for name in content:
        at = line_of(content, name, line)
        factor = reader.factor(name, content[name], at, f"{within}.{name}")
        if factor is not None:
            before = len(problems)
            _check_apart(factor, found, at, f"reading {within}.{name}", problems)
            if len(problems) == before:
                found.append(factor)
    return tuple(found)


def check_size(factors: Sequence[Factor], line: int, places: Places, problems: Problems) -> bool:
    """Note it when there are too many factors or cells; tell whether they can be walked."""
    depth = _depth(factors)
    if depth > MOST_FACTORS:
        problems.add(line, "counting factors", f"{depth} in one cell", f"at most {MOST_FACTORS} in one cell")
        return False
    changes = _changes(factors, places)
    if changes > MOST_CHANGES:
        seen, allowed = (
            f"{changes} places set by all levels",
            f"at most {MOST_CHANGES} (a * counts once per place)",
        )
        problems.add(line, "counting what levels set", seen, allowed)
        return False
    total = count(factors)
    if total > MOST_CELLS:
        seen = f"{total} cells" if total < 10**18 else "more than 10^18 cells"
        problems.add(
            line,
            "counting cells",
            seen,
            f"at most {MOST_CELLS} cells",
            "drop levels, or vary some factors only under a level of another",
        )
        return False
    return True


class _Reader:
    """Reads one mapping of factors."""

    def __init__(self, places: Places, problems: Problems) -> None:
        self.places = places
        self.problems = problems

    def factor(self, name: str, content: object, line: int, within: str) -> Factor | None:
        doing, before = f"reading {within}", len(self.problems)
        if name in self.places.names("measure"):
            self.problems.add(
                line,
                doing,
                name,
                "a path, or a name that is no measure's",
                f"to vary a key of it write {name}.KEY",
            )
            return None
        if not content or not isinstance(content, Table | Items):
            allowed = LEVELS_ALLOWED if self.places.is_path(name) else NAMED_ALLOWED
            self.problems.add(line, doing, content or "no levels", allowed)
            return None
        path = self.places.is_path(name) or self._is_meant_as_path(name, content)
        if path and not isinstance(content, Named):
            levels = self._path_levels(name, content, line, within)
        elif isinstance(content, Items):
            near = did_you_mean(name, GROUPS)
            self.problems.add(line, doing, "a list", f"{NAMED_ALLOWED}, as '{name}' is no path", near)
            return None
        else:
            levels = self._named_levels(content, line, within)
        uses = Counter(level.label for level in levels)
        for label in (label for label in uses if uses[label] > 1):
            self.problems.add(line, doing, f"the label '{label}' twice", "labels that differ")
        if (
            levels
            and not any(level.sets or level.factors for level in levels)
            and len(self.problems) == before
        ):
            self.problems.add(
                line, doing, "levels that change nothing", "at least one level that sets a path"
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
                    f"reading {within}",
                    f"the key '{key}'",
                    "value and factors",
                    "a level with sub-factors is {value: ..., factors: {...}}",
                )
                return None
        if "value" not in value:
            self.problems.add(line, f"reading {within}", "no value", "{value: ..., factors: {...}}")
            return None
        return value["value"], self._inner(value, line, within)

    def _named_levels(self, content: Table, line: int, within: str) -> list[Level]:
        levels = []
        for label, value in content.items():
            at, place = line_of(content, label, line), f"{within}.{label}"
            if value is not None and not isinstance(value, Table):
                self.problems.add(
                    at, f"reading {place}", value, "a mapping of path to value; {} changes nothing"
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
            f"reading {within}",
            label,
            f"a label of 1 to {LONGEST_LABEL} characters on one line",
            "give the levels labels: {label: value, ...}",
        )
        return False

    def _names_something(self, path: str, line: int, within: str) -> bool:
        found = self.places.targets(path)
        if not isinstance(found, Misled):
            return True
        allowed = f"{found.said}: {listed(found.known)}" if found.known else found.said
        self.problems.add(
            line, f"reading {within}, a path", found.word, allowed, did_you_mean(found.word, found.known)
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


def _check_apart(factor: Factor, others: Sequence[Factor], line: int, doing: str, problems: Problems) -> None:
    """Note it when a factor shares a name or a path with one that exists in the same cells."""
    below = [(level, inner) for level in factor.levels for inner in level.factors]
    own = names([factor])
    for other in others:
        for name in own.keys() & names([other]).keys():
            problems.add(line, doing, f"the factor '{name}' in two places of one cell", "each factor once")
        for path in _set_paths(factor) & _set_paths(other):
            problems.add(
                line,
                doing,
                path,
                f"a path that no other factor sets ('{other.name}' does)",
                "make them one named factor",
            )
    for level, inner in below:
        if factor.name in names([inner]):
            problems.add(line, doing, f"'{factor.name}' as its own sub-factor", "another name")
        for path in level.sets.keys() & _set_paths(inner):
            problems.add(line, doing, path, f"a path that the level '{level.label}' does not set itself")


STATISTICS: tuple[Statistic, ...] = ("mean", "min", "max", "median")
"""What may stand in `show`."""

SHOWN: tuple[Statistic, ...] = ("mean", "min", "max")
"""What is shown if nothing else is written."""

KEYS = ("over", "show", "ratio")

ONE_ALLOWED = "{over: FACTOR, show: [mean, min, max], ratio: {FACTOR: [level, level]}}"


def read_summaries(
    document: Table, known: Mapping[str, tuple[str, ...]], dropped: frozenset[str], problems: Problems
) -> tuple[Summary, ...]:
    """Return what `summarise` asks for: one mapping, or a list of them.

    `known`: factor to its labels; `dropped`: words of factors that were wrong, which is not told twice.
    """
    content, line = document.get("summarise"), line_of(document, "summarise")
    if content is None:
        return ()
    items = content if isinstance(content, list) else [content]
    reader = _SummaryReader(known, dropped, problems)
    found = []
    for index, item in enumerate(items):
        within = f"summarise.{index}" if isinstance(content, list) else "summarise"
        at = line_of(content, index, line) if isinstance(content, list) else line
        if isinstance(item, Mapping) and item:
            summary = reader.read(item, at, within)
            found += [summary] if summary is not None else []
        else:
            problems.add(at, f"reading {within}", item, f"{ONE_ALLOWED}, or a list of such mappings")
    return tuple(found)


class _SummaryReader:
    """Reads the entries of one experiment."""

    def __init__(
        self, known: Mapping[str, tuple[str, ...]], dropped: frozenset[str], problems: Problems
    ) -> None:
        self._known, self._dropped, self._problems = known, dropped, problems

    def read(self, item: Mapping[str, Any], line: int, within: str) -> Summary | None:
        """Return one entry; None where it names no factor of several levels."""
        for key in item:
            if key not in KEYS:
                near = did_you_mean(key, KEYS)
                at = line_of(item, key, line)
                self._problems.add(
                    at, f"reading {within}", f"the key '{key}'", f"the keys {listed(KEYS)}", near
                )
        if "over" not in item:
            self._problems.add(line, f"reading {within}", "no over", "over: FACTOR")
            return None
        over = self._factor(item["over"], line_of(item, "over", line), f"{within}.over")
        show = self._show(item, line_of(item, "show", line), f"{within}.show")
        ratios = self._ratios(item, line_of(item, "ratio", line), f"{within}.ratio", over)
        return None if over is None else Summary(over, show, ratios)

    def _factor(self, name: object, line: int, within: str) -> str | None:
        """Return the name of a factor that has several levels."""
        if isinstance(name, str) and len(self._known.get(name, ())) > 1:
            return name
        if not isinstance(name, str) or name not in self._dropped:
            several = [factor for factor, labels in self._known.items() if len(labels) > 1]
            allowed = f"a factor of two levels or more: {listed(several)}"
            self._problems.add(line, f"reading {within}", name, allowed, did_you_mean(name, several))
        return None

    def _show(self, item: Mapping[str, Any], line: int, within: str) -> tuple[Statistic, ...]:
        wanted = item.get("show", list(SHOWN))
        if not isinstance(wanted, list) or not wanted:
            self._problems.add(line, f"reading {within}", wanted, f"a list of {listed(STATISTICS)}")
            return SHOWN
        for index, word in enumerate(wanted):
            if word not in STATISTICS:
                near = did_you_mean(word, STATISTICS)
                at = line_of(wanted, index, line)
                self._problems.add(at, f"reading {within}", word, listed(STATISTICS), near)
        return tuple(name for name in STATISTICS if name in wanted)

    def _ratios(
        self, item: Mapping[str, Any], line: int, within: str, over: str | None
    ) -> tuple[LevelRatio, ...]:
        content = item.get("ratio")
        if content is None:
            return ()
        if not isinstance(content, Mapping):
            self._problems.add(line, f"reading {within}", content, "{FACTOR: [level, level]}")
            return ()
        found = (self._ratio(content, name, line, within, over) for name in content)
        return tuple(ratio for ratio in found if ratio is not None)

    def _ratio(
        self, content: Mapping[str, Any], name: str, line: int, within: str, over: str | None
    ) -> LevelRatio | None:
        at, place = line_of(content, name, line), f"{within}.{name}"
        factor = self._factor(name, at, within)
        if factor is None:
            return None
        if factor == over:
            self._problems.add(at, f"reading {place}", name, "another factor than that of over")
            return None
        value, labels = content[name], self._known[factor]
        if not isinstance(value, list) or len(value) != 2:
            self._problems.add(at, f"reading {place}", value, "[level, level]: the first over the second")
            return None
        above, below = (label_of(written(value, index)) for index in range(2))
        for label in (above, below):
            if label not in labels and label not in self._dropped:
                allowed = f"a level of {factor}: {listed(labels)}"
                self._problems.add(at, f"reading {place}", label, allowed, did_you_mean(label, labels))
        if above == below:
            self._problems.add(at, f"reading {place}", value, "two different levels")
        return LevelRatio(factor, above, below)
