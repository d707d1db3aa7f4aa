"""The host's facts, and the settings that were in effect during trials, with value, place and cells.

The module does not depend on individual facts, so new facts are shown without changes to it.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from iolab.report import numbers
from iolab.report.locale import Words
from iolab.report.names import Names
from iolab.report.tables import Grid
from iolab.results.trial import Effect, Status
from iolab.store.records import TrialRecord

MOST_CHILDREN = 200
"""Maximum number of entries per fact in the report; facts.json in the run folder has all entries."""
MOST_DEPTH = 4
_UNITS = {
    "_bytes": ("byte", 1.0), "_ns": ("ns", 1.0), "_milli": ("", 1e-3), "_fps": ("frame/s", 1.0),
    "_bps": ("bit/s", 1.0), "_ratio": ("ratio", 1.0),
}  # fmt: skip
"""Unit for each suffix of a fact's name, and the conversion to this unit."""
SHORT = frozenset({Effect.CONGESTION, Effect.QDISC, Effect.OFFLOADS, Effect.MTU, Effect.GOVERNOR})
"""Settings that the terminal shows; other formats show all settings."""
MOST_PLACES = 6
"""Maximum number of places shown for one value; the record has all places."""
MOST_CELLS = 3
"""Maximum number of cells shown for one value."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact for display."""

    name: str
    """Name of the fact."""
    text: str
    """Value of the fact; empty if the fact has parts."""
    parts: "tuple[Fact, ...]" = ()
    """Parts of the fact."""


def entries(facts: Mapping[str, object], words: Words) -> tuple[Fact, ...]:
    """Return the facts in facts.json for display, plain values first."""
    found = [_fact(key, value, words, 0) for key, value in facts.items() if key != "schema"]
    return tuple(
        sorted((fact for fact in found if fact.text or fact.parts), key=lambda fact: bool(fact.parts))
    )


def _fact(key: str, value: object, words: Words, depth: int) -> Fact:
    ending = next((each for each in _UNITS if key.endswith(each)), "")
    plain = key.removesuffix(ending)
    name = words.name("facts", key, plain.replace("_", " ") if depth == 0 or ending else plain)
    if (
        depth
        and isinstance(value, Mapping)
        and value
        and all(isinstance(each, bool) for each in value.values())
    ):
        return Fact(name, "", _switches(value, words))
    inner = list(islice(_inner(value), MOST_CHILDREN)) if depth < MOST_DEPTH else []
    if not inner:
        return Fact(name, _measured(key, value, words) or _text(value, words))
    # The unit in a mapping's name applies to the numbers in the mapping.
    parts = [_fact(each + ending, part, words, depth + 1) for each, part in inner]
    return Fact(name, "", tuple(part for part in parts if part.text or part.parts))


def _switches(value: Mapping[str, object], words: Words) -> tuple[Fact, ...]:
    """Return two lists, of enabled and of disabled switches (for example offloads), instead of an entry per switch."""
    states = ((words.text("on"), True), (words.text("off"), False))
    found = [(name, [key for key, each in value.items() if each is state]) for name, state in states]
    return tuple(Fact(name, words.listed(keys)) for name, keys in found if keys)


def _inner(value: object) -> Iterator[tuple[str, object]]:
    """Return the parts of a mapping, or of a list with nested values."""
    if isinstance(value, Mapping):
        yield from ((str(key), part) for key, part in value.items())
    elif isinstance(value, list | tuple) and any(isinstance(part, Mapping | list | tuple) for part in value):
        yield from ((_label(part, index), part) for index, part in enumerate(value))


def _measured(key: str, value: object, words: Words) -> str:
    """Return the text of a fact whose name contains a unit, with this unit; empty for other facts."""
    found = next((each for each in _UNITS if key.endswith(each)), None)
    if found is None or isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    unit, factor = _UNITS[found]
    by = numbers.scale(key, unit, [value * factor])
    shown = value * factor * by.factor
    decimals = min(numbers.decimals_exact(shown), 2 if abs(shown) >= 1 else 4)
    return numbers.quantity(value * factor, by, decimals, words)


def _label(value: object, index: int) -> str:
    if isinstance(value, Mapping):
        for key in ("name", "ifname", "id"):
            if isinstance(value.get(key), str):
                return str(value[key])
    return str(index + 1)


def _text(value: object, words: Words) -> str:
    match value:
        case None:
            return ""
        case Mapping() if not value:
            return ""
        case bool():
            return words.text("yes") if value else words.text("no")
        case float():
            return f"{value:g}"
        case list() | tuple():
            return words.listed(_text(each, words) for each in value)
        case _:
            return str(value)


