"""Derive warnings about a lab's hosts and guests that affect all figures of a trial. Pure."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from iolab.experiment.experiment import Lab
from iolab.experiment.model.measures import Measure
from iolab.experiment.model.quantities import PortRef
from iolab.lab.hosts.facts import Facts
from iolab.lab.hosts.readiness import cards_of, concerns
from iolab.lab.kernels import HERE, kernel_of, parent_kernel
from iolab.lab.packets.placement import Placement
from iolab.lab.topology import Topology
from iolab.lab.volumes.places import holder_of
from iolab.messages.host_issues import GovernorChanges, HostIssue, TurboOn
from iolab.messages.places import computer
from iolab.messages.warnings import AcceleratorUnknown, Emulated, HostUnready, Polling, TrialWarning
from iolab.registry.registry import measure_kinds
from iolab.results.trial import GuestUse


def host_warnings(
    lab: Lab, known: Mapping[str, Facts], placement: Placement | None = None
) -> tuple[HostUnready, ...]:
    """Return a warning for each host of a lab whose facts show that the host is not ready for measurements.

    Issues with settings that the lab itself sets are excluded.
    """
    kernels = dict.fromkeys(kernel_of(lab, name) for name in lab.machines)
    found = (_warning(lab, kernel, known[kernel], placement) for kernel in kernels if kernel in known)
    return tuple(one for one in found if one is not None)


def _warning(lab: Lab, kernel: str, facts: Facts, placement: Placement | None) -> HostUnready | None:
    measuring = placement is not None and any(
        kernel_of(lab, PortRef(port).machine) == kernel for port in placement.senders
    )
    cpus = {*placement.senders.values(), *placement.receivers.values()} if placement and measuring else set()
    set_here = _set_by_the_lab(lab, kernel)
    every = concerns(facts, cards_of(lab, kernel), cpus)
    seen = tuple(one for one in every if not isinstance(one, set_here))
    if not seen:
        return None
    return HostUnready(host=computer(kernel), concerns=seen)


def _set_by_the_lab(lab: Lab, kernel: str) -> tuple[type[HostIssue], ...]:
    """Return the types of issues that the lab's settings for a host determine."""
    found: set[type[HostIssue]] = set()
    for name, machine in lab.machines.items():
        if machine.kind != "host" or kernel_of(lab, name) != kernel:
            continue
        found |= {GovernorChanges} if machine.processors.governor is not None else set()
        found |= {TurboOn} if machine.processors.turbo is not None else set()
    return tuple(found)


EMULATED_CPU = "QEMU TCG CPU"
"""Prefix of the model name of an emulated processor."""


def guest_warnings(
    guests: Mapping[str, GuestUse], emulated: Sequence[str] = (), part: Collection[str] | None = None
) -> tuple[TrialWarning, ...]:
    """Return the warnings about guests; `emulated` lists emulated hosts, which are not guests of the lab.

    `part` lists the kernels that take part in the trial; None: all kernels take part.
    """
    taking = {name: use for name, use in guests.items() if part is None or name in part}
    return (*_emulated(taking, emulated), *_polling(guests))


def taking_part(lab: Lab, topology: Topology, measure: Measure) -> Collection[str] | None:
    """Return the kernels that take part in a measure's trial; None if they are unknown, in which case any kernel may
    take part.

    The result includes the kernels of the measure's programs, the holders of the volumes behind their disks, guests
    with several ports, which may forward frames, and the hosts of all these guests.
    """
    found = set(measure_kinds()[measure.kind].kernels(measure, topology))
    if not found:
        return None
    on_them = [name for name in lab.machines if kernel_of(lab, name) in found]
    for disk in (disk for name in on_them for disk in lab.machines[name].disks):
        found.add(holder_of(lab, lab.volumes[disk.volume]))
    ports = Counter(port.machine for port in topology.ports())
    found |= {name for name, machine in lab.machines.items() if machine.kind == "vm" and ports[name] > 1}
    return found.union(*(_below(lab, name) for name in found))


def _below(lab: Lab, kernel: str) -> frozenset[str]:
    """Return the hosts of a guest's kernel, at all nesting levels."""
    if kernel == HERE or lab.machines[kernel].kind != "vm":
        return frozenset()
    parent = parent_kernel(lab, kernel)
    return _below(lab, parent) | {parent}


def _emulated(guests: Mapping[str, GuestUse], computers: Sequence[str]) -> Iterator[TrialWarning]:
    """Yield warnings that figures of emulated machines are not valid as performance results."""
    names = [*computers, *(name for name, use in guests.items() if use.emulated)]
    if names:
        yield Emulated(machines=tuple(names))
    for name, use in guests.items():
        if use.untold:
            yield AcceleratorUnknown(machine=name, said=use.untold)


def _polling(guests: Mapping[str, GuestUse]) -> Iterator[TrialWarning]:
    """Yield a warning that each user-space switch port keeps a CPU busy."""
    cards = [f"{name}.{card}" for name, use in guests.items() for card in use.polling]
    if cards:
        yield Polling(cards=tuple(cards))
