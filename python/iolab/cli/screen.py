"""The console of standard output: tables and bars."""

import sys

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType, RenderHook, RenderResult
from rich.segment import Segment

from iolab.printable import printable

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
