"""Draw a lab as SVG: machines are boxes (children inside their parent), links are lines between their ports.

This module does the layout and the SVG; `picture` provides the content.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from html import escape

from iolab.report.names import Names
from iolab.report.picture import Box, Line, Picture, Port

MOST_MACHINES = 12
"""Maximum number of machines in a readable drawing."""
CHARACTER = 7.2
"""Upper estimate of the width of a character at 12 px [px]."""
WIDEST = 940
"""Width of the page's content column at 1280 px; a wider lab is drawn as a ladder [px]."""
SLOT = 84
GAP = 20
PAD = 12
HEAD = 46
LANE = 52
ROW = 30.0
"""Distance between ports, and between machines [px]."""
RAIL = 26.0
"""Distance between links [px]."""
LONGEST = 44
"""Maximum length of a link's attributes in the drawing; the text below the drawing has all attributes."""


@dataclass(frozen=True, slots=True)
class LabDrawing:
    """The lab as a picture and as text."""

    svg: str
    """The drawing; empty if the lab is too large."""
    too_large: str
    """Note that the lab is too large to draw; empty otherwise."""
    texts: tuple[str, ...]
    """The information in the drawing, as sentences."""
    alt: str
    """Alternative text of the picture."""


def draw(seen: Picture, names: Names) -> LabDrawing:
    """Return the drawing of the lab and its description in sentences."""
    words = names.words
    listed = [_link_text(line, names) for line in seen.lines]
    texts = (*(_machine_text(box, names) for box in seen.boxes), *listed)
    alt = words.text(
        "lab.alt", machines=names.words.listed(box.name for box in seen.boxes), links="; ".join(listed)
    )
    if len(seen.boxes) > MOST_MACHINES or len(seen.lines) > MOST_MACHINES * 2:
        return LabDrawing("", words.text("lab.too_many", count=len(seen.boxes)), texts, alt)
    return LabDrawing(render(seen, alt) if seen.boxes else "", "", texts, alt)


def _machine_text(box: Box, names: Names) -> str:
    words = names.words
    if box.parent is None:
        return words.text("lab.machine", name=box.name, kind=box.kind)
    return words.text("lab.machine_on", name=box.name, kind=box.kind, parent=box.parent)


def _link_text(line: Line, names: Names) -> str:
    ends = " — ".join(" ".join(filter(None, (_end(port), port.address))) for port in line.ports)
    return names.words.text(
        "lab.link", name=line.name, ends=ends, attributes=names.words.listed(line.attributes)
    )


def _end(port: Port) -> str:
    return f"{port.machine}.{port.name}" if port.name else port.machine


@dataclass(frozen=True, slots=True)
class _Place:
    """Position and size of a machine's box [px]."""

    box: Box
    x: float
    y: float
    width: float
    height: float


def render(seen: Picture, alt: str) -> str:
    """Return the drawing as SVG; colours are CSS variables of the page."""
    places: list[_Place] = []
    drops: dict[tuple[str, str], tuple[float, float]] = {}
    x = 1.0
    for box in _children(seen, None):
        width, _ = _place(seen, box, x, 1.0, _height(seen), places, drops, frozenset())
        x += width + GAP
    bottom = max((place.y + place.height for place in places), default=0.0)
    lanes = _lanes(seen.lines, drops)
    texts = [_lane_label(line) for line in seen.lines]
    begins = [min(_xs(line, drops), default=0.0) for line in seen.lines]
    ends = [begin + len(text) * CHARACTER + 20 for begin, text in zip(begins, texts, strict=True)]
    width = max([x - GAP + 1, *ends])
    if width > WIDEST:
        return _ladder(seen, partial(_children, seen), alt)
    height = bottom + 34 + LANE * (max(lanes, default=-1) + 1)
    parts = [_svg_box(place) for place in places]
    for line, lane, text in zip(seen.lines, lanes, texts, strict=True):
        parts += _svg_line(line, bottom + 30 + LANE * lane + 22, text, drops)
    body = "".join(parts)
    return (
        f'<svg class="lab" role="img" aria-label="{escape(alt)}" viewBox="0 0 {width:.0f} {height:.0f}"'
        f' style="width:{width:.0f}px" xmlns="http://www.w3.org/2000/svg">{body}</svg>'
    )


def _children(seen: Picture, parent: str | None) -> list[Box]:
    known = {box.name for box in seen.boxes}
    return [box for box in seen.boxes if (box.parent if box.parent in known else None) == parent]


def _height(seen: Picture) -> float:
    return HEAD + 28.0 if seen.boxes else 0.0


def _place(
    seen: Picture,
    box: Box,
    x: float,
    y: float,
    leaf: float,
    places: list[_Place],
    drops: dict[tuple[str, str], tuple[float, float]],
    above: frozenset[str],
) -> tuple[float, float]:
    """Place a box and its children; return its width and height."""
    index = len(places)
    slots = [max(SLOT, (max(len(port.name), len(port.address)) + 2) * CHARACTER) for port in box.ports]
    inner, tallest = x + PAD + sum(slots), 0.0
    children = [] if box.name in above else _children(seen, box.name)
    for child in children:
        width, height = _place(seen, child, inner, y + HEAD, leaf, places, drops, above | {box.name})
        inner, tallest = inner + width + PAD, max(tallest, height)
    title = max(len(box.name) * CHARACTER * 1.15, len(box.kind) * CHARACTER) + 2 * PAD
    width = max(title, inner - x + (0 if children else PAD), 110.0)
    height = max(leaf, HEAD + tallest + 26) if children else leaf
    left = x + PAD + (0 if children else (width - 2 * PAD - sum(slots)) / 2)
    for port, slot in zip(box.ports, slots, strict=True):
        drops[box.name, port.name] = (left + slot / 2, y + height)
        left += slot
    places.insert(index, _Place(box, x, y, width, height))
    return width, height


