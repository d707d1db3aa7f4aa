"""Language keys: code uses only existing ones, and every one is used."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import iolab
from iolab.locale import languages
from iolab.report.locale import EN, words_of
from iolab.report.locale.words import Words, entries, places
from iolab.report.locale.words import read_words as read_tree

ROOT = Path(iolab.__file__).parent
SOURCES = sorted(
    path for part in ("report", "cli") for path in (ROOT / part).rglob("*.py") if "words" not in path.parts
)
PAGE = (ROOT / "report" / "page" / "page.html.j2").read_text(encoding="utf-8")
KEYS = frozenset(key for key, _ in entries(EN.tree))
TABLES = frozenset(key.rpartition(".")[0] for key in KEYS)
SECTIONS = frozenset(table.partition(".")[0] for table in TABLES if table)
KEY = re.compile(rf"({'|'.join(SECTIONS)})\.(?!js$|html)[\w.]*\w")
"""Pattern of a text that can only be a key; some sections have the same names as scripts of the page."""
ENGLISH = (ROOT / "locale" / "en" / "report.toml").read_text(encoding="utf-8")


def read_words(text: str) -> Words:
    """Return a synthetic language from the text of its file."""
    return read_tree("x-test", tomllib.loads(text), EN.tree)


ASKING, NAMING = {"text", "each", "find", "terms"}, {"name", "table"}
"""Methods of a language that take keys, and methods that take a table."""
NOT_BY_KEY = set[str](), "said."
"""Keys, and prefixes of keys, that the language itself reads."""


def literals(node: ast.AST) -> Iterator[str]:
    """Yield each complete text in an argument, e.g. both of a condition; no part of a composed one."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.IfExp(body=body, orelse=otherwise):
            yield from (*literals(body), *literals(otherwise))


def asked(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the requests of code to a language: key, table or start, and its text."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=of, attr=way)) if ast.unparse(of).endswith(
                ("words", "EN")
            ):
                kind = "key" if way in ASKING else "table" if way in NAMING else ""
                given = node.args if way in ASKING else node.args[:1]
                yield from ((kind, text) for arg in given for text in literals(arg) if kind)
            case ast.JoinedStr(values=[ast.Constant(value=str(start)), *_]) if (
                start.partition(".")[0] in SECTIONS
            ):
                yield "start", start
            case ast.Constant(value=str(text)) if KEY.fullmatch(text):
                yield "key", text


def of_page() -> Iterator[tuple[str, str]]:
    """Yield the keys that the page's template uses."""
    for found in re.finditer(r'words\.text\("([^"]+)"', PAGE):
        yield "key", found[1]


ASKED = {
    str(path.relative_to(ROOT)): [*asked(ast.parse(path.read_text(encoding="utf-8")))] for path in SOURCES
}
ASKED["report/page/page.html.j2"] = [*of_page()]


@pytest.mark.parametrize("place", ASKED)
def test_code_uses_only_existing_language_keys(place: str) -> None:
    """Prevent a KeyError for readers."""
    wrong = [
        text
        for kind, text in ASKED[place]
        if (kind == "key" and text not in KEYS | TABLES)
        or (kind == "table" and text not in TABLES)
        or (kind == "start" and not any(key.startswith(text) for key in KEYS))
    ]
    assert wrong == []


def test_every_language_key_is_used() -> None:
    """Spare translators unused texts."""
    every = [one for found in ASKED.values() for one in found]
    exact = {text for kind, text in every if kind == "key"} | NOT_BY_KEY[0]
    starts = tuple({text for kind, text in every if kind == "start"} | {NOT_BY_KEY[1]})
    tables = {text for kind, text in every if kind == "table"}
    unused = [
        key
        for key in KEYS
        if key not in exact and not key.startswith(starts) and key.rpartition(".")[0] not in tables
    ]
    assert sorted(unused) == []


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_placeholder_of_a_text_is_filled(path: Path) -> None:
    """Check texts that are filled where their key is used."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Call(
                func=ast.Attribute(attr="text"), args=[ast.Constant(value=str(key))], keywords=[_, *_]
            ):
                given = {keyword.arg for keyword in node.keywords}
                assert None in given or places(EN.texts[key]) <= given, key


def test_copy_of_the_language_file_with_a_different_code_is_a_language() -> None:
    """Allow moved and omitted placeholders."""
    text = ENGLISH.replace('"{measure}: {metric}"', '"{metric}"')
    other = read_words(text)
    assert other.code == "x-test"
    assert other.text("table.caption", measure="a", metric="b") == "b"


@pytest.mark.parametrize(
    ("written", "instead", "fault"),
    [
        ('complete = "Complete"\n', 'complete = "a"\ncomplte = "a"\n', "state.complte: unknown"),
        ('complete = "Complete"\n', "complete = 3\n", "state.complete: 3 is no text"),
        ("plain_levels = [", "plain_levels = 3 #", "plain_levels: 3 is no list of words"),
        (
            '"{measure}: {metric}"',
            '"{measre}"',
            "table.caption: {measre} cannot be filled; places: {measure}, {metric}",
        ),
        (
            'complete = "Complete"\n',
            'complete = "{state}"\n',
            "state.complete: {state} cannot be filled; places: none",
        ),
        ('"{measure}: {metric}"', '"{measure"', "table.caption: expected '}' before end of string"),
        ('yes = "yes"\n', 'yes = ["yes"]\n', "yes: ['yes'] is no text"),
        ("[published.statistics]\n", "[published.means]\n", "published.means.mean: unknown"),
    ],
)
def test_invalid_language_file_is_refused_with_the_key(written: str, instead: str, fault: str) -> None:
    """Name the key and the English text."""
    assert written in ENGLISH
    with pytest.raises(ValueError, match=re.escape(fault)):
        read_words(ENGLISH.replace(written, instead, 1))


def test_all_errors_of_a_language_file_are_reported_at_once() -> None:
    """Allow a translator to run the check once."""
    text = ENGLISH.replace('complete = "Complete"\n', 'complte = "a"\n').replace("partial = ", "partal = ")
    with pytest.raises(ValueError, match=r"state\.complte: unknown; state\.partal: unknown"):
        read_words(text)


def test_key_missing_from_a_language_is_shown_in_english() -> None:
    """Keep old translations usable."""
    other = read_words('[state]\ncomplete = "Ganz"\n')
    assert (other.text("state.complete"), other.text("state.partial")) == ("Ganz", "Partial")
    assert other.said.sentences == EN.said.sentences


@pytest.mark.parametrize("code", languages())
def test_every_language_has_only_keys_and_placeholders_of_english(code: str) -> None:
    """Check every value of `--lang`."""
    assert words_of(code).code == code


def test_identifier_without_a_name_is_shown_unchanged() -> None:
    """Use the caller's fallback if there is one."""
    assert EN.name("measures", "tcp") == "TCP"
    assert EN.name("measures", "nosuch") == "nosuch"
    assert EN.name("measures", "nosuch", "another") == "another"
    assert EN.find("metrics.nosuch.name") is None
