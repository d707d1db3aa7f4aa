"""Check the references between parts of a lab: machines to parents, links to ports, shapes to addresses."""

from collections import Counter

from iolab.experiment.experiment import Section
from iolab.experiment.model.impairments import Impairments
from iolab.experiment.model.links import Link, Wire
from iolab.experiment.model.machines import Machine, Netns, Ready
from iolab.experiment.reading.problems import PORT_ALLOWED, is_port, listed
from iolab.experiment.references.link_references import check_over, check_shape
from iolab.experiment.references.view import Place, View
from iolab.experiment.references.volume_references import check_volumes
from iolab.locale import Phrase


def check_lab(view: View) -> None:
    """Report unresolved names in a lab, and names or addresses that are used twice."""
    _check_machines(view)
    _check_tree(view)
    check_volumes(view)
    _check_ends(view)
    for name, link in view.lab.links.items():
        section = Section("links", name)
        for port in link.addresses:
            if port not in link.ends:
                view.add(section, ("addresses", port), port, link.ends, Phrase("check.end-of-link"))
        _check_join(view, section, link)
        check_over(view, section, link)
        if link.shape is not None:
            check_shape(view, section, link, link.shape)
        if link.wire is not None:
            _check_wire(view, section, link, link.wire)
    _check_addresses(view)


def _check_machines(view: View) -> None:
    for name, machine in view.lab.machines.items():
        section = Section("machines", name)
        if machine.kind != "host" and machine.count is not None:
            advice = Phrase("check.vary-count-by-path", name=name)
            view.say(
                section, ("count",), Phrase("check.count-in-level"), Phrase("check.no-count-here"), advice
            )
        if machine.on is not None and machine.on not in view.lab.machines:
            view.add(section, ("on",), machine.on, view.lab.machines, Phrase("check.a-machine"))
        for index, disk in enumerate(machine.disks):
            if disk.volume not in view.lab.volumes:
                view.add(
                    section,
                    ("disks", index, "volume"),
                    disk.volume,
                    view.lab.volumes,
                    Phrase("check.a-volume"),
                )
        check_standing(view, section, machine)
        if machine.kind == "netns" and machine.device is not None:
            _check_device(view, section, machine, machine.device)


def _check_device(view: View, section: Section, machine: Netns, device: Impairments) -> None:
    if machine.forward != "xdp":
        view.say(
            section, ("device",), Phrase("check.device-with-forward", forward=machine.forward), "forward: xdp"
        )
    _check_impairments(view, section, "device", device)


def _check_impairments(view: View, section: Section, place: str, impairments: Impairments) -> None:
    for key, seen, allowed in impairments.problems():
        view.say(section, (place, key), seen, allowed)


def _check_join(view: View, section: Section, link: Link) -> None:
    modes = MODES.get(link.join or "", ())
    if link.mode is not None and link.mode not in modes:
        allowed = (
            Phrase("check.join-with-mode", join=link.join, modes=listed(modes))
            if modes
            else Phrase("check.mode-of-macvlan-or-ipvlan")
        )
        view.say(section, ("mode",), Phrase("check.mode", mode=link.mode), allowed)
    if link.path is not None and not link.cable:
        allowed = Phrase("check.path-on-a-cable")
        view.say(section, ("path",), Phrase("check.path-on-made-link"), allowed)
    if link.cable and link.join is not None:
        view.say(
            section,
            ("join",),
            Phrase("check.join-on-cable", join=link.join),
            Phrase("check.cable-is-there"),
        )


def _check_wire(view: View, section: Section, link: Link, wire: Wire) -> None:
    for end in wire.sent_by:
        if end not in link.ends:
            view.add(section, ("wire", "sent_by", end), end, link.ends, Phrase("check.end-of-link"))
    for place, seen, allowed in wire.senseless(link.ends):
        view.say(section, ("wire", *place), seen, allowed)
    if wire.emulator == "netem" and link.shape is not None:
        allowed = Phrase("check.one-discipline-per-port")
        view.say(section, ("wire", "emulator"), Phrase("check.emulator-netem-with-shape"), allowed)


def _check_tree(view: View) -> None:
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
                        Phrase("check.machines-form-tree"),
                    )
                break
            seen.append(parent)


def _check_ends(view: View) -> None:
    taken: dict[str, str] = {}
    for name, link in view.lab.links.items():
        section = Section("links", name)
        for index, end in enumerate(link.ends):
            machine = end.machine
            if not is_port(end.port):
                advice = (
                    Phrase("check.did-you-mean-first-port", machine=end) if end in view.lab.machines else ""
                )
                view.say(section, ("ends", index), end, PORT_ALLOWED, advice)
            elif machine not in view.lab.machines:
                view.add(section, ("ends", index), machine, view.lab.machines, Phrase("check.a-machine"))
            elif end in link.ends[:index]:
                view.say(
                    section, ("ends", index), Phrase("check.twice", name=end), Phrase("check.ends-differ")
                )
            elif not _joins_children(view, link, machine):
                if end in taken:
                    advice = Phrase("check.already-end-of-link", taken=taken[end])
                    view.say(section, ("ends", index), end, Phrase("check.port-of-one-link-only"), advice)
                taken[end] = name


def _joins_children(view: View, link: Link, parent: str) -> bool:
    """Whether a link joins a port of a parent to the parent's children: the parent bridges this link with the port's
    other link."""
    others = {end.machine for end in link.ends} - {parent}
    return bool(others) and all(
        view.lab.machines[name].on == parent for name in others & view.lab.machines.keys()
    )


def _check_addresses(view: View) -> None:
    given = [(section, port, str(address)) for section in view.data if section.group == "links"
             for port, address in view.lab.links[section.name].addresses.items()]  # fmt: skip
    count = Counter(address.partition("/")[0] for _, _, address in given)
    for section, port, address in given:
        if count[address.partition("/")[0]] > 1:
            view.say(section, ("addresses", port), address, Phrase("check.address-of-no-other-port"))


MODES = {"macvlan": ("bridge",), "ipvlan": ("l2", "l3", "l3s")}
"""Modes of macvlan and ipvlan interfaces on one parent interface."""


ONE_READY = Phrase("check.one-of-listens-prints-succeeds")

LONGEST_START_NS = 50_000_000_000
"""Maximum time for the start of a service, because the agent does not wait longer for a resource."""


def check_standing(view: View, section: Section, machine: Machine) -> None:
    """Report problems of a machine's files, changes and services."""
    for name, change in machine.run.items():
        for key in ("do", "undo", "check"):
            if change is not None and (words := getattr(change, key)) and not words[0]:
                view.say(
                    section,
                    ("run", name, key),
                    Phrase("check.empty-word"),
                    Phrase("check.program-name-first"),
                )
    for name, service in machine.services.items():
        if service is None:
            continue
        check_ready(view, section, ("services", name, "ready"), service.ready)
        if not service.run[0]:
            view.say(
                section,
                ("services", name, "run"),
                Phrase("check.empty-word"),
                Phrase("check.program-name-first"),
            )
        if service.within > LONGEST_START_NS:
            seen, allowed = (
                f"{service.within / 1e9:g} s",
                Phrase("check.at-most-seconds", most=f"{LONGEST_START_NS / 1000000000.0:g}"),
            )
            view.say(section, ("services", name, "within"), seen, allowed)


def check_ready(view: View, section: Section, place: Place, ready: Ready) -> None:
    """Report a readiness condition with more than one key."""
    given = [ready.listens is not None, ready.prints is not None, bool(ready.succeeds)]
    if sum(given) > 1:
        view.say(section, place, Phrase("check.several-of-them", count=sum(given)), ONE_READY)
