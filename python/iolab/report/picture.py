"""Content of the lab drawing: machines, links and addresses of one cell, and the attributes that vary between cells."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from pydantic import BaseModel

from iolab.errors import IolabError
from iolab.experiment import cells, resolver_of
from iolab.experiment.experiment import Experiment, Lab
from iolab.experiment.model.impairments import Impairments
from iolab.experiment.model.links import Link, Offload, Shape
from iolab.experiment.model.machines import Machine
from iolab.experiment.model.volumes import Volume
from iolab.lab.topology import topology_of
from iolab.report import numbers
from iolab.report.locale import Words
from iolab.report.names import Names
from iolab.units import split_frame_rate, write_bytes

MOST_CELLS = 2_000
"""Maximum number of cells that are searched for the baseline."""


IMPAIRMENT_UNITS = {
    "loss": "ratio", "corrupt": "ratio", "duplicate": "ratio", "ratio": "ratio",
    "to_bad": "ratio", "to_good": "ratio", "bad": "ratio", "good": "ratio", "jitter_correlation": "ratio",
    "delay": "ns", "jitter": "ns", "queue_time": "ns", "ecn_above": "ns", "length": "ns", "every": "ns", "by": "ns",
    "target": "ns", "interval": "ns", "queue": "byte",
}  # fmt: skip
"""Formatting functions of impairments that have a unit; other impairments are counts and words."""
MOST_DISKS = 2
"""Maximum number of disks that are named in a machine's box."""


@dataclass(frozen=True, slots=True)
class Port:
    """One end of a link."""

    machine: str
    """Name of the machine."""
    name: str
    """Name of the port."""
    link: str
    """Name of the link."""
    address: str
    """Address with prefix length; empty if the port has none."""


@dataclass(frozen=True, slots=True)
class Box:
    """A machine."""

    name: str
    """Name of the machine."""
    kind: str
    """Kind of the machine, and further properties, for example whether the machine forwards packets."""
    parent: str | None
    """Parent machine."""
    ports: tuple[Port, ...]
    """Ports, in the order of the links."""


@dataclass(frozen=True, slots=True)
class Line:
    """A link."""

    name: str
    """Name of the link."""
    ports: tuple[Port, ...]
    """Ends of the link."""
    attributes: tuple[str, ...]
    """Attributes of the link: bridge, MTU 1500 / 9000, ..."""


@dataclass(frozen=True, slots=True)
class Picture:
    """The content of the drawing."""

    boxes: tuple[Box, ...]
    """Machines, in file order."""
    lines: tuple[Line, ...]
    """Links, in file order."""


def picture(experiment: Experiment, names: Names) -> Picture:
    """Return the picture of the baseline's lab, or of the first cell's lab; empty: the experiment cannot be
    resolved."""
    try:
        lab = resolver_of(experiment).setup(_cell(experiment)).lab
        addresses = {
            f"{point.machine}.{point.port}": f"{point.address}/{point.prefix_length}"
            for segment in topology_of(lab).segments
            for point in segment.endpoints
        }
    except IolabError:
        return Picture((), ())
    lines = tuple(_line(name, link, addresses, experiment, names.words) for name, link in lab.links.items())
    ports = [port for line in lines for port in line.ports]
    return Picture(tuple(_box(name, lab, ports, names.words) for name in lab.machines), lines)


def _cell(experiment: Experiment) -> Mapping[str, str]:
    first: Mapping[str, str] = {}
    for number, cell in enumerate(islice(cells(experiment), MOST_CELLS)):
        first = first if number else cell
        if all(cell.get(factor) == label for factor, label in experiment.baseline.items()):
            return cell
    return first


def _box(name: str, lab: Lab, ports: list[Port], words: Words) -> Box:
    machine = lab.machines[name]
    own = {port.name: port for port in ports if port.machine == name}
    kind = [words.name("lab.kinds", machine.kind)]
    kind += [words.text("lab.forward", value=machine.forward)] if machine.forward != "none" else []
    kind += _disks(machine, lab, words)
    for template, parts in (
        (words.text("lab.changes"), machine.run),
        (words.text("lab.services"), machine.services),
    ):
        names = [part for part, made in parts.items() if made is not None]
        kind += [template.format(names=" ".join(names))] if names else []
    return Box(name, words.listed(kind), machine.on, tuple(own.values()))


