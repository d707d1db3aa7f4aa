"""How a written report is marked up: Markdown for repositories, PukiWiki for its pages. The same text in both."""

import re
from collections.abc import Iterable, Sequence
from typing import Protocol

_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~&$@!])")
_LINE_BREAKS = re.compile(r"\s*[\r\n]+\s*")
_WORD = re.compile(r"(?<![A-Za-z])((?:[A-Z][a-z]+){2,})(?![A-Za-z])")
"""What PukiWiki takes for the name of a page."""
_PUKIWIKI = re.compile(r"[\[\]|&'%~@{}]|\((?=\()|:(?=//)|(?<=[A-Z)]):|^[*\-+:,><#/ ]")
"""What has a meaning there: anywhere, doubled, before an address, after a word of a table's cell, at a line's start."""


class Markup(Protocol):
    """A way of marking up."""

    def escape(self, raw: str) -> str:
        """Make a text show as it is, on one line."""
        ...

    def heading(self, depth: int, text: str) -> str:
        """Return a heading of depth 1 (the title) or 2; the text is escaped already, as everywhere here."""
        ...

    def strong(self, text: str) -> str:
        """Return a caption."""
        ...

    def quote(self, text: str) -> str:
        """Return what must be read first."""
        ...

    def bullets(self, lines: Iterable[tuple[int, str]]) -> str:
        """Return a list; each line has its depth, from 0."""
        ...

    def grid(self, heads: Sequence[str], rows: Iterable[Sequence[str]], labels: int) -> str:
        """Lay out a table of raw texts; its first `labels` columns are words, the others figures."""
        ...


class Markdown:
    """GitHub-flavoured Markdown."""

    def escape(self, raw: str) -> str:
        """Make a text show as it is: no markup, no HTML, no mention, no line break."""
        return _MARKDOWN.sub(r"\\\1", _LINE_BREAKS.sub(" ", raw))

    def heading(self, depth: int, text: str) -> str:
        """Return a heading."""
        return f"{'#' * depth} {text}"

    def strong(self, text: str) -> str:
        """Return a caption."""
        return f"**{text}**"

    def quote(self, text: str) -> str:
        """Return what must be read first."""
        return f"> {text}"

    def bullets(self, lines: Iterable[tuple[int, str]]) -> str:
        """Return a list."""
        return "\n".join(f"{'  ' * depth}- {text}" for depth, text in lines)

    def grid(self, heads: Sequence[str], rows: Iterable[Sequence[str]], labels: int) -> str:
        """Lay out a table."""
        rule = ["---"] * labels + ["--:"] * (len(heads) - labels)
        lines = [map(self.escape, heads), rule, *(map(self.escape, row) for row in rows)]
        return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


class PukiWiki:
    """PukiWiki 1.5: headings by stars, tables by bars, a head row that ends with h."""

    def escape(self, raw: str) -> str:
        """Make a text show as it is: what has a meaning there is written by its number (&#124;)."""
        plain = _LINE_BREAKS.sub(" ", raw)
        plain = _PUKIWIKI.sub(lambda found: f"&#{ord(found.group())};", plain)
        return _WORD.sub(lambda found: f"&#{ord(found.group()[0])};{found.group()[1:]}", plain)

    def heading(self, depth: int, text: str) -> str:
        """Return a heading."""
        return f"{'*' * depth} {text}"

    def strong(self, text: str) -> str:
        """Return a caption."""
        return f"''{text}''"

    def quote(self, text: str) -> str:
        """Return what must be read first."""
        return f"> {text}"

    def bullets(self, lines: Iterable[tuple[int, str]]) -> str:
        """Return a list; it has three depths."""
        return "\n".join(f"{'-' * min(depth + 1, 3)} {text}" for depth, text in lines)

    def grid(self, heads: Sequence[str], rows: Iterable[Sequence[str]], labels: int) -> str:
        """Lay out a table: words at the left, figures at the right."""
        sides = ["LEFT:"] * labels + ["RIGHT:"] * (len(heads) - labels)
        head = "|" + "|".join(f"~{self.escape(text)}" for text in heads) + "|h"
        lines = ("|" + "|".join(map(self._cell, sides, row)) + "|" for row in rows)
        return "\n".join((head, *lines))

    def _cell(self, side: str, text: str) -> str:
        return f"{side}{self.escape(text)}" if text else ""
