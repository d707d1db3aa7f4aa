"""Which way frames go through a lab, and on which CPU each part of a packet trial runs. Pure: nothing is pinned."""

from collections import deque
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field, replace

from iolab.errors import InputError, Problem
from iolab.experiment.experiment import Lab, Setup
from iolab.experiment.model.measures import Measure
from iolab.experiment.model.packets import Packets
from iolab.experiment.model.quantities import PortRef
from iolab.frozen import frozen
from iolab.lab.kernels import kernel_of
from iolab.lab.topology import Endpoint, Topology, topology_of
from iolab.locale import Phrase
from iolab.messages.instrument import (
    FurtherGeneratorAt,
    Part,
    PartsShareCpu,
    PortPart,
)

DEVICE_PRIORITY, FAR_PRIORITY, INSTRUMENT_PRIORITY = 10, 11, 12
"""SCHED_FIFO priorities: of what takes frames in for the device, for the receiver, and of the instrument's threads."""

ONE_SENDER = ("af_packet", "bpf_live")
"""Paths that count what became of frames by the interface, which does not tell several senders apart."""
MOST_SENDERS = 64
FINDING_PATH = Phrase("lab.finding-path-of-frames")
"""What is done when the path of frames is not there, in words."""


@frozen
class Way:
    """How frames go in one direction."""

    source: Endpoint
    """Where they are sent."""
    target: Endpoint
    """Where they are received."""
    hops: tuple[tuple[str, str], ...]
    """Sending and receiving port of each link on the way, or the names of what else counts frames there."""
    elsewhere: frozenset[str] = frozenset()
    """Ports on the way that are on another kernel than the source: what they do takes none of its CPUs."""
    near: tuple[Endpoint, ...] = ()
    """Every endpoint on the segment of the source."""

    @property
    def name(self) -> str:
        """Return the direction in words."""
        return f"{self.source.ref}->{self.target.ref}"

    @property
    def arrivals(self) -> tuple[str, ...]:
        """Return the ports at which frames arrive, in order; the last is the target's."""
        return tuple(there for _, there in self.hops)

    @property
    def device_ports(self) -> tuple[str, ...]:
        """Return the ports of the device at which frames arrive and that share the CPUs of the source's kernel."""
        return tuple(port for port in self.arrivals[:-1] if port not in self.elsewhere)


@frozen
class PastStack:
    """Ports at which frames of a measure are not seen by what looks on in the kernel's stack."""

    sent: frozenset[str] = frozenset()
    """Frames leave them without the stack: by AF_XDP, AF_PACKET past the queueing discipline, or an XDP program."""
    taken: frozenset[str] = frozenset()
    """An XDP program takes the frames that arrive there."""


