"""Every phrase in code has an English text with the same placeholders, and every text is used."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import pytest

import iolab
from iolab.locale import Phrase, phrases

ROOT = Path(iolab.__file__).parent
ENGLISH = Path(phrases.__file__).parent / phrases.ENGLISH
DONE = (
    "agent",
    "analysis",
    "cli",
    "experiment",
    "files.py",
    "image",
    "instruments",
    "lab",
    "measures",
    "plan",
    "registry",
    "results",
    "run",
    "store",
    "trial",
    "units.py",
)
"""Packages and modules whose errors and printed lines contain no text."""
WORDLESS = (
    "agent",
    "analysis",
    "cli",
    "image",
    "instruments",
    "measures",
    "plan",
    "registry",
    "run",
    "store",
    "trial",
)
"""Packages in which no text at all is a sentence, whatever its purpose."""
SMALL_WORDS = (
    "a an and are as at be by cannot from has have is its no not of or that the than this to was with without"
)
SENTENCE = re.compile(rf"[a-z]{{2,}},? (?:{SMALL_WORDS.replace(' ', '|')})\b")
COMMAND = re.compile(r"[$|&<>]|^-|\b(?:echo|exec)\b")
"""Pattern that matches shell commands, but no sentence."""
NOT_OURS = {
    "FATAL ERROR: Failed to write", "Could not resolve", "Could not connect", "Unable to connect",
    "closed by remote host", "Could not resolve hostname", "No route to host", "Network is unreachable",
    "VFS: Unable to mount root fs", "Cannot allocate memory", "Unable to parse device",
    "unable to connect", "Invalid or incomplete multibyte", "Transport endpoint is not connected",
}  # fmt: skip
"""Texts that other programs and kernels print, and for which iolab searches."""
CODES = {"t on the log scale", "drift of 20 %", ", the switch of ", "cpu of ", "set by iolab", "passed by"}
"""Texts that are stored or compared: names of methods, states of guests, values that were read back."""
ERRORS = {"AgentError", "InterruptedRun", "LabError", "StoreError", "TrialFailed", "UnsupportedError"}
SAID_AT = {
    "Problem": 1,
    "AgentLost": 1,
    "complain": 0,
    "say": 0,
    "BadAnswer": 1,
    "UnitError": 1,
    "CaptureError": 0,
    "JobProblem": 0,
    "ValueError": 0,
    "TypeError": 0,
    "_values": 1,
    **dict.fromkeys(ERRORS, 0),
}
"""Function to the index of its first argument that is shown to the user."""
PARTS = {"doing", "seen", "allowed", "advice"}
"""Names of the parts of a problem."""


def calls(path: Path) -> Iterator[ast.Call]:
    """Yield the calls in a module."""
    return (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))


def named(call: ast.Call) -> str:
    """Return the name of the called function."""
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def stated() -> dict[str, list[tuple[str, frozenset[str | None]]]]:
    """Return each code with its places in the source and the parameters there."""
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
    """Return code to the placeholders of its template."""
    return {
        f"{file.stem}.{name}": frozenset(place for _, place, _, _ in Formatter().parse(text) if place)
        for file in ENGLISH.glob("*.toml")
        for name, text in tomllib.loads(file.read_text()).items()
        if file.stem not in (phrases.LISTS, "report", "help") and not name.endswith(phrases.ONE)
    }


STATED, IN_FILES = stated(), in_files()


def test_every_phrase_in_code_has_a_text_with_the_same_placeholders() -> None:
    """Prevent untranslated codes and broken placeholders."""
    wrong = [
        f"{place}: {code}"
        for code, uses in STATED.items()
        for place, parameters in uses
        if parameters != IN_FILES.get(code)
    ]
    assert wrong == []


def test_every_text_is_used_by_code() -> None:
    """Spare translators unused texts."""
    assert IN_FILES.keys() - STATED.keys() == set()


def has_words(node: ast.expr) -> bool:
    """Whether an argument is a sentence in code, not a value."""
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
def test_errors_are_phrases_and_contain_no_text(part: str) -> None:
    """Prevent English text in code, in any language."""
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


@pytest.mark.parametrize("part", WORDLESS)
def test_python_code_contains_no_sentence(part: str) -> None:
    """Check errors, lines of output, help and headings."""
    wrong = []
    for path in (ROOT / part).rglob("*.py"):
        nodes = [*ast.walk(ast.parse(path.read_text()))]
        docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        defects = [call for call in calls(path) if named(call) == "LookupError"]  # of a caller in the program
        exempt = docstrings | {ast.unparse(text) for call in defects for text in call.args}
        for node in nodes:
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and exempt.isdisjoint((id(node), ast.unparse(node)))
            ):
                text = node.value
                if SENTENCE.search(text) and not COMMAND.search(text) and text not in NOT_OURS | CODES:
                    wrong.append(f"{path}:{node.lineno}: {text!r}")
    assert wrong == []


def test_nested_phrases_and_list_items_use_the_same_language(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Let the language compose the text."""
    other = {"one-of-options": "<{options:or}>", "text": "TEXT", "a-list": "LIST"}
    read = {("xx", "check"): other, ("xx", "lists"): {"or": " / "}}
    monkeypatch.setattr(phrases, "templates", lambda language, file: read.get((language, file), {}))
    phrase = Phrase("check.one-of-options", options=[Phrase("check.text"), "none", Phrase("check.a-list")])
    assert phrase.say("xx") == "<TEXT / none / LIST>"


def test_error_with_a_phrase_is_shown_in_the_language(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check a ValueError, which is often the reason that an error of iolab states."""
    read = {("xx", "check"): {"text": "TEXT"}, ("xx", "errors"): {"failed-with-reason": "{what}> {reason}"}}
    monkeypatch.setattr(phrases, "templates", lambda language, file: read.get((language, file), {}))
    phrase = Phrase("errors.failed-with-reason", what="plan.json", reason=ValueError(Phrase("check.text")))
    assert phrase.say("xx") == "plan.json> TEXT"


def test_phrase_missing_from_a_language_is_shown_in_english() -> None:
    """Keep old translations usable."""
    assert Phrase("check.text").say("xx") == str(Phrase("check.text")) == "text"


def test_language_may_have_a_separate_text_for_a_count_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Support different plural rules."""
    read = {
        ("en", "check"): {"cells": "{count} cells", "cells-if-one": "{count} cell"},
        ("xx", "check"): {"cells": "c{count}"},
    }
    monkeypatch.setattr(phrases, "templates", lambda language, file: read.get((language, file), {}))
    one, two = Phrase("check.cells", count=1), Phrase("check.cells", count=2)
    assert (str(one), str(two), one.say("xx")) == ("1 cell", "2 cells", "c1")


def test_phrase_without_a_text_is_shown_as_its_code() -> None:
    """Show the user at least the code."""
    assert str(Phrase("check.nowhere", key="mtu")) == "check.nowhere {'key': 'mtu'}"


def test_phrase_in_an_f_string_is_refused() -> None:
    """Prevent text that stays English unnoticed."""
    with pytest.raises(TypeError, match=r"check\.text within other text"):
        f"saw {Phrase('check.text')}"


def test_language_file_reader_agrees_with_the_toml_parser() -> None:
    """Read names and texts quickly, and everything else by the parser."""
    for path in (Path(phrases.__file__).parent).glob("*/*.toml"):
        assert phrases.templates(path.parent.name, path.stem) == tomllib.loads(
            path.read_text(encoding="utf-8")
        ), path
