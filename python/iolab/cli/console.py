"""Where the command line prints: results to standard output, complaints to standard error."""

import sys

from rich.console import Console

from iolab.plan.types import Unsupported
from iolab.report.words import EN

PLAIN_WIDTH = 200
"""Width of tables that go into a file or a pipe."""


def console() -> Console:
    """Return the console of standard output; plain and wide where it is no terminal."""
    if sys.stdout.isatty():
        return Console(emoji=False)  # "setting:a:" is no picture
    return Console(width=PLAIN_WIDTH, color_system=None, emoji=False)


def say(text: str) -> None:
    """Print one line to standard output."""
    print(text, flush=True)


def cannot_run(cells: Unsupported) -> str:
    """Return in a line what cannot run here, and why."""
    levels = ", ".join(f"{name}={label}" for name, label in cells.cell.items())
    return f"{' '.join(filter(None, (cells.measure, levels)))}: {EN.said.say(cells.reason)}"


def complain(text: str) -> None:
    """Print what went wrong to standard error."""
    print(f"iolab: {text}", file=sys.stderr, flush=True)
