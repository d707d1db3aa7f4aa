"""Requirements of single parts of a cell; the module `lab_needs` has the requirements of the whole lab."""

from collections.abc import Iterator

from iolab.errors import InputError, Problem
from iolab.experiment.experiment import Lab
from iolab.experiment.model.links import Link, Shape
from iolab.experiment.model.machines import Machine, Vm
from iolab.experiment.model.measures import Measure
from iolab.experiment.model.packets import Packets
from iolab.lab.guests.vm import image_of
from iolab.lab.kernels import HERE, kernel_of, on_kernels
from iolab.lab.links.link_topology import is_on_port, way_ends
from iolab.lab.links.shared import check_reach
from iolab.lab.packets.flow_addresses import flow_sweeps
from iolab.lab.packets.frames import check_fit
from iolab.lab.packets.placement import FINDING_PATH, Way, next_hop, ways
from iolab.lab.requirements.need import IMAGE, Need, NeedKind, Wanted, where
from iolab.lab.topology import Topology
from iolab.lab.volumes.needs import disk_needs
from iolab.locale import Phrase
from iolab.messages.conflicts import (
    DriverRingFixed,
    OneQueue,
    PlainClash,
    RingSizeAbsent,
)
from iolab.messages.places import ForLink, ForMachine, ForMeasure, KeyOf, Purpose
from iolab.messages.unmet import ImageNotInstalled, KindUnsupported, PlainUnbuilt, UnmetRequirement
from iolab.registry.images import packages_of_image
from iolab.registry.nics import NICS
from iolab.registry.registry import instrument_kinds, measure_kinds

PERF, PACKAGE = "perf", "linux-perf"
"""The profiler, and its Debian package."""
TOOLS = ("ip", "ethtool", "taskset", "ps")
"""Programs that configure a lab for frames."""


def machine_needs(name: str, machine: Machine) -> tuple[Wanted, ...]:
    """Return the requirements of a machine."""
    vm = _vm(ForMachine(machine=name), machine) if isinstance(machine, Vm) else ()
    return (*disk_needs(name, machine), *vm)


def link_needs(name: str, link: Link) -> tuple[Wanted, ...]:
    """Return the requirements of a link."""
    return tuple(_link(ForLink(link=name), link))


def measure_needs(name: str, measure: Measure) -> tuple[Wanted, ...]:
    """Return the requirements of a measure and its instruments."""
    purpose, kind = ForMeasure(measure=name), measure_kinds()[measure.kind]
    found: list[Wanted] = []
    if kind.measure is None:
        found.append(KindUnsupported(code="measure-unbuilt", purpose=purpose, kind=kind.name))
    found += kind.needs(purpose, measure)
    for one in measure.beside():
        row = instrument_kinds()[one.kind]
        if row.make is None:
            found.append(KindUnsupported(code="instrument-unbuilt", purpose=purpose, kind=row.name))
        found += (Need(NeedKind.PROGRAM, program, purpose) for program in row.programs)
        found += row.needs(purpose, one)
    return tuple(found)


def check_ways(name: str, measure: Measure, lab: Lab, topology: Topology) -> tuple[Wanted, ...]:
    """Check the paths of a measure in a lab, and return its requirements for the kernels of the lab.

    Raises:
        InputError: an end does not exist, or two ends are not connected.
    """
    kind = measure_kinds()[measure.kind]
    kind.check(measure, lab, topology)
    runs = kind.runs(measure) if kind.runs is not None else kind.programs
    places = [where(lab, kernel) for kernel in kind.kernels(measure, topology) or (HERE,)]
    wanted = [(NeedKind.PROGRAM, program) for program in runs]
    wanted += [(NeedKind.FEATURE, feature) for feature in kind.features(measure)]
    named = [
        (NeedKind.NAMED_PROGRAM, program, where(lab, kernel_of(lab, machine)))
        for machine, program in kind.named_programs(measure)
    ]
    beside = [
        need
        for one in measure.beside()
        for need in instrument_kinds()[one.kind].lab_needs(lab, one, ForMeasure(measure=name))
    ]
    every = [(sort, what, there) for there in dict.fromkeys(places) for sort, what in wanted]
    programs = (Need(sort, what, ForMeasure(measure=name), there) for sort, what, there in (*every, *named))
    return (*programs, *beside)


def _vm(purpose: Purpose, machine: Vm) -> Iterator[UnmetRequirement]:
    if machine.queues > 1 and not (machine.engine == "qemu" and NICS[machine.nic].is_virtio):
        card = "xen" if machine.engine == "xen" else machine.nic
        yield OneQueue(purpose=KeyOf(key="queues", part=purpose), card=card)
    yield from ring_trouble(KeyOf(key="ring", part=purpose), machine)


def ring_trouble(purpose: Purpose, machine: Vm) -> Iterator[UnmetRequirement]:
    """Yield the requested ring sizes that a NIC does not support."""
    asked = [
        (side, size) for side, size in (("rx", machine.ring.rx), ("tx", machine.ring.tx)) if size is not None
    ]
    for side, size in asked:
        if machine.engine == "xen":
            yield PlainClash(code="xen-ring-fixed", purpose=purpose)
        elif NICS[machine.nic].fixed_rings:
            yield DriverRingFixed(purpose=purpose, nic=machine.nic)
        elif NICS[machine.nic].is_virtio and size not in (sizes := VIRTIO_RINGS[_rings_of(machine, side)]):
            yield RingSizeAbsent(purpose=purpose, nic=machine.nic, side=side, size=size, present=sizes)


