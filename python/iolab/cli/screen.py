"""The console of standard output, for tables and bars."""

import sys

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType, RenderHook, RenderResult
from rich.segment import Segment

from iolab.printable import printable

PLAIN_WIDTH = 200
"""Width of tables in a file or a pipe."""


def console() -> Console:
    """Return the console of standard output; plain and wide if it is not a terminal."""
    wide = Console(width=PLAIN_WIDTH, color_system=None, emoji=False)  # "setting:a:" is not an emoji
    made = Console(emoji=False) if sys.stdout.isatty() else wide
    made.push_render_hook(_Harmless())
    return made


class _Harmless(RenderHook):
    """Shows control characters in the printed text as text; rich's own colour sequences are unaffected."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """See RenderHook."""
        return [_Shown(each) for each in renderables]


class _Shown:
    """A renderable without control characters in its text."""

    def __init__(self, renderable: RenderableType) -> None:
        self._renderable = renderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """See rich's protocol."""
        for segment in console.render(self._renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)
