"""Every phrase that the code states is in the English files, with its places, and each of them is stated somewhere."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import pytest

import iolab
from iolab.locale import Phrase, phrases

ROOT = Path(iolab.__file__).parent
ENGLISH = Path(phrases.__file__).parent / phrases.ENGLISH
DONE = ("agent", "cli", "experiment", "lab", "registry", "run", "store", "units.py")
"""Packages and modules whose errors and printed lines have no words of their own."""
ERRORS = {"AgentError", "InterruptedRun", "LabError", "StoreError", "TrialFailed", "UnsupportedError"}
SAID_AT = {
    "Problem": 1,
    "AgentLost": 1,
    "complain": 0,
    "say": 0,
    "BadAnswer": 1,
    "UnitError": 1,
    "CaptureError": 0,
    **dict.fromkeys(ERRORS, 0),
}
"""Call to the index of its first argument that is shown."""
PARTS = {"doing", "seen", "allowed", "advice"}
"""Names of what a problem says."""


def calls(path: Path) -> Iterator[ast.Call]:
    """Yield the calls in a module."""
    return (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))


def named(call: ast.Call) -> str:
    """Return the name of what is called."""
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def stated() -> dict[str, list[tuple[str, frozenset[str | None]]]]:
    """Code to where it is stated, and the parameters there."""
    found: dict[str, list[tuple[str, frozenset[str | None]]]] = {}
    for path in sorted(ROOT.rglob("*.py")):
        for call in calls(path):
            if named(call) == "Phrase" and call.args and path.parent.name != "locale":
                (code,) = call.args
                place = f"{path.relative_to(ROOT)}:{call.lineno}"
                assert isinstance(code, ast.Constant), f"{place}: the code of a phrase is written out"
                found.setdefault(str(code.value), []).append(
                    (place, frozenset(one.arg for one in call.keywords))
                )
    return found


def in_files() -> dict[str, frozenset[str]]:
    """Code to the places of its template."""
    return {
        f"{file.stem}.{name}": frozenset(place for _, place, _, _ in Formatter().parse(text) if place)
        for file in ENGLISH.glob("*.toml")
        for name, text in tomllib.loads(file.read_text()).items()
        if file.stem not in (phrases.LISTS, "report") and not name.endswith(phrases.ONE)
    }


STATED, IN_FILES = stated(), in_files()


def test_every_phrase_of_the_code_has_words_with_the_places_that_the_code_fills() -> None:
    """A code without words would be shown as it is; a place without a value would break the message."""
    wrong = [
        f"{place}: {code}"
        for code, uses in STATED.items()
        for place, parameters in uses
        if parameters != IN_FILES.get(code)
    ]
    assert wrong == []


def test_no_words_are_left_that_no_code_states() -> None:
    """A translator is not asked for text that nobody sees."""
    assert IN_FILES.keys() - STATED.keys() == set()


def has_words(node: ast.expr) -> bool:
    """Whether an argument is a sentence that is written in the code, not a value."""
    match node:
        case ast.Constant(value=str(text)):
            return " " in text.strip() and text.replace(" ", "").isalpha()
        case ast.JoinedStr(values=values):
            texts = [part.value for part in values if isinstance(part, ast.Constant)]
            return any(word.isalpha() and len(word) > 3 for text in texts for word in str(text).split())
        case ast.IfExp(body=body, orelse=other):
            return has_words(body) or has_words(other)
        case ast.BoolOp(values=values):
            return any(has_words(value) for value in values)
    return False


def assigned(path: Path) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names that a module assigns, each with its value."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                yield from (
                    (name.id, value)
                    for name, value in zip(names, values, strict=False)
                    if isinstance(name, ast.Name)
                )


@pytest.mark.parametrize("part", DONE)
def test_an_error_is_stated_as_phrases_not_in_words(part: str) -> None:
    """Words in code would be English in every language."""
    paths = (ROOT / part).rglob("*.py") if (ROOT / part).is_dir() else [ROOT / part]
    wrong = []
    for path in paths:
        for call in calls(path):
            first = 1 if ast.unparse(call.func).endswith("problems.add") else SAID_AT.get(named(call))
            arguments = [] if first is None else [*call.args[first:], *(one.value for one in call.keywords)]
            wrong += [f"{path}:{call.lineno}: {ast.unparse(one)}" for one in arguments if has_words(one)]
        for name, value in assigned(path):
            if name in PARTS and has_words(value):
                wrong.append(f"{path}:{value.lineno}: {name} = {ast.unparse(value)}")
    assert wrong == []


def test_a_phrase_within_a_phrase_and_the_items_of_a_list_are_in_the_same_language(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is put together is put together by the language."""
    other = {"one-of-options": "<{options:or}>", "text": "TEXT", "a-list": "LIST"}
    read = {("xx", "check"): other, ("xx", "lists"): {"or": " / "}}
    monkeypatch.setattr(phrases, "templates", lambda language, file: read.get((language, file), {}))
    phrase = Phrase("check.one-of-options", options=[Phrase("check.text"), "none", Phrase("check.a-list")])
    assert phrase.say("xx") == "<TEXT / none / LIST>"


def test_a_language_that_lacks_a_phrase_shows_the_english_one() -> None:
    """A new message does not break a translation."""
    assert Phrase("check.text").say("xx") == str(Phrase("check.text")) == "text"


def test_a_count_of_one_has_its_own_words_where_a_language_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Languages differ in which numbers take the plural."""
    read = {
        ("en", "check"): {"cells": "{count} cells", "cells-if-one": "{count} cell"},
        ("xx", "check"): {"cells": "c{count}"},
    }
    monkeypatch.setattr(phrases, "templates", lambda language, file: read.get((language, file), {}))
    one, two = Phrase("check.cells", count=1), Phrase("check.cells", count=2)
    assert (str(one), str(two), one.say("xx")) == ("1 cell", "2 cells", "c1")


def test_a_phrase_that_no_language_has_shows_its_code() -> None:
    """The user still sees what went wrong."""
    assert str(Phrase("check.nowhere", key="mtu")) == "check.nowhere {'key': 'mtu'}"


def test_a_phrase_within_other_text_is_refused() -> None:
    """It would be English in every language, and nobody would notice."""
    with pytest.raises(TypeError, match=r"check\.text within other text"):
        f"saw {Phrase('check.text')}"


def test_every_file_of_a_language_reads_as_the_toml_that_it_is() -> None:
    """Whether or not each line of it is a name and a text."""
    for path in (Path(phrases.__file__).parent).glob("*/*.toml"):
        assert phrases.templates(path.parent.name, path.stem) == tomllib.loads(
            path.read_text(encoding="utf-8")
        ), path