def _rings_of(machine: Vm, side: str) -> str:
    """Return the side whose limits apply to a virtio ring: only a user-space switch supports long transmit rings."""
    return "rx" if machine.nic == "vhost-user" else side


def _link(purpose: Purpose, link: Link) -> Iterator[UnmetRequirement]:
    if link.shape is not None:
        yield from _shape(KeyOf(key="shape", part=purpose), link.shape)


def _shape(purpose: Purpose, shape: Shape) -> Iterator[UnmetRequirement]:
    if shape.qdisc == "etf":
        # etf drops every packet without a transmit time, and no measure sets transmit times
        yield PlainUnbuilt(code="etf-unbuilt", purpose=purpose)


def profiled_kernels(lab: Lab, on: tuple[str, ...]) -> tuple[str, ...]:
    """Return the kernels that a profile covers: as configured, otherwise hosts and guests with perf."""
    if on:
        return tuple(dict.fromkeys(kernel_of(lab, name) for name in on))
    guests = [name for name, one in lab.machines.items() if isinstance(one, Vm) and _has_perf(lab, name)]
    kernels = dict.fromkeys(kernel_of(lab, name) for name in lab.machines)
    computers = [kernel for kernel in kernels if kernel != HERE and not isinstance(lab.machines[kernel], Vm)]
    return tuple(dict.fromkeys((HERE, *computers, *guests)))


def profile_needs(lab: Lab, on: tuple[str, ...], purpose: Purpose) -> Iterator[Wanted]:
    """Yield the requirements for a profile: perf on each kernel, and the right to use perf there."""
    of = KeyOf(key="profile", part=purpose)
    for kernel in profiled_kernels(lab, on):
        there = where(lab, kernel)
        if not there.startswith(IMAGE):
            yield Need(NeedKind.ROOT, PERF, of, there)
            yield Need(NeedKind.PROGRAM, PERF, of, there)
        elif not _has_perf(lab, kernel):
            yield ImageNotInstalled(purpose=of, machine=kernel, program=PERF, package=PACKAGE)


def _has_perf(lab: Lab, name: str) -> bool:
    return PACKAGE in packages_of_image(image_of(lab, name))


def packet_needs(purpose: Purpose, measure: Packets) -> Iterator[Need]:
    """Yield the requirements of sending frames."""
    for program in TOOLS:
        yield Need(NeedKind.PROGRAM, program, purpose)
    if measure.senders != "auto" and measure.senders > 1:
        yield Need(NeedKind.CPU, str(measure.senders - 1), KeyOf(key="senders", part=purpose))


def check_packets(measure: Packets, lab: Lab, topology: Topology) -> None:
    """Check that frames of a measure can use their paths, and that their send and arrival times are from the same
    clock.

    Raises:
        InputError: frames cannot use a path, clocks differ, or two ends are not connected.
    """
    directions = ways(lab, topology, measure)
    for way in directions:
        check_reach(lab, way.source.machine, way.target.machine)
    check_fit(measure, lab, directions)
    for index, way in enumerate(directions if measure.replay is None else ()):
        flow_sweeps(measure, way, index)
    _check_clock(directions)
    _check_carried(lab, directions)
    routed = any(next_hop(lab, way) != way.target.ref for way in directions)
    version = measure.ip if measure.tunnel is None else measure.tunnel_ip
    have = {point.of(version) is not None for way in directions for point in (way.source, way.target)}
    if False in have and (routed or version == 4):
        key = "ip" if measure.tunnel is None else "tunnel_ip"
        seen = Phrase("lab.no-such-address", key=key, version=version)
        allowed = Phrase("lab.links-of-that-version", version=version, key=key)
        raise InputError([Problem("measure", FINDING_PATH, seen, allowed)])


def _check_carried(lab: Lab, directions: tuple[Way, ...]) -> None:
    """Check that frames neither start nor end on a port whose frames an emulated link carries, because iolab's own
    frames bypass the network stack, and so the emulated link.

    Raises:
        InputError: a path starts or ends on such a port.
    """
    carried = {way_ends(lab, name)[0]: name for name in lab.links if is_on_port(lab, name)}
    for end in (end for way in directions for end in (way.source, way.target)):
        if (link := carried.get(end.ref)) is not None:
            seen = Phrase("lab.frames-past-the-wire", port=end.ref, link=link)
            allowed, advice = Phrase("lab.ports-without-wire"), Phrase("lab.measure-streams-instead")
            raise InputError([Problem("measure", FINDING_PATH, seen, allowed, advice)])


def _check_clock(directions: tuple[Way, ...]) -> None:
    """Check that frames are sent and received on the same kernel, because clocks of different kernels are never
    compared.

    Raises:
        InputError: the kernels differ.
    """
    if len({way.source.kernel for way in directions}) > 1:
        seen = on_kernels((way.source.ref, way.source.kernel) for way in directions)
        allowed = Phrase("lab.pairs-of-one-sending-kernel")
        raise InputError([Problem("measure", FINDING_PATH, seen, allowed)])
    for way in directions:
        if way.source.kernel == way.target.kernel:
            continue
        seen = on_kernels((end.ref, end.kernel) for end in (way.source, way.target))
        allowed = Phrase("lab.both-ends-on-one-kernel")
        advice = Phrase("lab.end-path-at-first-machine")
        raise InputError([Problem("measure", FINDING_PATH, seen, allowed, advice)])


VIRTIO_RINGS = {"rx": (256, 512, 1024), "tx": (256,)}
"""Ring sizes that QEMU supports (virtio-net: a power of two up to 1024; tx above 256 only with vhost-user)
[descriptors]."""
