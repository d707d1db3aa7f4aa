"""Lines that the command line prints: results to standard output, complaints to standard error."""

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
    """Print in a language from now on."""
    global _language  # noqa: PLW0603  # of the process: one command is run, for one person
    _language = language


def in_words(value: object) -> str:
    """Return a value in the language that is spoken."""
    return in_language(value, _language)


def say(text: Text) -> None:
    """Print one line to standard output."""
    print(printable(in_words(text)), flush=True)


def complain(text: Text) -> None:
    """Print what went wrong to standard error."""
    print(printable(f"iolab: {in_words(text)}"), file=sys.stderr, flush=True)


def list_problems(problems: Iterable[Problem]) -> None:
    """Print what is wrong with the input to standard error; each line begins with its place, for editors."""
    for problem in problems:
        print(printable(in_words(problem)), file=sys.stderr, flush=True)


def sentence(statement: "Statement") -> str:
    """Return a statement in words."""
    return words().said.say(statement)


def advice(statement: "Statement") -> str:
    """Return what to do about what a statement says."""
    return words().said.advise(statement)


def words() -> "Words":
    """Return the words of reports; they are loaded when the first are wanted, for most commands want none."""
    from iolab.report.locale import words_of

    return words_of(_language)
