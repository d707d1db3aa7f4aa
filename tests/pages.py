"""Read documentation pages: experiments, and calls of iolab with their output."""

import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "labs").rglob("*.md")])
LED = sorted([*(ROOT / "docs" / "tutorial").glob("*.md"), *(ROOT / "docs" / "how-to").glob("*.md")])
"""Pages whose reader types the shown commands."""
FENCE = re.compile(r"^```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
FILE_NAME = re.compile(r"# (\S+\.yaml)")
ANY = "..."
"""Marks omitted output on a page."""

_HEADERS = bytes.fromhex(
    "020000000001 020000000002 0800 4500003c00000000401100000a000001c0a80701 1388138800280000"
)
CAPTURE = struct.pack("<IHHIIII", 0xA1B23C4D, 2, 4, 0, 0, 65_535, 1) + b"".join(
    struct.pack("<IIII", 0, number * 10_000_000, 74, 74) + _HEADERS + bytes(32) for number in range(50)
)
"""The capture trace.pcap of the pages: UDP from 10.0.0.1 to 192.168.7.1, every 10 ms."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A call of a program on a page."""

    line: str
    """Typed command."""
    printed: tuple[str, ...]
    """Lines below it."""


def name_of(path: Path) -> str:
    """Return a page's name in test IDs."""
    return str(path.relative_to(ROOT))


def experiments_on(page: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of every YAML block of a page that is a whole experiment."""
    text = page.read_text(encoding="utf-8")
    for block in FENCE.finditer(text):
        keys = set(re.findall(r"^(\w+):", block["text"], re.MULTILINE))
        if block["language"] == "yaml" and {"lab", "measure"} <= keys:
            yield text.count("\n", 0, block.start()) + 1, block["text"]


def experiment_of(page: Path, name: str) -> str:
    """Return the experiment of a page with this file name: the one that begins with it, or the only one."""
    texts = [text for _, text in experiments_on(page)]
    named = [text for text in texts if (found := FILE_NAME.match(text)) and found[1] == name]
    (text,) = named or texts
    return text


def shown_on(page: Path) -> Iterator[Shown]:
    """Yield every call in the consoles of a page."""
    for block in FENCE.finditer(page.read_text(encoding="utf-8")):
        if block["language"] != "console":
            continue
        for call in re.split(r"^\$ ", block["text"], flags=re.MULTILINE)[1:]:
            line, *printed = call.splitlines()
            yield Shown(line, tuple(printed))


def differs(shown: Sequence[str], printed: Sequence[str]) -> str:
    """Return the first line of a page that differs from the output; empty: there is none.

    A line of dots, or dots at the end of one, are anything. Figures that differ from run to run are not compared.
    """
    at = 0
    free = False
    for line in shown:
        if line.strip() == ANY:
            free = True
            continue
        found = next((n for n in range(at, len(printed)) if _alike(line, printed[n])), None)
        if found is None or (found != at and not free):
            return line
        at, free = found + 1, False
    return ""


def _alike(shown: str, printed: str) -> bool:
    pattern = ".*".join(map(re.escape, _without_figures(shown).split(ANY)))
    return re.fullmatch(pattern, _without_figures(printed)) is not None


def _without_figures(line: str) -> str:
    """Remove times, digests, run names, and the plan's letters before the name of a namespace."""
    return re.sub(r"about .*|[0-9a-f]{64}|runs/\S+|\b[a-z]{5}-(?=left|right)", "#", line.rstrip())
