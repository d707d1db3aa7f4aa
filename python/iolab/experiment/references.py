"""Names that refer to other sections (machines, ports, links, volumes): that they exist, in every cell.

A lab is checked once per combination of the factors that move names, a measure once per combination of those and its
own. What one section says alone is checked elsewhere.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from iolab.errors import InputError
from iolab.experiment.document import line_of
from iolab.experiment.experiment import Cell, Experiment, Lab
from iolab.experiment.links import Link, Shape
from iolab.experiment.machines import Device, Netns
from iolab.experiment.measures import DiskMeasure, Forwarding, Latency, LoadCurve, Measure, Packets, Stream
from iolab.experiment.names import PORT_ALLOWED, is_port
from iolab.experiment.problems import Problems, did_you_mean, listed
from iolab.experiment.product import Completion, sample
from iolab.experiment.resolve import Resolver
from iolab.experiment.sections import Section
from iolab.experiment.volumes import idle_volumes, used_volumes, volume_troubles

MOVES = {
    "machines": frozenset({"kind", "on", "disks"}),
    "links": frozenset({"ends", "shape", "addresses"}),
    "volumes": frozenset({"on", "export"}),
    "measure": frozenset({"kind", "from", "to", "on", "flows", "pairs", "watch"}),
}
"""Keys of each group that hold names of other sections."""
MOST_DATAGRAM = 65_507
"""UDP payload over IPv4 [bytes]."""
MOST_WORK = 30_000
"""Sections looked at while checking references, all combinations together."""


def check_references(experiment: Experiment, problems: Problems) -> None:
    """Note every reference that leads nowhere, in any cell."""
    resolver = Resolver(experiment)
    lab = [section for section in resolver.sections if section.group != "measure"]
    moving = {name for section in lab for name in resolver.factors_of(section, MOVES[section.group])}
    complete = Completion(experiment.factors)
    limit = max(10, MOST_WORK // (len(lab) + 1) // (len(resolver.measures) + 1))
    found = (_view(resolver, complete(cell), lab, problems) for cell in sample(experiment, moving, limit))
    seen = [view for view in found if view is not None]
    used = used_volumes(view.lab for view in seen)
    for one in seen:
        _check_lab(one)
        for trouble in (*volume_troubles(one.lab), *idle_volumes(one.lab, used)):
            one.say(trouble.section, trouble.place, trouble.seen, trouble.allowed, trouble.advice)
    if problems:
        return
    views: dict[tuple[str | None, ...], _View | None] = {}
    order = sorted(moving)
    for measure in resolver.measures:
        section = Section("measure", measure)
        for cell in sample(experiment, {*moving, *resolver.factors_of(section, MOVES["measure"])}, limit):
            whole = complete(cell)
            at = tuple(whole.get(name) for name in order)
            if at not in views:
                views[at] = _view(resolver, whole, lab, problems)
            view = views[at]
            if view is not None:
                _check_measure(view, resolver, section, whole)


@dataclass(frozen=True, slots=True)
class _View:
    """The lab of one combination, with the lines it was read from."""

    lab: Lab
    ports: Mapping[str, str]
    """machine.port to its link."""
    data: Mapping[Section, tuple[Any, int]]
    """Section to its plain data and line."""
    problems: Problems

    def add(
        self,
        section: Section,
        place: tuple[str | int, ...],
        seen: object,
        known: Iterable[str],
        what: str,
    ) -> None:
        """Note a name that leads nowhere."""
        words = list(known)
        doing = "resolving " + ".".join(map(str, (section.place, *place)))
        self.problems.add(
            self.line(section, place), doing, seen, f"{what}: {listed(words)}", did_you_mean(seen, words)
        )

    def say(
        self, section: Section, place: tuple[str | int, ...], seen: object, allowed: str, advice: str = ""
    ) -> None:
        """Note anything else that is wrong."""
        doing = "resolving " + ".".join(map(str, (section.place, *place)))
        self.problems.add(self.line(section, place), doing, seen, allowed, advice)

    def line(self, section: Section, place: tuple[str | int, ...]) -> int:
        data, line = self.data[section]
        for word in place:
            line = line_of(data, word, line)
            try:
                data = data[word]
            except (KeyError, IndexError, TypeError):
                break
        return line


def _view(resolver: Resolver, cell: Cell, lab: list[Section], problems: Problems) -> _View | None:
    try:
        setup = resolver.setup(cell)
    except InputError:
        return None  # its own section told what is wrong, or `only` leaves such cells out
    data = {}
    for section in lab:
        variant = resolver.variant(section, cell)
        if variant.data is not None:
            data[section] = (variant.data, variant.line)
    ports = {end: name for name, link in setup.lab.links.items() for end in link.ends}
    return _View(setup.lab, ports, data, problems)


def _check_lab(view: _View) -> None:
    _check_machines(view)
    _check_tree(view)
    for name, volume in view.lab.volumes.items():
        if volume.on is not None and volume.on not in view.lab.machines:
            view.add(Section("volumes", name), ("on",), volume.on, view.lab.machines, "a machine")
    _check_ends(view)
    for name, link in view.lab.links.items():
        section = Section("links", name)
        for port in link.addresses:
            if port not in link.ends:
                view.add(section, ("addresses", port), port, link.ends, "an end of this link")
        if link.shape is not None:
            _check_shape(view, section, link, link.shape)
    _check_addresses(view)


def _check_machines(view: _View) -> None:
    for name, machine in view.lab.machines.items():
        section = Section("machines", name)
        if machine.on is not None and machine.on not in view.lab.machines:
            view.add(section, ("on",), machine.on, view.lab.machines, "a machine")
        for index, disk in enumerate(machine.disks):
            if disk.volume not in view.lab.volumes:
                view.add(section, ("disks", index, "volume"), disk.volume, view.lab.volumes, "a volume")
        if machine.kind == "netns" and machine.device is not None:
            _check_device(view, section, machine, machine.device)


def _check_device(view: _View, section: Section, machine: Netns, device: Device) -> None:
    keys = ("rate", "loss_ratio", "lose_every", "delay", "stall")
    given = [key for key in keys if getattr(device, key) is not None]
    if len(given) > 1:
        view.say(section, ("device", given[1]), " and ".join(given), "one of them: a device does one thing")
    if machine.forward != "xdp":
        view.say(section, ("device",), f"a device with forward: {machine.forward}", "forward: xdp")
    if device.stall is not None and device.stall.length >= device.stall.every:
        seen = f"stalls of {device.stall.length} ns every {device.stall.every} ns"
        view.say(section, ("device", "stall"), seen, "a length below every: it must forward at times")


def _check_tree(view: _View) -> None:
    told: set[str] = set()
    for name in view.lab.machines:
        seen = [name]
        while (parent := view.lab.machines[seen[-1]].on) in view.lab.machines and parent is not None:
            if parent in seen:
                circle = seen[seen.index(parent) :]
                if told.isdisjoint(circle):
                    told.update(circle)
                    view.say(
                        Section("machines", circle[-1]),
                        ("on",),
                        " on ".join([*circle, parent]),
                        "machines that form a tree",
                    )
                break
            seen.append(parent)


def _check_ends(view: _View) -> None:
    taken: dict[str, str] = {}
    for name, link in view.lab.links.items():
        section = Section("links", name)
        for index, end in enumerate(link.ends):
            machine, dot, port = end.partition(".")
            if not dot or not is_port(port):
                advice = f"did you mean '{machine}.eth0'?" if not dot and machine in view.lab.machines else ""
                view.say(section, ("ends", index), end, PORT_ALLOWED, advice)
            elif machine not in view.lab.machines:
                view.add(section, ("ends", index), machine, view.lab.machines, "a machine")
            elif end in link.ends[:index]:
                view.say(section, ("ends", index), f"{end} twice", "ends that differ")
            elif not _joins_children(view, link, machine):
                if end in taken:
                    advice = f"it is already an end of '{taken[end]}'; use another port"
                    view.say(section, ("ends", index), end, "a port of one link only", advice)
                taken[end] = name


def _joins_children(view: _View, link: Link, parent: str) -> bool:
    """Tell whether a link joins a parent's port to its children: the parent bridges it with the port's other link."""
    others = {end.partition(".")[0] for end in link.ends} - {parent}
    return bool(others) and all(
        view.lab.machines[name].on == parent for name in others & view.lab.machines.keys()
    )


def _check_shape(view: _View, section: Section, link: Link, shape: Shape) -> None:
    if shape.at not in link.ends:
        view.add(section, ("shape", "at"), shape.at, link.ends, "an end of this link")
    if shape.classes and shape.qdisc not in ("htb", "pacer"):
        view.say(section, ("shape", "classes"), f"classes with {shape.qdisc}", "classes with htb or pacer")
    if shape.default is not None and shape.default not in shape.classes:
        view.add(section, ("shape", "default"), shape.default, shape.classes, "a class")
    for name, one in shape.classes.items():
        for key, place in (("from", one.src), ("to", one.dst)):
            if place is not None:
                _check_place(view, section, ("shape", "classes", name, key), place)
        if one.ceil is not None and one.ceil < one.rate:
            view.say(
                section,
                ("shape", "classes", name, "ceil"),
                f"a ceil of {one.ceil} bit/s",
                f"at least the rate, {one.rate} bit/s",
            )


def _check_addresses(view: _View) -> None:
    given = [(section, port, str(address)) for section in view.data if section.group == "links"
             for port, address in view.lab.links[section.name].addresses.items()]  # fmt: skip
    count = Counter(address.partition("/")[0] for _, _, address in given)
    for section, port, address in given:
        if count[address.partition("/")[0]] > 1:
            view.say(section, ("addresses", port), address, "an address that no other port has")


def _check_place(view: _View, section: Section, place: tuple[str | int, ...], name: str) -> bool:
    """Note a name that is neither a machine nor a port of a link."""
    machine, dot, _ = name.partition(".")
    if name in view.lab.machines or name in view.ports:
        return True
    if dot and machine in view.lab.machines:
        view.add(
            section,
            place,
            name,
            (port for port in view.ports if port.startswith(f"{machine}.")),
            "a port that a link has",
        )
    else:
        view.add(
            section,
            place,
            name,
            (*view.lab.machines, *view.ports) if dot else view.lab.machines,
            "a machine, or a machine.port that a link has",
        )
    return False


def _check_measure(view: _View, resolver: Resolver, section: Section, cell: Cell) -> None:
    try:
        measure = resolver.model(section, cell)
        variant = resolver.variant(section, cell)
    except InputError:
        return
    assert isinstance(measure, Stream | Forwarding | LoadCurve | Latency | DiskMeasure)
    view = _View(view.lab, view.ports, {**view.data, section: (variant.data, variant.line)}, view.problems)
    if isinstance(measure, Stream) and measure.protocol == "udp" and (measure.length or 0) > MOST_DATAGRAM:
        view.say(section, ("length",), f"{measure.length} bytes over UDP", f"at most {MOST_DATAGRAM}")
    for index, watch in enumerate(measure.watch):
        if watch.at not in view.lab.links and watch.at not in view.ports:
            place = (
                ("watch", index, "at")
                if isinstance(variant.data["watch"][index], Mapping)
                else ("watch", index)
            )
            view.add(
                section,
                place,
                watch.at,
                {**view.lab.links, **view.ports},
                "a link, or a machine.port that a link has",
            )
    _check_flows(view, section, measure)


def _check_flows(view: _View, section: Section, measure: Measure) -> None:
    if isinstance(measure, DiskMeasure):
        if measure.on not in view.lab.machines:
            view.add(section, ("on",), measure.on, view.lab.machines, "a machine")
        return
    if isinstance(measure, Stream):
        if measure.on is not None and measure.on not in view.lab.machines:
            view.add(section, ("on",), measure.on, view.lab.machines, "a machine")
        if measure.flows:
            _check_many(view, section, measure)
            return
        if (measure.src is None and measure.on is None) or measure.dst is None:
            missing = (
                "from" if measure.dst is not None else "to" if measure.src or measure.on else "from and to"
            )
            view.say(
                section,
                (),
                f"no {missing}",
                "from (or on) and to, or flows, after every factor is applied",
                f"add {missing}",
            )
            return
    source = measure.src if measure.src is not None else getattr(measure, "on", None)
    _check_pair(view, section, (), "from" if measure.src is not None else "on", str(source), str(measure.dst))
    if isinstance(measure, Packets):
        for index, pair in enumerate(measure.pairs):
            _check_pair(view, section, ("pairs", index), "from", pair.src, pair.dst)


def _check_many(view: _View, section: Section, measure: Stream) -> None:
    if measure.src is not None or measure.dst is not None:
        key = "from" if measure.src is not None else "to"
        view.say(section, (key,), f"both flows and {key}", "either flows, or from and to")
    for index, flow in enumerate(measure.flows):
        _check_pair(view, section, ("flows", index), "from", flow.src, flow.dst)


def _check_pair(
    view: _View, section: Section, place: tuple[str | int, ...], key: str, source: str, target: str
) -> None:
    if not all(
        [
            _check_place(view, section, (*place, key), source),
            _check_place(view, section, (*place, "to"), target),
        ]
    ):
        return
    for word, name in ((key, source), ("to", target)):
        if "." not in name and not any(port.startswith(f"{name}.") for port in view.ports):
            view.say(
                section,
                (*place, word),
                f"'{name}', which no link reaches",
                "a machine with a port on some link",
            )
            return
    if source == target:
        view.say(section, (*place, "to"), f"'{target}' to itself", "two different machines or ports")
