"""The lab's drawing: machines as boxes (children inside their parent), every link as a line below them with its ports.

Reads the experiment's base document; what a factor varies is shown with all its levels.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from iolab.experiment.experiment import Experiment
from iolab.report.names import Names

MOST_MACHINES = 12
"""Machines that still make a readable drawing."""
CHARACTER = 7.2
"""Width of a character at 12 px, generously [px]."""
SLOT = 84
GAP = 20
PAD = 12
HEAD = 46
LANE = 52


@dataclass(frozen=True, slots=True)
class Port:
    """One end of a link."""

    machine: str
    """Name of the machine."""
    name: str
    """Name of the port; empty where only the machine is known."""
    link: str
    """Name of the link."""
    address: str
    """With prefix length; empty where it is not known."""


@dataclass(frozen=True, slots=True)
class Box:
    """A machine."""

    name: str
    """Its name."""
    kind: str
    """In words."""
    parent: str | None
    """What it runs on."""
    notes: tuple[str, ...]
    """What else a reader wants to know, e.g. that it forwards."""
    ports: tuple[Port, ...]
    """In the order of the links."""


@dataclass(frozen=True, slots=True)
class Line:
    """A link."""

    name: str
    """Its name."""
    ports: tuple[Port, ...]
    """Its ends."""
    attributes: tuple[str, ...]
    """In words: bridge, MTU 1500 / 9000, ..."""


@dataclass(frozen=True, slots=True)
class Topology:
    """What is drawn."""

    boxes: tuple[Box, ...]
    """In the order written."""
    lines: tuple[Line, ...]
    """In the order written."""


@dataclass(frozen=True, slots=True)
class LabDrawing:
    """The lab as picture and text."""

    svg: str
    """Empty where the lab is too large to draw."""
    too_large: str
    """Says so; empty where it is drawn."""
    texts: tuple[str, ...]
    """The same as sentences."""
    alt: str
    """What the picture shows."""


def draw(experiment: Experiment, names: Names, addresses: Mapping[str, str]) -> LabDrawing:
    """Draw the lab; `addresses` has those of ports (machine.port) that the file leaves to the lab."""
    words = names.words.lab
    seen = topology(experiment, names, addresses)
    listed = [_link_text(line, names) for line in seen.lines]
    texts = (*(_machine_text(box, names) for box in seen.boxes), *listed)
    alt = words.alt.format(machines=names.words.comma.join(box.name for box in seen.boxes), links="; ".join(listed))
    if len(seen.boxes) > MOST_MACHINES or len(seen.lines) > MOST_MACHINES * 2:
        return LabDrawing("", words.too_many.format(count=len(seen.boxes)), texts, alt)
    return LabDrawing(render(seen, alt) if seen.boxes else "", "", texts, alt)


def _machine_text(box: Box, names: Names) -> str:
    words = names.words.lab
    if box.parent is None:
        return words.machine.format(name=box.name, kind=names.words.comma.join((box.kind, *box.notes)))
    return words.machine_on.format(name=box.name, kind=names.words.comma.join((box.kind, *box.notes)), parent=box.parent)


def _link_text(line: Line, names: Names) -> str:
    ends = " — ".join(" ".join(filter(None, (_end(port), port.address))) for port in line.ports)
    return names.words.lab.link.format(name=line.name, ends=ends, attributes=names.words.comma.join(line.attributes))


def _end(port: Port) -> str:
    return f"{port.machine}.{port.name}" if port.name else port.machine


def topology(experiment: Experiment, names: Names, addresses: Mapping[str, str]) -> Topology:
    """Read machines and links from the base document."""
    lab = _mapping(experiment.tree.get("lab"))
    links = {name: _mapping(link) for name, link in _mapping(lab.get("links")).items()}
    lines = tuple(
        Line(name, _ports(name, link, addresses), _attributes(name, link, experiment, names)) for name, link in links.items()
    )
    ports = [port for line in lines for port in line.ports]
    boxes = tuple(_box(name, _mapping(machine), ports, names) for name, machine in _mapping(lab.get("machines")).items())
    return Topology(boxes, lines)


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _box(name: str, machine: Mapping[str, object], ports: Iterable[Port], names: Names) -> Box:
    words = names.words.lab
    kind = str(machine.get("kind", ""))
    own = {port.name or port.link: port for port in ports if port.machine == name}
    forward = machine.get("forward", "none")
    notes = (words.forward.format(value=forward),) if forward != "none" else ()
    parent = machine.get("on")
    return Box(name, words.kinds.get(kind, kind), str(parent) if parent else None, notes, tuple(own.values()))


def _ports(link: str, body: Mapping[str, object], addresses: Mapping[str, str]) -> tuple[Port, ...]:
    given = _mapping(body.get("addresses"))
    ends = body.get("ends")
    ports = []
    for end in ends if isinstance(ends, list | tuple) else ():
        machine, _, port = str(end).partition(".")
        ports.append(Port(machine, port, link, str(given.get(end) or addresses.get(str(end), ""))))
    return tuple(ports)


def _attributes(name: str, link: Mapping[str, object], experiment: Experiment, names: Names) -> tuple[str, ...]:
    words = names.words.lab
    ends = link.get("ends")
    found = []
    if link.get("cable"):
        found.append(words.cable)
    elif isinstance(ends, list | tuple) and len(ends) > 2:
        found.append(words.bridge)
    templates = {"mtu": words.mtu, "vlan": words.vlan, "offload": words.offload, "shape": words.shape, "wire": words.wire}
    values = {"mtu": "1500"} | {key: _brief(link[key]) for key in templates if key in link}
    values |= _levels(name, experiment)
    for key, value in values.items():
        template = templates.get(key, words.attribute)
        found.append(template.format(name=key.replace("_", " ").replace(".", " "), value=value))
    return tuple(found)


def _levels(link: str, experiment: Experiment) -> dict[str, str]:
    """Attributes of this link that factors vary, with all their levels."""
    found = {}
    for factor in experiment.factors:
        for prefix in (f"links.{link}.", "links.*."):
            if factor.name.startswith(prefix):
                found[factor.name.removeprefix(prefix)] = " / ".join(level.label for level in factor.levels)
    return found


def _brief(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_brief(each)}" for key, each in value.items() if not isinstance(each, Mapping))
    return str(value)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a machine's box lies [px]."""

    box: Box
    x: float
    y: float
    width: float
    height: float


