"""Where the command line prints: results to standard output, complaints to standard error."""

import sys
from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType, RenderHook, RenderResult
from rich.segment import Segment

from iolab.errors import Problem
from iolab.plan.types import Unsupported
from iolab.printable import printable
from iolab.report.troubles import UnsupportedCells
from iolab.report.words import EN

PLAIN_WIDTH = 200
"""Width of tables that go into a file or a pipe."""


def console() -> Console:
    """Return the console of standard output; plain and wide where it is no terminal."""
    wide = Console(width=PLAIN_WIDTH, color_system=None, emoji=False)  # "setting:a:" is no picture
    made = Console(emoji=False) if sys.stdout.isatty() else wide
    made.push_render_hook(_Harmless())
    return made


class _Harmless(RenderHook):
    """Shows the control characters of what is printed; those that rich makes of colours are its own."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """See RenderHook."""
        return [_Shown(each) for each in renderables]


class _Shown:
    """Something to print, without the control characters in its text."""

    def __init__(self, renderable: RenderableType) -> None:
        self._renderable = renderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """See rich's protocol."""
        for segment in console.render(self._renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)


def say(text: str) -> None:
    """Print one line to standard output."""
    print(printable(text), flush=True)


def cannot_run(cells: Unsupported | UnsupportedCells) -> str:
    """Return in a line what cannot run here, and why; of several cells the first and their number."""
    levels = ", ".join(f"{name}={label}" for name, label in cells.cell.items())
    count = cells.count if isinstance(cells, UnsupportedCells) else 1
    others = f" and {count - 1} more" if count > 1 else ""
    return f"{' '.join(filter(None, (cells.measure, levels)))}{others}: {EN.said.say(cells.reason)}"


def complain(text: str) -> None:
    """Print what went wrong to standard error."""
    print(printable(f"iolab: {text}"), file=sys.stderr, flush=True)


def list_problems(problems: Iterable[Problem]) -> None:
    """Print what is wrong with the input to standard error; each line begins with its place, for editors."""
    for problem in problems:
        print(printable(str(problem)), file=sys.stderr, flush=True)
