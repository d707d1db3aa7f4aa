"""The host's facts as entries for people; knows no key beyond its name, so that new facts show up by themselves."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from iolab.report import numbers
from iolab.report.locale import Words

MOST_CHILDREN = 200
"""Entries of one fact that are listed; facts.json in the run folder has all of them."""
MOST_DEPTH = 4
_UNITS = {
    "_bytes": ("byte", 1.0), "_ns": ("ns", 1.0), "_milli": ("", 1e-3), "_fps": ("frame/s", 1.0),
    "_bps": ("bit/s", 1.0), "_ratio": ("ratio", 1.0),
}  # fmt: skip
"""Ending of a fact's name to its unit, and what makes it that unit."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One entry."""

    name: str
    """What it is called."""
    text: str
    """Its value; empty where it has parts."""
    parts: "tuple[Fact, ...]" = ()
    """What it is made of."""


def entries(facts: Mapping[str, object], words: Words) -> tuple[Fact, ...]:
    """Turn facts.json into entries, plain ones first."""
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
    # The unit of a mapping's name is that of its numbers.
    parts = [_fact(each + ending, part, words, depth + 1) for each, part in inner]
    return Fact(name, "", tuple(part for part in parts if part.text or part.parts))


def _switches(value: Mapping[str, object], words: Words) -> tuple[Fact, ...]:
    """Which of many switches are on and which off, e.g. an interface's offloads: two lines instead of fifty."""
    states = ((words.text("on"), True), (words.text("off"), False))
    found = [(name, [key for key, each in value.items() if each is state]) for name, state in states]
    return tuple(Fact(name, words.listed(keys)) for name, keys in found if keys)


def _inner(value: object) -> Iterator[tuple[str, object]]:
    """The parts of a mapping, or of a list that holds more than plain values."""
    if isinstance(value, Mapping):
        yield from ((str(key), part) for key, part in value.items())
    elif isinstance(value, list | tuple) and any(isinstance(part, Mapping | list | tuple) for part in value):
        yield from ((_label(part, index), part) for index, part in enumerate(value))


def _measured(key: str, value: object, words: Words) -> str:
    """A fact whose name says its unit."""
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
