"""The drawing of a lab that is too wide for a page: machines below each other, their links as rails beside them.

Called by `drawing`; it writes the same classes, so that one style sheet serves both.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html import escape

from iolab.report.picture import Box, Line, Picture, Port

CHARACTER = 7.2
"""Width of a character at 12 px, generously [px]."""
PAD = 12.0
ROW = 30.0
"""From port to port, and from machine to machine [px]."""
HEAD = 46.0
RAIL = 26.0
"""From link to link [px]."""
LONGEST = 44
"""Characters of a link's attributes that are drawn; the text below the drawing has all."""


@dataclass(slots=True)
class _Sheet:
    """What has been drawn so far."""

    boxes: list[str] = field(default_factory=list)
    ports: dict[tuple[str, str], float] = field(default_factory=dict)
    """Machine and port to its height on the page [px]."""
    right: float = 0.0
    """Where the widest box ends [px]."""


def render(seen: Picture, children: Callable[[str | None], list[Box]], alt: str) -> str:
    """Lay out the drawing and write it as SVG."""
    sheet = _Sheet()
    width = max((_width(box, children, frozenset()) for box in children(None)), default=0.0)
    y = 1.0
    for box in children(None):
        y = _machine(box, children, 1.0, y, width, sheet, frozenset()) + ROW / 2
    sheet.right = width + 1.0
    labels = max((len(_label(line)) for line in seen.lines), default=0) * CHARACTER
    first = sheet.right + labels + 2 * PAD
    rails = _rails(seen, sheet.ports)
    drawn = [
        part for line in seen.lines for part in _link(line, first + RAIL * rails.get(line.name, 0), sheet)
    ]
    wide = first + RAIL * (max(rails.values(), default=0) + 1)
    return (
        f'<svg class="lab" role="img" aria-label="{escape(alt)}" viewBox="0 0 {wide:.0f} {y:.0f}"'
        f' style="width:{wide:.0f}px" xmlns="http://www.w3.org/2000/svg">{"".join(sheet.boxes)}{"".join(drawn)}</svg>'
    )


def _width(box: Box, children: Callable[[str | None], list[Box]], above: frozenset[str]) -> float:
    texts = [len(box.name) * 1.15, len(box.kind), *(len(_port(port)) for port in box.ports)]
    inner = [_width(child, children, above | {box.name}) + 2 * PAD for child in _inside(box, children, above)]
    return max([max(texts) * CHARACTER + 2 * PAD, 130.0, *inner])


def _inside(box: Box, children: Callable[[str | None], list[Box]], above: frozenset[str]) -> list[Box]:
    """The machines on a machine; a circle of parents ends where it began."""
    return [] if box.name in above else children(box.name)


def _machine(
    box: Box,
    children: Callable[[str | None], list[Box]],
    x: float,
    y: float,
    width: float,
    sheet: _Sheet,
    above: frozenset[str],
) -> float:
    """Draw a machine, its ports and what runs on it; return where it ends."""
    at = len(sheet.boxes)
    bottom = y + HEAD
    for port in box.ports:
        bottom += ROW - 8
        sheet.ports[port.machine, port.name] = bottom - 10
        sheet.boxes.append(_text("label", x + PAD, bottom - 6, _port(port)))
    for child in _inside(box, children, above):
        bottom = _machine(child, children, x + PAD, bottom, width - 2 * PAD, sheet, above | {box.name}) + PAD
    bottom += 6
    sheet.boxes[at:at] = [
        f'<rect class="box" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{bottom - y:.1f}" rx="6"/>',
        _text("name", x + PAD, y + 21, box.name),
        _text("kind", x + PAD, y + 37, box.kind),
    ]
    return bottom


def _rails(seen: Picture, ports: Mapping[tuple[str, str], float]) -> dict[str, int]:
    """Give every link the nearest rail that is free over its whole height."""
    taken: list[list[tuple[float, float]]] = []
    rails: dict[str, int] = {}
    for line in seen.lines:
        heights = [ports[end] for port in line.ports if (end := (port.machine, port.name)) in ports]
        if not heights:
            continue
        low, high = min(heights) - 6, max(heights) + 6
        rail = next(
            (i for i, used in enumerate(taken) if all(high < a or b < low for a, b in used)), len(taken)
        )
        if rail == len(taken):
            taken.append([])
        taken[rail].append((low, high))
        rails[line.name] = rail
    return rails


def _link(line: Line, x: float, sheet: _Sheet) -> list[str]:
    ends = [
        (port, sheet.ports[end]) for port in line.ports if (end := (port.machine, port.name)) in sheet.ports
    ]
    if not ends:
        return []
    heights = [height for _, height in ends]
    wide = "lane bridge" if len(line.ports) > 2 else "lane"
    parts = [
        f'<line class="{wide}" x1="{x:.1f}" y1="{min(heights):.1f}" x2="{x:.1f}" y2="{max(heights):.1f}"/>'
    ]
    for _, y in ends:
        parts.append(
            f'<line class="drop" x1="{sheet.right:.1f}" y1="{y:.1f}" x2="{x:.1f}" y2="{y:.1f}"/>'
            f'<rect class="port" x="{sheet.right - 4:.1f}" y="{y - 4:.1f}" width="8" height="8"/>'
            f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>'
        )
    parts.append(_text("label", sheet.right + PAD, min(heights) - 5, _label(line)))
    return parts


def _label(line: Line) -> str:
    text = " · ".join((line.name, *line.attributes))
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _port(port: Port) -> str:
    return "  ".join(filter(None, (port.name, port.address)))


def _text(name: str, x: float, y: float, text: str) -> str:
    return f'<text class="{name}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'
