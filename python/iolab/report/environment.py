"""The host's facts as entries for people; knows no key beyond its name, so that new facts show up by themselves."""

from collections.abc import Mapping
from dataclasses import dataclass

from iolab.report.words import Words

MOST_CHILDREN = 200
"""Entries of one fact that are listed; facts.json in the run folder has all of them."""
MOST_DEPTH = 4


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
    return tuple(sorted((fact for fact in found if fact.text or fact.parts), key=lambda fact: bool(fact.parts)))


def _fact(key: str, value: object, words: Words, depth: int) -> Fact:
    name = words.facts.get(key, key.replace("_", " ") if depth == 0 else key)
    if isinstance(value, Mapping) and depth < MOST_DEPTH:
        parts = [_fact(str(inner), each, words, depth + 1) for inner, each in list(value.items())[:MOST_CHILDREN]]
        return Fact(name, "", tuple(part for part in parts if part.text or part.parts))
    if isinstance(value, list | tuple) and any(isinstance(each, Mapping | list | tuple) for each in value) and depth < MOST_DEPTH:
        parts = [_fact(_label(each, index), each, words, depth + 1) for index, each in enumerate(value[:MOST_CHILDREN])]
        return Fact(name, "", tuple(part for part in parts if part.text or part.parts))
    return Fact(name, _text(value, words))


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
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:g}"
        case list() | tuple():
            return words.comma.join(_text(each, words) for each in value)
        case _:
            return str(value)