def render(seen: Topology, alt: str) -> str:
    """Lay out the drawing and write it as SVG; colours are the page's CSS variables."""
    places: list[_Place] = []
    drops: dict[tuple[str, str], tuple[float, float]] = {}
    x = 1.0
    for box in _children(seen, None):
        width, _ = _place(seen, box, x, 1.0, _height(seen), places, drops, frozenset())
        x += width + GAP
    bottom = max((place.y + place.height for place in places), default=0.0)
    lanes = _lanes(seen.lines, drops)
    texts = [_lane_label(line) for line in seen.lines]
    reach = [min(_xs(line, drops), default=0) + len(text) * CHARACTER + 20 for line, text in zip(seen.lines, texts, strict=True)]
    width = max([x - GAP + 1, *reach])
    height = bottom + 34 + LANE * (max(lanes, default=-1) + 1)
    parts = [_svg_box(place) for place in places]
    for line, lane, text in zip(seen.lines, lanes, texts, strict=True):
        parts += _svg_line(line, bottom + 30 + LANE * lane + 22, text, drops)
    body = "".join(parts)
    return (
        f'<svg class="lab" role="img" aria-label="{escape(alt)}" viewBox="0 0 {width:.0f} {height:.0f}"'
        f' style="width:{width:.0f}px" xmlns="http://www.w3.org/2000/svg">{body}</svg>'
    )


def _children(seen: Topology, parent: str | None) -> list[Box]:
    known = {box.name for box in seen.boxes}
    return [box for box in seen.boxes if (box.parent if box.parent in known and box.parent != box.name else None) == parent]


def _height(seen: Topology) -> float:
    return HEAD + 28.0 if seen.boxes else 0.0


def _place(
    seen: Topology,
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
    title = max(len(box.name) * CHARACTER * 1.15, len(", ".join((box.kind, *box.notes))) * CHARACTER) + 2 * PAD
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
    """Give every link the highest lane that is free over its whole width."""
    taken: list[list[tuple[float, float]]] = []
    lanes = []
    for line in lines:
        xs = _xs(line, drops) or [0.0]
        low, high = min(xs) - 10, max(max(xs), min(xs) + len(_lane_label(line)) * CHARACTER) + 10
        lane = next((i for i, used in enumerate(taken) if all(high < a or b < low for a, b in used)), len(taken))
        if lane == len(taken):
            taken.append([])
        taken[lane].append((low, high))
        lanes.append(lane)
    return lanes


def _lane_label(line: Line) -> str:
    return " · ".join((line.name, *line.attributes))


def _svg_box(place: _Place) -> str:
    box = place.box
    kind = ", ".join((box.kind, *box.notes))
    return (
        f'<rect class="box" x="{place.x:.1f}" y="{place.y:.1f}" width="{place.width:.1f}" height="{place.height:.1f}" rx="6"/>'
        f'<text class="name" x="{place.x + PAD:.1f}" y="{place.y + 21:.1f}">{escape(box.name)}</text>'
        f'<text class="kind" x="{place.x + PAD:.1f}" y="{place.y + 37:.1f}">{escape(kind)}</text>'
    )


def _svg_line(line: Line, y: float, label: str, drops: Mapping[tuple[str, str], tuple[float, float]]) -> list[str]:
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
        parts.append(f'<text class="label" text-anchor="middle" x="{x:.1f}" y="{top - 10:.1f}">{escape(port.name)}</text>')
        if port.address:
            parts.append(f'<text class="address" x="{x + 6:.1f}" y="{top + 17:.1f}">{escape(port.address)}</text>')
    wide = "lane bridge" if len(line.ports) > 2 else "lane"
    parts.insert(0, f'<line class="{wide}" x1="{min(xs):.1f}" y1="{y:.1f}" x2="{max(xs):.1f}" y2="{y:.1f}"/>')
    parts.append(f'<text class="label" x="{min(xs) + 8:.1f}" y="{y + 16:.1f}">{escape(label)}</text>')
    return parts
