"""Parse the page of a report: its charts and its tree."""

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

VOID = frozenset({"meta", "link", "br", "img"})


class Elements(HTMLParser):
    """Collects elements and checks that they nest."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element without content."""
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        """Check that the innermost open element is closed."""
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Keep the shown text."""
        self.texts.append(data)

    def named(self, tag: str) -> Iterator[dict[str, str | None]]:
        """Return the attributes of all elements of a name."""
        return (attributes for found, attributes in self.found if found == tag)


def parsed(text: str) -> Elements:
    """Parse a page."""
    elements = Elements()
    elements.feed(text)
    elements.close()
    return elements


def charts_of(page: str) -> list[dict[str, Any]]:
    """Return the specification and panels of each chart in the page's script."""
    return [json.loads(text) for text in re.findall(r'id="chart-\d+-spec">(.*?)</script>', page, re.DOTALL)]
