"""A report in another language: every sentence and head of it, in every format."""

import io
import re
from collections.abc import Callable, Iterator
from string import Formatter
from typing import Any

import pytest
from rich.console import Console, RenderableType
from tests.unit.report.conftest import Made
from tests.unit.report.forwarding_run import forwarding

from iolab.analysis import compare
from iolab.cli.main import run
from iolab.errors import ExitCode
from iolab.report import formats as report
from iolab.report.locale import EN, Words

LEAST_LETTERS = 18
"""So long a piece of a sentence is no other word by chance."""
ROT13 = str.maketrans(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
    "NOPQRSTUVWXYZABCDEFGHIJKLMnopqrstuvwxyzabcdefghijklm",
)


def literals(tree: object) -> Iterator[str]:
    """Yield the text of a language, without what is filled in."""
    match tree:
        case str():
            yield from (literal for literal, *_ in Formatter().parse(tree))
        case list():
            yield from ()  # words that are looked for, not shown
        case dict():
            for value in tree.values():
                yield from literals(value)


def turned(tree: Any) -> Any:
    """Return a language with every letter turned by 13, but what is filled in."""
    match tree:
        case str():
            return "".join(
                literal.translate(ROT13)
                + (f"{{{name}{f':{spec}' if spec else ''}}}" if name is not None else "")
                for literal, name, spec, _ in Formatter().parse(tree)
            )
        case dict():
            return {key: turned(value) for key, value in tree.items()}
        case _:
            return tree


PIECES = frozenset(piece.strip() for piece in literals(EN.tree) if len(piece.strip()) >= LEAST_LETTERS)


@pytest.fixture(scope="module")
def other() -> Words:
    """A made-up language."""
    return Words("x-turned", lambda: turned(EN.tree))


def printed(shown: RenderableType) -> str:
    """Print to a string, a sentence to a line."""
    out = io.StringIO()
    Console(file=out, width=5000, color_system=None).print(shown)
    return out.getvalue()


@pytest.fixture(scope="module")
def runs(small: Made) -> tuple[Made, Made]:
    """A run of streams and one of frames."""
    return small, forwarding()


FORMATS: dict[str, Callable[[Made, Words], str]] = {
    "html": lambda made, words: report.html(*made, "1", words=words),
    "markdown": lambda made, words: report.markdown(*made, "1", words=words),
    "terminal": lambda made, words: printed(report.terminal(*made[:2], words)),
    "json": lambda made, words: report.show_json(*made[:2], words),
    "csv of trials": lambda made, words: report.csv(*made, "1", "trials", words),
    "csv of limits": lambda made, words: report.csv(*made, "1", "limits", words),
    "comparison": lambda made, words: printed(report.comparison(compare(made[0], made[0]), words)),
}


@pytest.mark.parametrize("name", FORMATS)
def test_no_format_has_an_english_sentence_in_another_language(
    name: str, runs: tuple[Made, Made], other: Words
) -> None:
    """What is written in English is written in the other language instead."""
    english, turned_text = ("".join(FORMATS[name](run, words) for run in runs) for words in (EN, other))
    pieces = [piece for piece in PIECES if piece in english]
    assert [piece for piece in pieces if piece in turned_text] == []
    assert all(piece.translate(ROT13) in turned_text for piece in pieces)
    assert pieces or name == "csv of trials"


def test_the_page_names_its_language(small: Made, other: Words) -> None:
    """Browsers hyphenate and read aloud by it."""
    assert re.search(r'<html lang="x-turned">', report.html(*small, "1", words=other))


def test_a_language_that_there_is_not_is_refused_with_those_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It is wrong input."""
    assert run(["show", "run", "--lang", "xx"]) == ExitCode.INPUT_WRONG
    assert re.search(
        r"unknown language '?xx'?; available languages are .*en", " ".join(capsys.readouterr().err.split())
    )