@dataclass(frozen=True, slots=True)
class Value:
    """One value of a setting, with the places that had this value in the same trials."""

    measure: str
    """Measure whose trials had this value."""
    setting: str
    """Name of the setting, as in `results.trial.Effect`."""
    value: str
    """Value of the setting, as the kernel reports it."""
    places: tuple[str, ...]
    """Machines, ports or flows that had this value."""
    cells: tuple[Mapping[str, str], ...]
    """Cells whose trials had this value; empty: all cells of the measure."""


def values(trials: Sequence[TrialRecord]) -> tuple[Value, ...]:
    """Return the settings in effect in successful trials, in the order in which they were read."""
    found: list[Value] = []
    measures = dict.fromkeys(trial.measure for trial in trials)
    for measure in measures:
        own = [one for one in trials if one.measure == measure and one.result.status is Status.OK]
        found += _of_measure(measure, own)
    return tuple(found)


def _of_measure(measure: str, trials: Sequence[TrialRecord]) -> Iterator[Value]:
    everywhere = list(dict.fromkeys(tuple(trial.cell.items()) for trial in trials))
    seen: dict[tuple[str, str, str], dict[tuple[tuple[str, str], ...], None]] = {}
    for trial in trials:
        cell = tuple(trial.cell.items())
        for place, settings in trial.result.in_effect.items():
            for setting, value in settings.items():
                seen.setdefault((setting, value, place), {})[cell] = None
    grouped: dict[tuple[str, str, tuple[tuple[tuple[str, str], ...], ...]], list[str]] = {}
    for (setting, value, place), cells in seen.items():
        which = () if len(cells) == len(everywhere) else tuple(cells)
        grouped.setdefault((setting, value, which), []).append(place)
    order = list(dict.fromkeys(setting for setting, *_ in grouped))
    for setting in order:
        for (name, value, which), places in grouped.items():
            if name == setting:
                yield Value(measure, setting, value, tuple(places), tuple(map(dict, which)))


def in_effect_grid(trials: Sequence[TrialRecord], named: Names) -> Grid | None:
    """Return the table of settings in effect; None if none were read."""
    found = values(trials)
    if not found:
        return None
    words = named.words
    several = len({each.measure for each in found}) > 1
    differ = any(each.cells for each in found)
    rows: list[tuple[str, ...]] = [
        (
            *((named.measure(each.measure),) if several else ()),
            words.name("in_effect.settings", each.setting),
            each.value,
            _listed(each.places, MOST_PLACES, named),
            *((_listed([named.cell(cell) for cell in each.cells], MOST_CELLS, named),) if differ else ()),
        )
        for each in found
    ]
    heads = (
        *((named.words.text("table.measure"),) if several else ()),
        *words.each("in_effect.setting", "in_effect.value", "in_effect.where"),
        *((words.text("in_effect.cells"),) if differ else ()),
    )
    return Grid(
        caption=words.text("in_effect.heading"),
        heads=heads,
        rows=tuple(rows),
        labels=len(heads),
        prose=True,
        folded=True,
    )


def _listed(items: Sequence[str], most: int, named: Names) -> str:
    shown = named.words.listed(items[:most])
    more = len(items) - most
    return shown if more <= 0 else named.words.text("in_effect.more", shown=shown, more=more)


def short_lines(trials: Sequence[TrialRecord], named: Names, settings: Collection[str]) -> Iterator[str]:
    """Yield a line for each of the given settings; measures with equal values share a line."""
    words = named.words
    found = [one for one in values(trials) if one.setting in settings]
    alike: dict[tuple[str, str, str], dict[str, None]] = {}
    for each in found:
        where = _listed(each.places, MOST_PLACES, named)
        if len(each.cells) == 1:
            where = words.text("in_effect.in_cell", where=where, cell=named.cell(each.cells[0]))
        elif each.cells:
            where = words.text("in_effect.in_cells", where=where, count=len(each.cells))
        alike.setdefault((each.setting, each.value, where), {})[named.measure(each.measure)] = None
    every = {named.measure(each.measure) for each in found}
    lines: dict[str, list[str]] = {}
    for (setting, value, where), measures in alike.items():
        about = (
            where
            if every <= set(measures)
            else words.text("in_effect.of_measures", measures=words.listed(measures), where=where)
        )
        lines.setdefault(setting, []).append(words.text("in_effect.at", value=value, where=about))
    for setting, texts in lines.items():
        yield words.text(
            "in_effect.line", setting=words.name("in_effect.settings", setting), values="; ".join(texts)
        )
