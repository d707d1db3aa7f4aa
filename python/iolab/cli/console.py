"""Lines that the command line prints: results to standard output, complaints to standard error."""

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from iolab.errors import Problem
from iolab.printable import printable

if TYPE_CHECKING:
    from iolab.messages.statement import Statement


def say(text: str) -> None:
    """Print one line to standard output."""
    print(printable(text), flush=True)


def complain(text: str) -> None:
    """Print what went wrong to standard error."""
    print(printable(f"iolab: {text}"), file=sys.stderr, flush=True)


def list_problems(problems: Iterable[Problem]) -> None:
    """Print what is wrong with the input to standard error; each line begins with its place, for editors."""
    for problem in problems:
        print(printable(str(problem)), file=sys.stderr, flush=True)


def sentence(statement: "Statement") -> str:
    """Return a statement in words, which are loaded when the first is said: most commands say none."""
    from iolab.report.locale import EN

    return EN.said.say(statement)


def advice(statement: "Statement") -> str:
    """Return what to do about what a statement says."""
    from iolab.report.locale import EN

    return EN.said.advise(statement)