def _disks(machine: Machine, lab: Lab, words: Words) -> list[str]:
    """Return the names of a machine's disks, or their number if the names would be too wide."""
    if len(machine.disks) > MOST_DISKS:
        return [words.text("lab.attribute", name=len(machine.disks), value="disks")]
    return [
        words.text(
            "lab.attribute",
            name="disk",
            value=_disk(disk.volume, lab.volumes[disk.volume]),
        )
        for disk in machine.disks
    ]


def _disk(name: str, volume: Volume) -> str:
    """Return a volume with its size, or with the existing device or target that it uses."""
    target = volume.existing_target
    exists = volume.device if target is None else target.identity
    return f"{name} {exists or write_bytes(volume.size_bytes)}"


def _line(name: str, link: Link, addresses: Mapping[str, str], experiment: Experiment, words: Words) -> Line:
    ports = tuple(Port(end.machine, end.port, name, addresses.get(end, "")) for end in link.ends)
    return Line(name, ports, tuple(_attributes(name, link, experiment, words)))


def _attributes(name: str, link: Link, experiment: Experiment, words: Words) -> Iterator[str]:
    if link.cable:
        yield words.text("lab.cable")
    elif len(link.ends) > 2:
        yield words.text("lab.bridge")
    templates = {
        "mtu": words.text("lab.mtu"),
        "vlan": words.text("lab.vlan"),
        "offload": words.text("lab.offload"),
        "shape": words.text("lab.shape"),
        "wire": words.text("lab.wire"),
    }
    values = {key: text for key in templates if (text := _brief(getattr(link, key), words))}
    for key, text in (values | _levels(name, experiment)).items():
        yield templates.get(key, words.text("lab.attribute")).format(
            name=key.replace("_", " ").replace(".", " "), value=text
        )


def _levels(link: str, experiment: Experiment) -> dict[str, str]:
    """Return the attributes of a link that factors vary, with all their levels."""
    found = {}
    for factor in experiment.factors:
        for prefix in (f"links.{link}.", "links.*."):
            if factor.name.startswith(prefix):
                found[factor.name.removeprefix(prefix)] = " / ".join(level.label for level in factor.levels)
    return found


def _brief(value: object, words: Words) -> str:
    """Return the value of a link attribute; empty if the attribute keeps the kernel's setting."""
    match value:
        case Offload():
            return words.listed(f"{key} {switch}" for key, switch in _given(value) if key and switch)
        case Shape(rate=None):
            return value.qdisc
        case Shape():
            return f"{value.qdisc} {_shown(value.rate or 0, 'bit/s', words)}"
        case Impairments():
            return words.listed(f"{key} {_amount(key, each, words)}" for key, each in _changed(value))
        case None:
            return ""
        case _:
            return str(value)


def _changed(impairments: Impairments) -> list[tuple[str, object]]:
    default = type(impairments)()
    return [(key, each) for key, each in _given(impairments) if each != getattr(default, key)]


def _amount(key: str, value: object, words: Words) -> str:
    """Return one impairment as text: a number with its unit, or each of its parts."""
    if isinstance(value, Impairments):
        return _brief(value, words)
    if isinstance(value, dict):
        return words.listed(f"{part} {_amount(part, each, words)}" for part, each in value.items())
    if isinstance(value, tuple):
        return f"[{len(value)}]"
    if isinstance(value, BaseModel):
        return " ".join(f"{part} {_amount(part, each, words)}" for part, each in _given(value))
    if key == "rate":
        number, unit = split_frame_rate(str(value))
        return _shown(number, {"bit": "bit/s", "pps": "frame/s"}[unit], words)
    unit = IMPAIRMENT_UNITS.get(key, "")
    return _shown(float(str(value)), unit, words) if unit else str(value)


def _given(model: BaseModel) -> list[tuple[str, object]]:
    return [(key, getattr(model, key)) for key in type(model).model_fields]


def _shown(value: float, unit: str, words: Words) -> str:
    by = numbers.scale("", unit, [value])
    return numbers.quantity(value, by, numbers.decimals_exact(value * by.factor), words)