@frozen
class Placement:
    """Where each part of a packet trial runs."""

    senders: Mapping[str, int]
    """Port to the CPU of its sending thread."""
    receivers: Mapping[str, int]
    """Port to the CPU of its receiving thread."""
    napi: Mapping[str, int]
    """Port to the CPU of the kernel thread that takes frames in there (threaded NAPI)."""
    realtime: bool = False
    """Whether what takes frames in runs before other work of the host (SCHED_FIFO)."""
    further: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Port to the CPUs of its further sending threads, where it has several."""
    past_stack: PastStack = PastStack()
    """Where its frames are not in the stack."""

    def sending(self, port: str) -> tuple[int, ...]:
        """Return the CPUs of the sending threads of a port, one each."""
        return (self.senders[port], *self.further.get(port, ()))

    def priority(self, port: str) -> int | None:
        """Return the realtime priority of the thread that takes frames in at a port; None: a normal one.

        What is nearer to the end of the way runs first, so that an overload shows where frames enter the device.
        """
        if not self.realtime:
            return None
        return FAR_PRIORITY if port in self.receivers else DEVICE_PRIORITY

    @property
    def receiver_priority(self) -> int | None:
        """Return the realtime priority of receiving threads: they sleep between batches, so they may come first."""
        return INSTRUMENT_PRIORITY if self.realtime else None

    @property
    def sender_priority(self) -> int | None:
        """Return the realtime priority of sending threads; None: they run as others do.

        A sender waits awake, so it must not have one where anything else of the trial needs its CPU.
        """
        others = {*self.napi.values(), *self.receivers.values()}
        sending = [cpu for port in self.senders for cpu in self.sending(port)]
        alone = len(set(sending)) == len(sending) and not others & set(sending)
        return INSTRUMENT_PRIORITY if self.realtime and alone else None

    def shared(self) -> tuple[PartsShareCpu, ...]:
        """Return what shares a CPU with something that it must not share with."""
        parts: list[tuple[Part, int]] = [
            (PortPart(code="generator-at", port=port), cpu) for port, cpu in self.senders.items()
        ]
        parts += [
            (FurtherGeneratorAt(port=port, number=number), cpu)
            for port, cpus in self.further.items()
            for number, cpu in enumerate(cpus, 2)
        ]
        parts += [(PortPart(code="receiver-at", port=port), cpu) for port, cpu in self.receivers.items()]
        own = (row for row in self.napi.items() if row[0] not in self.receivers)
        parts += [(PortPart(code="napi-at", port=port), cpu) for port, cpu in own]
        by_cpu: dict[int, list[Part]] = {}
        for part, cpu in parts:
            by_cpu.setdefault(cpu, []).append(part)
        return tuple(
            PartsShareCpu(parts=tuple(found), cpu=cpu)
            for cpu, found in sorted(by_cpu.items())
            if len(found) > 1
        )


def ways(lab: Lab, topology: Topology, measure: Packets) -> tuple[Way, ...]:
    """Return the directions of a measure: one for each pair, or two.

    Raises:
        InputError: an end does not exist, is that of two pairs, or frames cannot come from one to the other.
    """
    found: list[Way] = []
    pairs = ((measure.src, measure.dst), *((pair.src, pair.dst) for pair in measure.pairs))
    for src, dst in dict.fromkeys(pairs):  # a list of all pairs may have the first one as well
        found.append(_way(lab, topology, src, dst))
        if measure.direction == "both-ways":
            found.append(_way(lab, topology, dst, src))
    for ends in ([way.source.ref for way in found], [way.target.ref for way in found]):
        if twice := next((ref for ref in ends if ends.count(ref) > 1), None):
            allowed = Phrase("lab.pairs-with-own-ports")
            doing, seen = Phrase("lab.finding-paths-of-pairs"), Phrase("lab.twice", name=twice)
            raise InputError([Problem("measure", doing, seen, allowed)])
    return tuple(found)


def place(
    directions: tuple[Way, ...], cpus: Sequence[int], *, realtime: bool = False, senders: int = 1
) -> Placement:
    """Return which of these CPUs, the best ones first, each part of a trial gets.

    Those of the device under test are nobody else's where there are enough. A direction needs three: sender, device,
    receiver; two where the device is on another kernel. With fewer, devices share one, then receivers do; on two CPUs
    the sender of each direction is kept from its own device and receiver at least.
    """
    count = len(directions)
    roles = [
        (role, index)
        for role in ("send", "device", "receive")
        for index, way in enumerate(directions)
        if role != "device" or way.device_ports
    ]
    if len(cpus) >= len(roles):
        cpu = {role: number for number, role in enumerate(roles)}
    elif len(cpus) > count:
        rest = len(cpus) - count
        cpu = {(role, index): index for role, index in roles if role == "send"}
        cpu |= {("device", index): count + index % max(1, rest - 1) for index in range(count)}
        cpu |= {("receive", index): len(cpus) - 1 for index in range(count)}
    else:
        cpu = {(role, index): (index + (role != "send")) % len(cpus) for role, index in roles}
    cpu = {role: cpus[number] for role, number in cpu.items()}
    napi: dict[str, int] = {}
    for index, way in enumerate(directions):
        for port in way.device_ports:
            napi.setdefault(port, cpu["device", index])
        napi.setdefault(way.target.ref, cpu["receive", index])
    return Placement(
        realtime=realtime,
        senders={way.source.ref: cpu["send", index] for index, way in enumerate(directions)},
        receivers={way.target.ref: cpu["receive", index] for index, way in enumerate(directions)},
        napi=napi,
        further=_further(directions, cpus, senders, len(roles)),
    )


def _further(
    directions: tuple[Way, ...], cpus: Sequence[int], senders: int, taken: int
) -> dict[str, tuple[int, ...]]:
    """Return the CPUs of the senders of each direction after its first: those that are left beside the `taken` ones.

    Where these do not suffice they go round all.
    """
    if senders == 1:
        return {}
    more = senders - 1
    first = taken if len(cpus) >= taken + len(directions) * more else len(directions)
    return {
        way.source.ref: tuple(cpus[(first + index * more + number) % len(cpus)] for number in range(more))
        for index, way in enumerate(directions)
    }


def senders_of(measure: Packets, directions: int, cpus: int) -> int:
    """Return how many threads send each direction: as asked for, or with auto as many as find a CPU of their own.

    A flow is of one thread, so their number divides that of the flows.
    """
    if measure.senders != "auto":
        return measure.senders
    if measure.path in ONE_SENDER or measure.spacing == "gap-frames":
        return 1
    most = max(1, min(MOST_SENDERS, 1 + (cpus - 3 * directions) // directions))
    return max(number for number in range(1, most + 1) if measure.flows % number == 0)


def check_senders(measure: Packets) -> None:
    """Check that several senders can share the flows of a measure, by its path, and that one can fill its line.

    Raises:
        InputError: they cannot.
    """
    doing, senders = Phrase("lab.spreading-frames-over-senders"), measure.senders
    if measure.spacing == "gap-frames":
        _check_line(measure)
    if senders == "auto" or senders == 1:
        return
    if measure.path in ONE_SENDER:
        seen = Phrase("lab.senders-with-path", senders=senders, path=measure.path)
        raise InputError([Problem("measure", doing, seen, Phrase("lab.one-sender-or-af-xdp"))])
    if measure.flows % senders:
        seen = Phrase("lab.flows-over-senders", flows=measure.flows, senders=senders)
        allowed = Phrase("lab.multiple-of-senders", senders=senders)
        raise InputError([Problem("measure", doing, seen, allowed, Phrase("lab.flow-of-one-sender"))])


def _check_line(measure: Packets) -> None:
    """Check that a line of known rate is there to be filled, by one thread that gives it every frame."""
    doing, key = Phrase("lab.spacing-by-gap-frames"), "measure"
    if measure.line_rate is None:
        seen, allowed = Phrase("lab.no-line-rate"), Phrase("lab.rate-of-the-line")
        raise InputError([Problem(key, doing, seen, allowed, Phrase("lab.add-line-rate"))])
    if measure.senders not in (1, "auto"):
        raise InputError(
            [Problem(key, doing, f"senders: {measure.senders}", Phrase("lab.one-sender-fills-line"))]
        )
    if measure.path == "bpf_live":
        allowed = Phrase("lab.path-of-any-frame")
        raise InputError([Problem(key, doing, f"path: {measure.path}", allowed)])


def sending_end(lab: Lab, topology: Topology, measure: Measure) -> Endpoint | None:
    """Return where the frames of a measure are sent first; None: it sends none of our own."""
    return ways(lab, topology, measure)[0].source if isinstance(measure, Packets) else None


def placed(lab: Lab, measure: Packets, directions: tuple[Way, ...], cpus: Sequence[int]) -> Placement:
    """Return where the parts of a measure with these ways run on a host with these CPUs, the best ones first."""
    senders = senders_of(measure, len(directions), len(cpus))
    found = place(directions, cpus, realtime=measure.scheduling == "realtime", senders=senders)
    return replace(found, past_stack=past_stack(measure, lab, directions))


def placement_of(setup: Setup, measure: str, cpus: Sequence[int]) -> Placement | None:
    """Return the same for a measure of a setup by its name; None where it sends no frames of our own."""
    wanted = setup.measures[measure]
    if not isinstance(wanted, Packets):
        return None
    return placed(setup.lab, wanted, ways(setup.lab, topology_of(setup.lab), wanted), cpus)


def past_stack(measure: Packets, lab: Lab, directions: Sequence[Way]) -> PastStack:
    """Return the ports at which the frames of a measure are not in the kernel's stack."""
    hops = [hop for way in directions for hop in way.hops]
    by_xdp = [
        [port for port in ports if lab.machines[PortRef(port).machine].forward == "xdp"]
        for ports in zip(*hops, strict=True)
    ]
    taken = () if measure.path == "af_packet" else (way.target.ref for way in directions)
    return PastStack(
        sent=frozenset((*(way.source.ref for way in directions), *by_xdp[0])),
        taken=frozenset((*taken, *by_xdp[1])),
    )


