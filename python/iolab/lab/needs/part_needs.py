"""What the parts of a cell need by themselves; what they need together is in `lab_needs`."""

from collections.abc import Iterator

from iolab.experiment.experiment import Lab
from iolab.experiment.links import Link, Shape
from iolab.experiment.machines import Machine, Vm
from iolab.experiment.measures import Measure
from iolab.lab.guests.vm import is_virtio
from iolab.lab.kernels import HERE
from iolab.lab.needs.lab_needs import where
from iolab.lab.needs.need import Need, NeedKind
from iolab.lab.topology import Topology
from iolab.lab.volumes.resources import disk_needs
from iolab.parts.registry import instrument_kinds, measure_kinds


def machine_needs(name: str, machine: Machine) -> tuple[Need, ...]:
    """Return what a machine needs by itself."""
    vm = _vm(f"machine {name}", machine) if isinstance(machine, Vm) else ()
    return (*disk_needs(name, machine), *vm)


def link_needs(name: str, link: Link) -> tuple[Need, ...]:
    """Return what a link needs by itself."""
    return tuple(_link(f"link {name}", link))


def measure_needs(name: str, measure: Measure) -> tuple[Need, ...]:
    """Return what a measure, and what stands beside it, need by themselves."""
    what, kind = f"measure {name}", measure_kinds()[measure.kind]
    found = [Need(NeedKind.BUILT, f"measures of kind {kind.name}", what)] if kind.measure is None else []
    found += kind.needs(what, measure)
    for one in measure.beside():
        row = instrument_kinds()[one.kind]
        if row.make is None:
            found.append(Need(NeedKind.BUILT, row.name, what))
        found += (Need(NeedKind.PROGRAM, program, what) for program in row.programs)
        found += row.needs(what, one)
    return tuple(found)


def check_ways(name: str, measure: Measure, lab: Lab, topology: Topology) -> tuple[Need, ...]:
    """Return what a measure needs of the kernels of a lab that it goes together with.

    Raises:
        InputError: it does not: an end does not exist, or no way joins two of them.
    """
    kind = measure_kinds()[measure.kind]
    kind.check(measure, lab, topology)
    if not kind.programs:
        return ()
    places = [where(lab, kernel) for kernel in kind.kernels(measure, topology) or (HERE,)]
    return tuple(
        Need(NeedKind.PROGRAM, program, f"measure {name}", there)
        for there in dict.fromkeys(places)
        for program in kind.programs
    )


def _vm(what: str, machine: Vm) -> Iterator[Need]:
    if machine.queues > 1 and not (machine.engine == "qemu" and is_virtio(machine.nic)):
        card = "xen" if machine.engine == "xen" else machine.nic
        yield Need(
            NeedKind.SENSE, f"{card} has one queue; write queues: 1, or a virtio card", f"queues of {what}"
        )
    for reason in ring_trouble(machine):
        yield Need(NeedKind.SENSE, reason, f"ring of {what}")


def ring_trouble(machine: Vm) -> Iterator[str]:
    """Tell which ring sizes a card cannot have."""
    asked = [
        (side, size) for side, size in (("rx", machine.ring.rx), ("tx", machine.ring.tx)) if size is not None
    ]
    for side, size in asked:
        if machine.engine == "xen":
            yield "the rings of engine xen are one page; leave ring away"
        elif machine.nic == "rtl8139":
            yield "the driver of rtl8139 has one size; leave ring away"
        elif is_virtio(machine.nic) and size not in (sizes := VIRTIO_RINGS[_rings_of(machine, side)]):
            allowed = ", ".join(map(str, sizes))
            yield f"{machine.nic} cannot have {side}: {size}; it can have {allowed}"


def _rings_of(machine: Vm, side: str) -> str:
    """Return which of a virtio card's sizes hold: only a switch in user space reads long transmit rings."""
    return "rx" if machine.nic == "vhost-user" else side


def _link(what: str, link: Link) -> Iterator[Need]:
    if link.wire is not None:
        for stage in link.wire.stages():
            yield Need(NeedKind.BUILT, f"wire with {str(stage['kind']).replace('_', ' ')}", what)
    if link.shape is not None:
        yield from _shape(f"shape on {what}", link.shape)


def _shape(what: str, shape: Shape) -> Iterator[Need]:
    if shape.qdisc == "pacer":
        yield Need(NeedKind.BUILT, "the pacer", what)
    if shape.qdisc == "etf":  # it drops every packet without a transmit time, and no measure gives one
        yield Need(NeedKind.BUILT, "etf (nothing here gives packets their transmit times)", what)


VIRTIO_RINGS = {"rx": (256, 512, 1024), "tx": (256,)}
"""What QEMU allows (virtio-net: a power of two up to 1024; tx above 256 only with vhost-user) [descriptors]."""
