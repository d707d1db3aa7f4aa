"""Names in the base document that lead nowhere, told even while other mistakes keep its cells from being resolved.

Once a file resolves, `references` checks the same and more, in every cell.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from iolab.errors import InputError
from iolab.experiment.experiment import Cell, Experiment, Lab, Section
from iolab.experiment.factors.product import Completion, sample
from iolab.experiment.factors.resolve import Resolver, resolver_of
from iolab.experiment.model.machines import Machine
from iolab.experiment.model.quantities import PortRef
from iolab.experiment.reading.document import line_of
from iolab.experiment.reading.problems import Problems, did_you_mean, listed
from iolab.experiment.references.lab_references import check_lab
from iolab.experiment.references.view import View, check_measure
from iolab.frozen import frozen
from iolab.locale import Phrase, Text
from iolab.registry.registry import measure_kinds

ENDS = ("from", "to", "on")
"""Keys of a measure that name a machine, or machine.port."""


def check_plain_names(tree: Mapping[str, Any], added: Iterable[str], problems: Problems) -> None:
    """Note machines that are named in the base document but are neither in it nor `added` by a level."""
    machines = dict.fromkeys([*(tree["lab"].get("machines") or ()), *added])
    if not machines:
        return
    for place, value, line in _named(tree):
        machine = PortRef(value).machine
        if machine not in machines:
            problems.add(
                line,
                Phrase("check.resolving", place=place),
                value,
                Phrase("check.a-machine-of", machines=listed(machines)),
                did_you_mean(machine, list(machines)),
            )


def _named(tree: Mapping[str, Any]) -> Iterator[tuple[str, str, int]]:
    """Yield (place, text, line) of everything that should name a machine."""
    for name, link in _tables(tree["lab"].get("links")):
        ends = link.get("ends")
        for index, end in enumerate(ends if isinstance(ends, list) else ()):
            if isinstance(end, str):
                yield f"lab.links.{name}.ends.{index}", end, line_of(ends, index, line_of(link, "ends", 0))
    for name, measure in _tables(tree["measure"]):
        yield from _ends(f"measure.{name}", measure, ENDS)
        flows = measure.get("flows")
        for index, flow in enumerate(flows if isinstance(flows, list) else ()):
            if isinstance(flow, Mapping):
                yield from _ends(f"measure.{name}.flows.{index}", flow, ENDS[:2])


def _ends(place: str, table: Mapping[str, Any], keys: Iterable[str]) -> Iterator[tuple[str, str, int]]:
    for key in keys:
        if isinstance(table.get(key), str):
            yield f"{place}.{key}", table[key], line_of(table, key, 0)


def _tables(group: object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if isinstance(group, Mapping):
        yield from ((name, table) for name, table in group.items() if isinstance(table, Mapping))


THIS_COMPUTER = Phrase("check.this-computer")


@frozen
class VolumeTrouble:
    """A volume that nobody uses, or a disk that a machine cannot have."""

    section: Section
    """Whose."""
    place: tuple[str | int, ...]
    """Where in it."""
    seen: Text
    """What is wrong."""
    allowed: Text
    """What would be right."""
    advice: Text
    """What to do."""


def used_volumes(labs: Iterable[Lab]) -> frozenset[str]:
    """Return the volumes that machines have as disks."""
    return frozenset(
        disk.volume for lab in labs for machine in lab.machines.values() for disk in machine.disks
    )


def idle_volumes(lab: Lab, used: Collection[str]) -> Iterator[VolumeTrouble]:
    """Yield the volumes of a lab that no machine has as a disk, in any cell."""
    for name in lab.volumes:
        if name not in used:
            allowed = Phrase("check.volume-of-some-machine")
            advice = Phrase("check.give-volume-to-machine", name=name)
            yield VolumeTrouble(
                Section("volumes", name), (), Phrase("check.no-machine-uses", name=name), allowed, advice
            )


def volume_troubles(lab: Lab) -> Iterator[VolumeTrouble]:
    """Yield what is wrong with the disks of a lab, in the order written."""
    owners: dict[str, str] = {}
    for name, machine in lab.machines.items():
        for index, disk in enumerate(machine.disks):
            section, place = Section("machines", name), ("disks", index, "volume")
            owner = owners.setdefault(disk.volume, name)
            if owner != name or disk.volume in (other.volume for other in machine.disks[:index]):
                yield VolumeTrouble(
                    section,
                    place,
                    Phrase("check.has-already", volume=disk.volume, owner=owner),
                    Phrase("check.volume-with-one-writer"),
                    Phrase("check.volume-for-each-machine"),
                )
            elif trouble := _far(lab, name, machine, disk.volume):
                yield VolumeTrouble(section, place, *trouble)


def _far(lab: Lab, name: str, machine: Machine, volume: str) -> tuple[Text, Text, Text] | None:
    """Tell of a volume on another computer than the one that would open it."""
    found = lab.volumes.get(volume)
    if found is None or found.export is not None:
        return None
    holder = THIS_COMPUTER if found.on is None else _computer(lab, found.on)
    opener = _opener(lab, name, machine)
    if holder is None or opener is None or holder == opener:
        return None
    seen = Phrase("check.lies-on-while", volume=volume, holder=holder, name=name, opener=opener)
    place = (
        Phrase("check.remove-on-from-volume")
        if opener == THIS_COMPUTER
        else Phrase("check.write-where-volume-lies", opener=opener)
    )
    return seen, Phrase("check.volume-on-same-computer"), place


def _opener(lab: Lab, name: str, machine: Machine) -> Text | None:
    """Return the computer that opens a machine's disks: that of a guest's hypervisor, or its own."""
    if machine.kind != "vm":
        return _computer(lab, name)
    return THIS_COMPUTER if machine.on is None else _computer(lab, machine.on)


def _computer(lab: Lab, name: str) -> Text | None:
    """Return the machine whose kernel a machine is on; None where names lead nowhere, or in a circle."""
    for _ in range(len(lab.machines) + 1):
        machine = lab.machines.get(name)
        if machine is None:
            return None
        if machine.kind == "vm" or (machine.kind == "host" and machine.ssh is not None):
            return name
        if machine.on is None:
            return THIS_COMPUTER
        name = machine.on
    return None


MOVES = {
    "machines": frozenset({"kind", "on", "disks", "count"}),
    "links": frozenset(
        {"ends", "shape", "addresses", "over", "tunnel", "bond", "hash", "join", "mode", "ip"}
    ),
    "volumes": frozenset({"on", "export"}),
}
"""Keys of each group of the lab that hold names of other sections."""

OF_MEASURES = frozenset({"kind", "watch", "instruments"})
"""The same of every measure; each kind has its own beside them."""

MOST_WORK = 30_000
"""Sections looked at while checking references, all combinations together."""


def check_references(experiment: Experiment, problems: Problems) -> None:
    """Note every reference that leads nowhere, in any cell."""
    resolver = resolver_of(experiment)
    lab = [section for section in resolver.sections if section.group != "measure"]
    moving = {name for section in lab for name in resolver.factors_of(section, MOVES[section.group])}
    complete = Completion(experiment.factors)
    limit = max(10, MOST_WORK // (len(lab) + 1) // (len(resolver.measures) + 1))
    found = (_view(resolver, complete(cell), lab, problems) for cell in sample(experiment, moving, limit))
    seen = [view for view in found if view is not None]
    used = used_volumes(view.lab for view in seen)
    for one in seen:
        check_lab(one)
        for trouble in (*volume_troubles(one.lab), *idle_volumes(one.lab, used)):
            one.say(trouble.section, trouble.place, trouble.seen, trouble.allowed, trouble.advice)
    if problems:
        return
    views: dict[tuple[str | None, ...], View | None] = {}
    order = sorted(moving)
    names = OF_MEASURES.union(*(kind.named_by for kind in measure_kinds().values()))
    for measure in (*resolver.together, *resolver.measures):
        section = Section("measure", measure)
        for cell in sample(experiment, {*moving, *resolver.factors_of(section, names)}, limit):
            whole = complete(cell)
            at = tuple(whole.get(name) for name in order)
            if at not in views:
                views[at] = _view(resolver, whole, lab, problems)
            view = views[at]
            if view is not None:
                check_measure(view, resolver, section, whole)


def _view(resolver: Resolver, cell: Cell, lab: list[Section], problems: Problems) -> View | None:
    try:
        setup = resolver.written(cell)
    except InputError:
        return None  # its own section told what is wrong, or `only` leaves such cells out
    data = {}
    for section in lab:
        variant = resolver.variant(section, cell)
        if variant.data is not None:
            data[section] = (variant.data, variant.line)
    ports = {end: name for name, link in setup.lab.links.items() for end in link.ends}
    return View(setup.lab, ports, data, problems)
