"""A report in a different language: every sentence and head of it, in every format."""

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
"""Minimum length at which a piece of a sentence matches no other word by chance."""
ROT13 = str.maketrans(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
    "NOPQRSTUVWXYZABCDEFGHIJKLMnopqrstuvwxyzabcdefghijklm",
)


def literals(tree: object) -> Iterator[str]:
    """Yield the text of a language, without placeholders."""
    match tree:
        case str():
            yield from (literal for literal, *_ in Formatter().parse(tree))
        case list():
            yield from ()  # words that are searched for, not shown
        case dict():
            for value in tree.values():
                yield from literals(value)


def turned(tree: Any) -> Any:
    """Return a language with every letter rotated by 13, except placeholders."""
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
    """Provide a synthetic language."""
    return Words("x-turned", lambda: turned(EN.tree))


def printed(shown: RenderableType) -> str:
    """Print to a string, one sentence per line."""
    out = io.StringIO()
    Console(file=out, width=5000, color_system=None).print(shown)
    return out.getvalue()


@pytest.fixture(scope="module")
def runs(small: Made) -> tuple[Made, Made]:
    """Return a run of streams and one of frames."""
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
def test_report_in_another_language_contains_no_english_sentences_in_any_format(
    name: str, runs: tuple[Made, Made], other: Words
) -> None:
    """Check every sentence in the other language."""
    english, turned_text = ("".join(FORMATS[name](run, words) for run in runs) for words in (EN, other))
    pieces = [piece for piece in PIECES if piece in english]
    assert [piece for piece in pieces if piece in turned_text] == []
    assert all(piece.translate(ROT13) in turned_text for piece in pieces)
    assert pieces or name == "csv of trials"


def test_html_page_declares_its_language(small: Made, other: Words) -> None:
    """Support hyphenation and speech output of browsers."""
    assert re.search(r'<html lang="x-turned">', report.html(*small, "1", words=other))


def test_unknown_language_is_refused_with_the_available_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit with the code for invalid input."""
    assert run(["show", "run", "--lang", "xx"]) == ExitCode.INPUT_WRONG
    assert re.search(
        r"unknown language '?xx'?; available languages are .*en", " ".join(capsys.readouterr().err.split())
    )