def _xs(line: Line, drops: Mapping[tuple[str, str], tuple[float, float]]) -> list[float]:
    return [drops[port.machine, port.name][0] for port in line.ports if (port.machine, port.name) in drops]


def _lanes(lines: Sequence[Line], drops: Mapping[tuple[str, str], tuple[float, float]]) -> list[int]:
    """Assign to every link the highest lane that is free over its whole width."""
    taken: list[list[tuple[float, float]]] = []
    lanes = []
    for line in lines:
        xs = _xs(line, drops) or [0.0]
        low, high = min(xs) - 10, max(*xs, min(xs) + len(_lane_label(line)) * CHARACTER) + 10
        lanes.append(_first_free(taken, low, high))
    return lanes


def _first_free(taken: list[list[tuple[float, float]]], low: float, high: float) -> int:
    """Return the first row that is free between two positions, and mark it as used."""
    row = next((i for i, used in enumerate(taken) if all(high < a or b < low for a, b in used)), len(taken))
    if row == len(taken):
        taken.append([])
    taken[row].append((low, high))
    return row


def _lane_label(line: Line) -> str:
    return " · ".join((line.name, *line.attributes))


def _svg_box(place: _Place) -> str:
    box, x, y = place.box, place.x, place.y
    return (
        f'<rect class="box" x="{x:.1f}" y="{y:.1f}" width="{place.width:.1f}" height="{place.height:.1f}" rx="6"/>'
        f"{_text('name', x + PAD, y + 21, box.name)}{_text('kind', x + PAD, y + 37, box.kind)}"
    )


def _text(name: str, x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text class="{name}" text-anchor="{anchor}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def _svg_line(
    line: Line, y: float, label: str, drops: Mapping[tuple[str, str], tuple[float, float]]
) -> list[str]:
    xs = _xs(line, drops)
    if not xs:
        return []
    parts = []
    for port in line.ports:
        place = drops.get((port.machine, port.name))
        if place is None:
            continue
        x, top = place
        parts.append(f'<line class="drop" x1="{x:.1f}" y1="{top:.1f}" x2="{x:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<rect class="port" x="{x - 4:.1f}" y="{top - 4:.1f}" width="8" height="8"/>')
        parts.append(f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>')
        parts.append(_text("label", x, top - 10, port.name, "middle"))
        if port.address:
            parts.append(_text("address", x, top + 17, port.address, "middle"))
    wide = "lane bridge" if len(line.ports) > 2 else "lane"
    parts.insert(0, f'<line class="{wide}" x1="{min(xs):.1f}" y1="{y:.1f}" x2="{max(xs):.1f}" y2="{y:.1f}"/>')
    parts.append(_text("label", min(xs) + 8, y + 16, label))
    return parts


@dataclass(slots=True)
class _Sheet:
    """The drawing in progress."""

    boxes: list[str] = field(default_factory=list)
    ports: dict[tuple[str, str], float] = field(default_factory=dict)
    """Vertical position of each port, by machine and port [px]."""
    right: float = 0.0
    """Right edge of the widest box [px]."""


def _ladder(seen: Picture, children: Callable[[str | None], list[Box]], alt: str) -> str:
    """Return the drawing in ladder layout as SVG."""
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
    """Yield the machines inside a machine; a circular chain of parents ends at the machine itself."""
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
    """Draw a machine with its ports and children; return its lower edge."""
    at = len(sheet.boxes)
    bottom = y + HEAD
    for port in box.ports:
        bottom += ROW - 8
        sheet.ports[port.machine, port.name] = bottom - 10
        sheet.boxes.append(_plain_text("label", x + PAD, bottom - 6, _port(port)))
    for child in _inside(box, children, above):
        bottom = _machine(child, children, x + PAD, bottom, width - 2 * PAD, sheet, above | {box.name}) + PAD
    bottom += 6
    sheet.boxes[at:at] = [
        f'<rect class="box" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{bottom - y:.1f}" rx="6"/>',
        _plain_text("name", x + PAD, y + 21, box.name),
        _plain_text("kind", x + PAD, y + 37, box.kind),
    ]
    return bottom


def _rails(seen: Picture, ports: Mapping[tuple[str, str], float]) -> dict[str, int]:
    """Assign to every link the nearest rail that is free over its whole height."""
    taken: list[list[tuple[float, float]]] = []
    rails: dict[str, int] = {}
    for line in seen.lines:
        heights = [ports[end] for port in line.ports if (end := (port.machine, port.name)) in ports]
        if not heights:
            continue
        low, high = min(heights) - 6, max(heights) + 6
        rails[line.name] = _first_free(taken, low, high)
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
    parts.append(_plain_text("label", sheet.right + PAD, min(heights) - 5, _label(line)))
    return parts


def _label(line: Line) -> str:
    text = " · ".join((line.name, *line.attributes))
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _port(port: Port) -> str:
    return "  ".join(filter(None, (port.name, port.address)))


def _plain_text(name: str, x: float, y: float, text: str) -> str:
    return f'<text class="{name}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'
