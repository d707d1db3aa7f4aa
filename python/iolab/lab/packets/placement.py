"""Determine the path of frames through a lab, and the CPU of each part of a packet trial. Pure: nothing is pinned."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
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
"""SCHED_FIFO priorities of the threads that receive frames for the device, of those that receive for the receiver,
and of the instrument."""

ONE_SENDER = ("af_packet", "bpf_live")
"""Sending paths that use interface counters, which cannot distinguish several senders."""
MOST_SENDERS = 64
FINDING_PATH = Phrase("lab.finding-path-of-frames")
"""Description of the action, for an error about a missing path."""


@frozen
class Way:
    """The path of frames in one direction."""

    source: Endpoint
    """Sending endpoint."""
    target: Endpoint
    """Receiving endpoint."""
    hops: tuple[tuple[str, str], ...]
    """Sending and receiving port of each link on the path, or the names of other interfaces there that have
    counters."""
    elsewhere: frozenset[str] = frozenset()
    """Ports of the path that are on a kernel other than the source's, so they use none of the source's CPUs."""
    near: tuple[Endpoint, ...] = ()
    """All endpoints on the segment of the source."""

    @property
    def name(self) -> str:
        """Return the direction as "a->b"."""
        return f"{self.source.ref}->{self.target.ref}"

    @property
    def arrivals(self) -> tuple[str, ...]:
        """Return the ports at which frames arrive, in order; the last is the target's."""
        return tuple(there for _, there in self.hops)

    @property
    def device_ports(self) -> tuple[str, ...]:
        """Return the arrival ports of the device that share the CPUs of the source's kernel."""
        return tuple(port for port in self.arrivals[:-1] if port not in self.elsewhere)


@frozen
class PastStack:
    """Ports at which instruments in the kernel's stack do not see the frames of a measure."""

    sent: frozenset[str] = frozenset()
    """Ports that send frames past the stack: AF_XDP, AF_PACKET with qdisc bypass, or an XDP program."""
    taken: frozenset[str] = frozenset()
    """Ports at which an XDP program takes the arriving frames before the stack."""


@frozen
class Placement:
    """The CPUs of the parts of a packet trial."""

    senders: Mapping[str, int]
    """CPU of each port's sender thread, by port."""
    receivers: Mapping[str, int]
    """CPU of each port's receiver thread, by port."""
    napi: Mapping[str, int]
    """CPU of each port's NAPI thread (threaded NAPI), by port."""
    realtime: bool = False
    """Whether receiving threads have real-time priority (SCHED_FIFO)."""
    further: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """CPUs of each port's additional sender threads, by port."""
    past_stack: PastStack = PastStack()
    """Ports at which frames bypass the stack."""

    def cpus(self) -> Iterator[tuple[str, int]]:
        """Yield each CPU on which a part of the trial runs, with the port of this part."""
        for port in self.senders:
            yield from ((port, cpu) for cpu in self.sending(port))
        yield from (*self.receivers.items(), *self.napi.items())

    def sending(self, port: str) -> tuple[int, ...]:
        """Return the CPUs of a port's sender threads, one each."""
        return (self.senders[port], *self.further.get(port, ()))

    def priority(self, port: str) -> int | None:
        """Return the real-time priority of a port's NAPI thread; None: normal scheduling.

        Threads closer to the end of the path have a higher priority, so that overload causes drops where frames enter
        the device.
        """
        if not self.realtime:
            return None
        return FAR_PRIORITY if port in self.receivers else DEVICE_PRIORITY

    @property
    def receiver_priority(self) -> int | None:
        """Return the real-time priority of receiver threads; receivers sleep between batches, so they do no harm."""
        return INSTRUMENT_PRIORITY if self.realtime else None

    @property
    def sender_priority(self) -> int | None:
        """Return the real-time priority of sender threads; None: normal scheduling.

        A sender busy-polls, so it gets no real-time priority if any other part of the trial needs its CPU.
        """
        others = {*self.napi.values(), *self.receivers.values()}
        sending = [cpu for port in self.senders for cpu in self.sending(port)]
        alone = len(set(sending)) == len(sending) and not others & set(sending)
        return INSTRUMENT_PRIORITY if self.realtime and alone else None

    def shared(self) -> tuple[PartsShareCpu, ...]:
        """Return the parts that share a CPU although they should have separate CPUs."""
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
        InputError: an end does not exist, belongs to two pairs, or cannot be reached from the other end.
    """
    found: list[Way] = []
    pairs = ((measure.src, measure.dst), *((pair.src, pair.dst) for pair in measure.pairs))
    for src, dst in dict.fromkeys(pairs):  # the list of pairs may include the first pair too
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
    """Return the CPU of each part of a trial; the first of the given CPUs are the best.

    The CPUs of the device under test are not shared if there are enough CPUs. A direction needs three CPUs, for sender,
    device and receiver; two if the device is on a different kernel. With fewer CPUs, devices share a CPU, and then
    receivers share a CPU; with two CPUs, at least the sender of each direction does not share its CPU with the device
    and the receiver.
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
    """Return the CPUs of each direction's senders after the first: the CPUs that are not in `taken`.

    If the other CPUs are not enough, all CPUs are used in turn.
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
    """Return the number of sender threads per direction: as configured; with `auto`, one, and one more for each free
    CPU if the path supports it.

    A flow belongs to one thread, so the number of flows is a multiple of the number of threads.
    """
    if measure.senders != "auto":
        return measure.senders
    if measure.path in ONE_SENDER or measure.spacing == "gap-frames":
        return 1
    most = max(1, min(MOST_SENDERS, 1 + (cpus - 3 * directions) // directions))
    return max(number for number in range(1, most + 1) if measure.flows % number == 0)


def check_senders(measure: Packets) -> None:
    """Check that several senders can share a measure's flows on its path, and that a single sender can fill its line.

    Raises:
        InputError: the senders cannot share the flows, or a single sender cannot fill the line.
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
    """Check that the line rate is known and that a single thread sends all frames of the line."""
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
    """Return the first sending endpoint of a measure; None: the measure sends no generated frames."""
    return ways(lab, topology, measure)[0].source if isinstance(measure, Packets) else None