def next_hop(lab: Lab, way: Way) -> str:
    """Return the port whose MAC address frames of a direction are sent to: the first router's, or the target."""
    routed = (port for port in way.arrivals[:-1] if lab.machines[PortRef(port).machine].forward == "route")
    return next(routed, way.target.ref)


def stream_way(lab: Lab, topology: Topology, source: Endpoint, target: Endpoint) -> Way:
    """Return the way between two endpoints, which may be bridges; without hops where the lab does not show one."""
    if source == target:  # over the loopback interface
        return Way(source, target, (), frozenset())
    ports = [port.ref for port in topology.ports()]
    starts, goals = (_ports_of(end, ports) for end in (source, target))
    found = [crossed for start in starts if (crossed := hops_between(lab, start, goals)) is not None]
    hops = min(found, key=len, default=())
    elsewhere = frozenset(there for _, there in hops if kernel_of(lab, there.machine) != source.kernel)
    return Way(source, target, hops, elsewhere)


def _ports_of(end: Endpoint, ports: Sequence[PortRef]) -> frozenset[PortRef]:
    """Return the port of an endpoint; where it is a bridge, every port of its machine."""
    return frozenset((end.ref,) if end.ref in ports else (ref for ref in ports if ref.machine == end.machine))


def _way(lab: Lab, topology: Topology, src: str, dst: str) -> Way:
    source, target = topology.endpoint(src, towards=dst), topology.endpoint(dst, towards=src)
    for point in (source, target):
        if all(point.ref != port.ref for port in topology.ports()):
            seen = Phrase("lab.port-is-a-bridge", port=point.ref)
            allowed = Phrase("lab.port-without-bridge")
            raise InputError([Problem(point.ref, Phrase("lab.finding-sending-port"), seen, allowed)])
    hops = hops_between(lab, source.ref, {target.ref})
    if hops is None:
        seen = Phrase("lab.no-path", source=source.ref, target=target.ref)
        raise InputError([Problem(src, FINDING_PATH, seen, Phrase("lab.links-that-forward"))])
    elsewhere = frozenset(there for _, there in hops if kernel_of(lab, there.machine) != source.kernel)
    near = next(
        one.endpoints for one in topology.segments if any(each.ref == source.ref for each in one.endpoints)
    )
    return Way(source, target, hops, elsewhere, near)


def hops_between(
    lab: Lab, start: PortRef, goals: AbstractSet[PortRef]
) -> tuple[tuple[PortRef, PortRef], ...] | None:
    """Return the links of a shortest way, breadth first over ports."""
    ends = [link.ends for link in lab.links.values()]
    queue: deque[tuple[PortRef, tuple[tuple[PortRef, PortRef], ...]]] = deque([(start, ())])
    seen = {start}
    while queue:
        port, hops = queue.popleft()
        for there in (end for link in ends if port in link for end in link if end not in seen):
            seen.add(there)
            crossed = (*hops, (port, there))
            if there in goals:
                return crossed
            if sum(there in link for link in ends) > 1:
                queue.append((there, crossed))  # its machine bridges it with its children's
            machine = there.machine
            if lab.machines[machine].forward == "none":
                continue
            onward = [end for link in ends for end in link if end.machine == machine and end not in seen]
            for out in onward:
                seen.add(out)
                queue.append((out, crossed))
    return None
