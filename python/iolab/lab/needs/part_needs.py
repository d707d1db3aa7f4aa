"""What the parts of a cell need by themselves; what they need together is in `lab_needs`."""

from collections.abc import Iterator

from iolab.errors import InputError, Problem
from iolab.experiment.experiment import Lab
from iolab.experiment.links import Link, Shape
from iolab.experiment.machines import Machine, Vm
from iolab.experiment.measures import Forwarding, Latency, LoadCurve, Measure, Packets, Stream
from iolab.experiment.port_ref import PortRef
from iolab.lab.guests.vm import is_virtio
from iolab.lab.links.macvtaps import check_reach
from iolab.lab.needs.need import Need, NeedKind
from iolab.lab.packets.frames import check_fit, fps_of
from iolab.lab.packets.placement import Way, next_hop, ways
from iolab.lab.topology import Topology
from iolab.lab.volumes.resources import disk_needs


def machine_needs(name: str, machine: Machine) -> tuple[Need, ...]:
    """Return what a machine needs by itself."""
    vm = _vm(f"machine {name}", machine) if isinstance(machine, Vm) else ()
    return (*disk_needs(name, machine), *vm)


def link_needs(name: str, link: Link) -> tuple[Need, ...]:
    """Return what a link needs by itself."""
    return tuple(_link(f"link {name}", link))


def measure_needs(name: str, measure: Measure) -> tuple[Need, ...]:
    """Return what a measure needs beside the lab."""
    what = f"measure {name}"
    watch = (Need(NeedKind.BUILT, "watch", what),) if measure.watch else ()
    if isinstance(measure, Packets):
        senders = 1 if measure.senders == "auto" else measure.senders
        return (
            *watch,
            *(Need(NeedKind.PROGRAM, program, what) for program in ("ip", "ethtool", "taskset", "ps")),
            *((Need(NeedKind.CPU, str(senders - 1), f"senders of {what}"),) if senders > 1 else ()),
        )
    if not isinstance(measure, Stream):
        return (Need(NeedKind.BUILT, f"measures of kind {measure.kind}", what),)
    return (*watch, Need(NeedKind.PROGRAM, "iperf3", what))


def check_ways(measure: Measure, lab: Lab, topology: Topology) -> None:
    """Check that the measure's ends are joined.

    Raises:
        InputError: an end does not exist, or no way joins two of them.
    """
    if isinstance(measure, Stream):
        for source, target in _ends(measure):
            topology.endpoint(source, towards=target)
            topology.endpoint(target, towards=source)
            check_reach(lab, PortRef(source).machine, PortRef(target).machine)
    if isinstance(measure, Packets):
        directions = ways(lab, topology, measure)
        for way in directions:
            check_reach(lab, way.source.machine, way.target.machine)
        check_packets(measure, lab, directions)


def check_packets(measure: Packets, lab: Lab, directions: tuple[Way, ...]) -> None:
    """Check that frames of a measure can go its ways, at the rates that are asked for.

    Raises:
        InputError: they cannot.
    """
    check_fit(measure, lab, directions)
    if isinstance(measure, Forwarding) and measure.search == "fast" and measure.loss_ratio == 0:
        seen, allowed = (
            "loss_ratio 0 with search: fast",
            "above 0 with fast, which needs 10/loss_ratio frames",
        )
        advice = (
            "take search: mlr or bisect for zero loss; forwarded_strict_fps of any search tells it as well"
        )
        raise InputError([Problem("measure", "planning a search", seen, allowed, advice)])
    _check_clock(directions)
    if isinstance(measure, Forwarding) and measure.start is not None:
        fps_of(measure.start, measure, "start")
    if isinstance(measure, LoadCurve | Latency) and measure.rate is not None:
        fps_of(measure.rate, measure, "rate")
    routed = any(next_hop(lab, way) != way.target.ref for way in directions)
    if measure.ip == 6 and routed:
        seen, allowed = (
            "ip: 6 through a router",
            "ip: 4, or machines that bridge: a lab has IPv4 addresses only",
        )
        raise InputError([Problem("measure", "finding the way of frames", seen, allowed)])


def _check_clock(directions: tuple[Way, ...]) -> None:
    """Check that frames are stamped and read by one kernel's clock: those of two are never compared.

    Raises:
        InputError: they are not.
    """
    if len({way.source.kernel for way in directions}) > 1:
        seen = ", ".join(f"{way.source.ref} on {way.source.kernel or 'this computer'}" for way in directions)
        allowed = "pairs that all send from one kernel, whose agent begins them together"
        raise InputError([Problem("measure", "finding the way of frames", seen, allowed)])
    for way in directions:
        if way.source.kernel == way.target.kernel:
            continue
        seen = ", ".join(f"{end.ref} on {end.kernel or 'this computer'}" for end in (way.source, way.target))
        allowed = "both ends on one kernel, whose clock stamps the frames: clocks of two are never compared"
        advice = "end the way at another port of the first machine, or measure with kind: stream"
        raise InputError([Problem("measure", "finding the way of frames", seen, allowed, advice)])


def _ends(measure: Stream) -> Iterator[tuple[str, str]]:
    for flow in measure.flows:
        yield flow.src, flow.dst
    source = measure.src or measure.on
    if source is not None and measure.dst is not None:
        yield source, measure.dst


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