def placed(lab: Lab, measure: Packets, directions: tuple[Way, ...], cpus: Sequence[int]) -> Placement:
    """Return the placement of a measure with these paths on a host with these CPUs, best CPUs first."""
    senders = senders_of(measure, len(directions), len(cpus))
    found = place(directions, cpus, realtime=measure.scheduling == "realtime", senders=senders)
    return replace(found, past_stack=past_stack(measure, lab, directions))


def placement_of(setup: Setup, measure: str, cpus: Sequence[int]) -> Placement | None:
    """Return the placement of a measure, by its name in a setup; None if the measure sends no generated frames."""
    wanted = setup.measures[measure]
    if not isinstance(wanted, Packets):
        return None
    return placed(setup.lab, wanted, ways(setup.lab, topology_of(setup.lab), wanted), cpus)


def past_stack(measure: Packets, lab: Lab, directions: Sequence[Way]) -> PastStack:
    """Return the ports at which the frames of a measure bypass the kernel's stack."""
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
    """Return the port whose MAC address is the frames' destination: that of the first router, or the target."""
    routed = (port for port in way.arrivals[:-1] if lab.machines[PortRef(port).machine].forward == "route")
    return next(routed, way.target.ref)


def stream_way(lab: Lab, topology: Topology, source: Endpoint, target: Endpoint) -> Way:
    """Return the path between two endpoints, which may be bridges; without hops if the lab does not determine the
    path."""
    if source == target:  # the path uses the loopback interface
        return Way(source, target, (), frozenset())
    ports = [port.ref for port in topology.ports()]
    starts, goals = (_ports_of(end, ports) for end in (source, target))
    found = [crossed for start in starts if (crossed := hops_between(lab, start, goals)) is not None]
    hops = min(found, key=len, default=())
    elsewhere = frozenset(there for _, there in hops if kernel_of(lab, there.machine) != source.kernel)
    return Way(source, target, hops, elsewhere)


def _ports_of(end: Endpoint, ports: Sequence[PortRef]) -> frozenset[PortRef]:
    """Return the port of an endpoint; if the endpoint is a bridge, all ports of its machine."""
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
    """Return the links of a shortest path, found by breadth-first search over ports."""
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
                queue.append((there, crossed))  # the machine bridges this port with its children's ports
            machine = there.machine
            if lab.machines[machine].forward == "none":
                continue
            onward = [end for link in ends for end in link if end.machine == machine and end not in seen]
            for out in onward:
                seen.add(out)
                queue.append((out, crossed))
    return None
