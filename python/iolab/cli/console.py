"""Output of the command line: results to standard output, errors to standard error."""

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from iolab.errors import Problem
from iolab.locale import ENGLISH, Text
from iolab.locale import say as in_language
from iolab.printable import printable

if TYPE_CHECKING:
    from iolab.messages.statement import Statement
    from iolab.report.locale import Words

_language = ENGLISH


def speak(language: str) -> None:
    """Set the output language."""
    global _language  # noqa: PLW0603  # of the process: one command is run, for one person
    _language = language


def spoken() -> str:
    """Return the output language."""
    return _language


def in_words(value: object) -> str:
    """Return a value as text in the output language."""
    return in_language(value, _language)


def say(text: Text) -> None:
    """Print one line to standard output."""
    print(printable(in_words(text)), flush=True)


def complain(text: Text) -> None:
    """Print an error to standard error."""
    print(printable(f"iolab: {in_words(text)}"), file=sys.stderr, flush=True)


def list_problems(problems: Iterable[Problem]) -> None:
    """Print the problems of the input to standard error; each line starts with the place of the problem, for
    editors."""
    for problem in problems:
        print(printable(in_words(problem)), file=sys.stderr, flush=True)


def sentence(statement: "Statement") -> str:
    """Return a statement as a sentence."""
    return words().said.say(statement)


def advice(statement: "Statement") -> str:
    """Return the advice for a statement."""
    return words().said.advise(statement)


def words() -> "Words":
    """Return the text of reports; it is loaded on first use, because most commands need none."""
    from iolab.report.locale import words_of

    return words_of(_language)
