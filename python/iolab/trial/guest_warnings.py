"""What must be known of a lab's virtual machines to read any figure of a trial. Pure."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from iolab.experiment.experiment import Lab
from iolab.experiment.measures import Measure
from iolab.lab.kernels import HERE, kernel_of, parent_kernel
from iolab.lab.topology import Topology
from iolab.lab.volumes.places import holder_of
from iolab.parts.registry import measure_kinds
from iolab.record.trial import GuestUse
from iolab.statements.warnings import AcceleratorUnknown, Emulated, Polling, Warning

EMULATED_CPU = "QEMU TCG CPU"
"""How the model of an emulated processor begins, wherever it is read."""


def guest_warnings(
    guests: Mapping[str, GuestUse], emulated: Sequence[str] = (), part: Collection[str] | None = None
) -> tuple[Warning, ...]:
    """Return the warnings about guests, by their names; `emulated` are computers that are not guests of ours.

    `part`: the kernels that take part in the trial; absent: all.
    """
    taking = {name: use for name, use in guests.items() if part is None or name in part}
    return (*_emulated(taking, emulated), *_polling(guests))


def taking_part(lab: Lab, topology: Topology, measure: Measure) -> Collection[str] | None:
    """Return the kernels that take part in a trial of a measure; None: nobody knows, and any may.

    Those are where its programs run, where their disks are and who holds these, guests with several ports, through
    which frames may pass, and what all of these run on.
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
    """Return the kernels that one runs on, if it is a guest's."""
    if kernel == HERE or lab.machines[kernel].kind != "vm":
        return frozenset()
    parent = parent_kernel(lab, kernel)
    return _below(lab, parent) | {parent}


def _emulated(guests: Mapping[str, GuestUse], computers: Sequence[str]) -> Iterator[Warning]:
    """Tell that figures are functional, not performance, where a machine was emulated."""
    names = [*computers, *(name for name, use in guests.items() if use.emulated)]
    if names:
        yield Emulated(machines=tuple(names))
    for name, use in guests.items():
        if use.untold:
            yield AcceleratorUnknown(machine=name, said=use.untold)


def _polling(guests: Mapping[str, GuestUse]) -> Iterator[Warning]:
    """Tell that a CPU is busy for each card that a switch in user space carries."""
    cards = [f"{name}.{card}" for name, use in guests.items() for card in use.polling]
    if cards:
        yield Polling(cards=tuple(cards))
