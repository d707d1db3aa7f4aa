"""Derive evidence for the limit of a stream from counters, reports and readings over time. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from iolab.agent.answers import Reading
from iolab.agent.messages import SocketCounters
from iolab.experiment.experiment import Lab
from iolab.experiment.model.links import Shape
from iolab.experiment.model.measures import Stream
from iolab.experiment.model.quantities import PortRef
from iolab.lab.kernels import HERE
from iolab.lab.packets.placement import Way
from iolab.lab.topology import Endpoint
from iolab.trial.counters.cpu_use import cpu_uses, guest_threads, kernel_threads
from iolab.trial.counters.differences import Counted
from iolab.trial.counters.passing import Course, LevelChange, Passing, passing, sustained_bps
from iolab.trial.counters.shapers import credit_bytes, shapers
from iolab.trial.lab_access import GuestPlace
from iolab.trial.measurement import Readings
from iolab.trial.streams.disturbances import all_strangers, lifetime, longest_gap_ns, program_of
from iolab.trial.streams.evidence import Carrier, Connections, FlowSeen, Passed, ShaperSeen, StreamSeen
from iolab.trial.streams.figures import HEADER_BYTES, IPV4_BYTES, IPV6_BYTES, head_bytes
from iolab.trial.streams.iperf3 import Pair
from iolab.trial.streams.iperf3_report import FlowReport
from iolab.trial.streams.on_path import COMPLETE, INCOMPLETE, drops_of, lines_on, mtu_at, protocol_count
from iolab.units import ETHERNET_HEADER_BYTES, NS_PER_S

FOREIGN_RATIO, FOREIGN_BPS = 0.05, 1e6
"""Minimum excess of a port's traffic over the flows' traffic that shows foreign traffic; retransmissions and neighbour
discovery cause less."""
UNHELD_RATIO = 1.05
"""If the passed rate exceeds a shaper's rate by more than this factor, the shaper does not conform; its rate may be 0.1
% off."""
FRAME_BYTES = 1500
"""Assumed frame size, for converting between retransmitted bytes and segments [bytes]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """All data read in a stream trial."""

    lab: Lab
    """Resolved lab."""
    measure: Stream
    """Measure."""
    pairs: Sequence[Pair]
    """Client/server pairs."""
    flows: Sequence[tuple[Pair, FlowReport]]
    """Reported flows with their pairs."""
    ways: Sequence[Way]
    """Path of each flow, in flow order; without hops if the lab does not show the path."""
    below: Sequence[Sequence[Way]] = ()
    """Lower paths of each flow: those of tunnel packets, and of the links of a bond."""
    counted: Counted
    """Counters before and after the trial."""
    connections: Mapping[str, Sequence[Reading]]
    """Readings of TCP connections over time, by kernel."""
    guests: Mapping[str, GuestPlace]
    """Virtual machines of the lab."""
    span_ns: int
    """Run time of the programs [ns]."""
    ran: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """Start and end of each client by its server's port, on the clock of its kernel [ns]."""
    alone: bool = True
    """Whether no other measure uses the lab at the same time."""


def observe(seen: Observed, readings: Readings) -> StreamSeen:
    """Return the evidence of a trial."""
    counted = seen.counted
    before, after = counted.before, counted.after
    kernels = [kernel for kernel in counted.kernels() if kernel == HERE or kernel in before.elsewhere]
    threads = guest_threads(
        seen.guests, _by_kernel(before.of, kernels), _by_kernel(after.of, kernels), seen.span_ns
    )
    for kernel in kernels:
        threads += kernel_threads(before.of(kernel), after.of(kernel), seen.span_ns, f"{kernel} ".lstrip())
    course = Course(counted, readings)
    flows = tuple(_flow(seen, readings, course, index) for index in range(len(seen.flows)))
    return StreamSeen(
        flows=flows,
        cpus=tuple(
            cpu for kernel in kernels for cpu in cpu_uses(before.of(kernel), after.of(kernel), kernel)
        ),
        threads=threads,
        strangers=all_strangers(readings),
        gaps={kernel: longest_gap_ns(own) for kernel, own in readings.items()},
        foreign=tuple(_foreign(seen)) if seen.alone else (),
        unheld=tuple(_unheld(seen)),
        begun_again=counted.begun_again(),
    )


def _by_kernel(of: Callable[[str], Reading], kernels: Sequence[str]) -> dict[str, Reading]:
    return {kernel: of(kernel) for kernel in kernels}


def _flow(seen: Observed, readings: Readings, course: Course, index: int) -> FlowSeen:
    pair, flow = seen.flows[index]
    way = seen.ways[index]
    below = seen.below[index] if seen.below else ()
    client, server = f"client-{pair.tcp_port}", f"server-{pair.tcp_port}"
    forth = flow.src == pair.client
    within = lifetime(client, _of(readings, pair.client))
    own = within if pair.client.kernel == pair.server.kernel else None
    program = {
        end: program_of(name, end.machine, end.kernel, _of(readings, end), within if name == client else own)
        for name, end in ((client, pair.client), (server, pair.server))
    }
    rate = seen.measure.rate
    return FlowSeen(
        name=f"{flow.src.machine}->{flow.dst.machine}",
        protocol=seen.measure.protocol,
        source=flow.src.machine,
        target=flow.dst.machine,
        duration_ns=seen.measure.duration + seen.measure.warm_up,
        sent_bps=flow.sent_bps,
        received_bps=flow.received_bps,
        intended_bps=None if rate is None else float(rate * seen.measure.parallel),
        datagrams=flow.datagrams,
        lost_datagrams=flow.lost_datagrams,
        retransmits=flow.retransmits or 0,
        sender=program[flow.src],
        receiver=program[flow.dst],
        tcp=connections_of(seen, flow.src, flow.dst, pair.tcp_port, forth=forth)
        if seen.measure.protocol == "tcp"
        else None,
        drops=drops_of(seen.counted, way, below, datagrams=seen.measure.protocol == "udp"),
        shapers=tuple(one for each in (way, *below) for one in _shapers(seen, each, course)),
        pacers=tuple(one for each in (way, *below) for one in _pacers(seen.lab, each, course)),
        waiting={
            out: part
            for each in (way, *below)
            for out, _ in each.hops
            if (part := course.waiting(out)) is not None
        },
        lines=tuple(
            line
            for each in (way, *below)
            for line in lines_on(seen.lab, each, seen.counted, course, _active_ns(seen, pair))
        ),
        fragments=_fragments(seen, way),
        reassembly_failed=_incomplete(seen, way, flow),
        wire_frames={
            link: frames
            for each in (way, *below)
            for link, frames in _wire_frames(seen.counted, each).items()
        },
        reordering=tuple(link for each in (way, *below) for link in _reordering(seen.lab, each)),
        change=_change(seen, way, course, within),
        carriers=tuple(one for each in (way, *below) for one in _carriers(seen.counted, each)),
        stood_ns=flow.stood_ns,
    )


def _of(readings: Readings, end: Endpoint) -> Sequence[Reading]:
    return readings.get(end.kernel, readings.get(HERE, ()))


def connections_of(
    seen: Observed, source: Endpoint, target: Endpoint, port: int, *, forth: bool
) -> Connections | None:
    """Return the source's TCP state over all connections on which it sent: last values, and means over time.

    The means begin after the warm-up, like the measured rate: slow start is not part of them.
    """
    read: dict[tuple[int, int], list[tuple[int, SocketCounters]]] = {}
    for reading in _of(seen.connections, source):
        for one in (one for one in reading.observations if one.netns == source.netns):
            for row in one.sockets:
                if port == (row.remote_port if forth else row.local_port):
                    read.setdefault((row.local_port, row.remote_port), []).append((one.begin_ns, row))
    # iperf3's control connection, and with --bidir the reverse direction, send almost nothing.
    most = max((own[-1][1].sent_bytes for own in read.values()), default=0)
    sending = [own for own in read.values() if own[-1][1].sent_bytes * 10 > most]
    rows = [own[-1][1] for own in sending]
    if not most or not rows:
        return None
    begun = [[row for at, row in own if at >= own[0][0] + seen.measure.warm_up] for own in sending]
    apart = [late or [row for _, row in own] for late, own in zip(begun, sending, strict=True)]
    under_way = [[row for row in own if row.in_flight_bytes] or own for own in apart]
    return Connections(
        busy_ns=sum(row.busy_ns for row in rows),
        receiver_limited_ns=sum(row.receiver_limited_ns for row in rows),
        buffer_limited_ns=sum(row.buffer_limited_ns for row in rows),
        window_bytes=sum(row.window_bytes for row in rows),
        receiver_window_bytes=sum(row.receiver_window_bytes for row in rows),
        send_buffer_bytes=sum(row.send_buffer_bytes for row in rows),
        largest_send_buffer_bytes=max(row.send_buffer_bytes for row in rows),
        receive_buffer_bytes=_receive_buffer(
            seen, target, {(row.remote_port, row.local_port) for row in rows}
        ),
        sent_bytes=sum(row.sent_bytes for row in rows),
        resent_bytes=sum(row.resent_bytes for row in rows),
        rtt_ns=max(row.rtt_ns for row in rows),
        least_rtt_ns=max(rows, key=lambda row: row.rtt_ns).least_rtt_ns,
        congestion=rows[0].congestion,
        mean_window_bytes=round(sum(fmean(row.window_bytes for row in own) for own in under_way)),
        mean_rtt_ns=round(max(fmean(row.rtt_ns for row in own) for own in under_way)),
    )


def _receive_buffer(seen: Observed, target: Endpoint, ports: set[tuple[int, int]]) -> int:
    """Return the maximum receive buffer limit of the connections with the given local and remote ports."""
    rows = (
        row
        for reading in _of(seen.connections, target)
        for one in reading.observations
        if one.netns == target.netns
        for row in one.sockets
    )
    own = (row.receive_buffer_bytes for row in rows if (row.local_port, row.remote_port) in ports)
    return max(own, default=0)


# Ports ------------------------------------------------------------------------------------------------------


def _carriers(counted: Counted, way: Way) -> Iterator[Carrier]:
    for ref in dict.fromkeys(ref for hop in way.hops for ref in hop):
        port = counted.ports[ref]
        earlier = counted.before.of(port.kernel).interface(port.netns, port.interface)
        later = counted.after.of(port.kernel).interface(port.netns, port.interface)
        if earlier is None or later is None or None in (earlier.carrier_changes, later.carrier_changes):
            continue
        changes = (later.carrier_changes or 0) - (earlier.carrier_changes or 0)
        if changes > 0:
            yield Carrier(ref, changes)


def _shapers(seen: Observed, way: Way, course: Course) -> Iterator[ShaperSeen]:
    """Yield the shapers on a path, and on the path of its acknowledgements."""
    back = replace(way, hops=tuple((into, out) for out, into in reversed(way.hops)))
    credit = credit_bytes(seen.lab)
    ways = ((way, False), (back, True))[: 2 if seen.measure.protocol == "tcp" else 1]
    for one, is_back in ways:
        for shaper in shapers(seen.lab, [one], seen.counted):
            counts = course.queue(shaper.place)
            several = len(seen.counted.qdiscs(shaper.place)) > 1
            passed = None if several else passing(counts)
            if passed is None:
                passed = Passing(shaper.passed_bytes, counts[-1][0] - counts[0][0] if len(counts) > 1 else 0)
            change = None if several else course.queue_change(shaper.place)
            bps = passed.bps
            if change is None and shaper.rates_bps:
                bps = sustained_bps(passed, shaper.rates_bps, credit.get(shaper.place, 0))
            if change is not None and shaper.rates_bps:
                levels = (change.before_bps, change.after_bps)
                nearest = min(levels, key=lambda one: min(abs(one - rate) for rate in shaper.rates_bps))
                later = nearest == change.after_bps
                own = passing([one for one in counts if (one[0] >= change.changed_ns) is later])
                bps = nearest if own is None else own.bps
            yield ShaperSeen(shaper, bps, change, back=is_back)


def _pacers(lab: Lab, way: Way, course: Course) -> Iterator[Passed]:
    """Yield the ports on a path that iolab's pacer paces, with their rate while they sent, and the nearest of the rates
    of the port and of the flow's classes."""
    ends, outs = (way.source.machine, way.target.machine), {out for out, _ in way.hops}
    for shape in (link.shape for link in lab.links.values() if link.shape is not None):
        if shape.qdisc != "pacer" or shape.at not in outs:
            continue
        rates, sent = shape.rates_between(*ends), passing(course.port(shape.at, "tx_bytes"))
        if sent is not None and rates:
            yield Passed(shape.at, sent.bps, float(min(rates, key=lambda rate: abs(rate - sent.bps))))


def _active_ns(seen: Observed, pair: Pair) -> tuple[int, int] | None:
    """Return the client's run time if its clock is that of the emulated links' kernel; else None."""
    return seen.ran.get(pair.tcp_port) if pair.client.kernel == HERE else None


def _fragments(seen: Observed, way: Way) -> int:
    """Return the number of fragments per datagram, which depends on the minimum MTU of the sending and routing
    machines.

    A bridge does not fragment: it drops frames that are too long.
    """
    length = seen.measure.length
    if seen.measure.protocol != "udp" or not isinstance(length, int):
        return 1
    cut_at = {
        way.source.machine,
        *(name for name, one in seen.lab.machines.items() if one.forward == "route"),
    }
    outs = (out for out, _ in way.hops if PortRef(out).machine in cut_at)
    known = [mtu for out in outs if (mtu := mtu_at(seen.counted, out))]
    head = IPV6_BYTES if ":" in way.target.address else IPV4_BYTES
    room = (min(known) - head) // 8 * 8 if known else 0
    return 1 if room <= 0 else -(-(length + HEADER_BYTES["udp"]) // room)


def _incomplete(seen: Observed, way: Way, flow: FlowReport) -> int:
    """Return the number of datagrams with a missing fragment at the receiver, whose reassembly failed or was never
    completed."""
    if _fragments(seen, way) == 1:
        return 0
    failed = protocol_count(seen.counted, way.target, INCOMPLETE)
    return max(
        failed, min(flow.lost_datagrams, flow.datagrams - protocol_count(seen.counted, way.target, COMPLETE))
    )


def _wire_frames(counted: Counted, way: Way) -> dict[str, int]:
    """Return the frames that arrived at each emulated link on a path."""
    found = (counted.on_wire(out, into) for out, into in way.hops)
    return {wire[0]: wire[1].arrived_frames for wire in found if wire is not None}


def _reordering(lab: Lab, way: Way) -> Iterator[str]:
    """Yield the links on a path whose emulation reorders frames."""
    sent = {out for out, _ in way.hops}
    for name, link in lab.links.items():
        ways = link.wire.ways(link.ends) if link.wire is not None else {}
        if any(str(end) in sent and (own.reorder or own.overtake) for end, own in ways.items()):
            yield name


def _change(seen: Observed, way: Way, course: Course, within: tuple[int, int] | None) -> LevelChange | None:
    """Return the change of the arriving rate between two levels within the measured time; None if the rate did not
    change."""
    if within is None or not way.hops or way.source.kernel != way.target.kernel:
        return None
    begin_ns = within[0] + seen.measure.warm_up
    return course.port_change(way.hops[-1][1], begin_ns, begin_ns + seen.measure.duration)


def _foreign(seen: Observed) -> Iterator[Passed]:
    """Yield the ports with more bytes than the flows sent: other traffic uses the link.

    Byte counts of the whole time between the two counter readings are compared, because the programs sent all their
    data within this time.
    """
    own: dict[str, int] = {}
    again = [max(flow.retransmits or 0, _sent_again(seen, pair, flow)) for pair, flow in seen.flows]
    for way, (_, flow), resent in zip(seen.ways, seen.flows, again, strict=True):
        for out, into in way.hops:
            own[out] = own.get(out, 0) + flow.handed_bytes + resent * FRAME_BYTES
            own.setdefault(into, 0)  # acknowledgements are sent through this port, in packets without payload
    points = {point.ref: point for way in seen.ways for point in (way.source, way.target)}
    spare_bytes = FOREIGN_BPS * seen.span_ns / (8 * NS_PER_S)
    for ref, sent_bytes in own.items():
        point = points.get(PortRef(ref), seen.ways[0].source)
        beside = point.counted_bytes if ref in points else ETHERNET_HEADER_BYTES
        heads = head_bytes(seen.measure.protocol, point.address, beside)
        passed_bytes = seen.counted.frames(ref, "tx_bytes") - heads * seen.counted.frames(ref, "tx_packets")
        if passed_bytes > sent_bytes * (1 + FOREIGN_RATIO) + spare_bytes:
            factor = 8 * NS_PER_S / max(1, seen.span_ns, _counted_ns(seen.counted))
            yield Passed(ref, passed_bytes * factor, sent_bytes * factor)


def _counted_ns(counted: Counted) -> int:
    """Return the time between the counter readings before and after [ns]; the programs ran for a part of this time."""
    before, after = (one.reading.observations for one in (counted.before, counted.after))
    return after[-1].end_ns - before[0].begin_ns if before and after else 0


def _sent_again(seen: Observed, pair: Pair, flow: FlowReport) -> int:
    """Return the number of segments that TCP retransmitted, including the warm-up."""
    if seen.measure.protocol == "udp":
        return 0
    tcp = connections_of(seen, flow.src, flow.dst, pair.tcp_port, forth=flow.src == pair.client)
    return 0 if tcp is None else -(-tcp.resent_bytes // FRAME_BYTES)


def _unheld(seen: Observed) -> Iterator[Passed]:
    """Yield the shaped ports that passed more payload than their rate allows."""
    for link in seen.lab.links.values():
        shape = link.shape
        if shape is None or shape.rate is None:
            continue
        passing = [
            flow
            for way, (_, flow) in zip(seen.ways, seen.flows, strict=True)
            if any(out == shape.at for out, _ in way.hops)
        ]
        burst_bps = 8 * (shape.burst or 0) * NS_PER_S / seen.measure.duration
        shaped = [flow for flow in passing if _bound(shape, flow) is not None]
        rows = [(sum(flow.received_bps for flow in shaped), float(shape.rate))]
        rows += [(flow.received_bps, float(_bound(shape, flow) or shape.rate)) for flow in shaped]
        for passed_bps, rate_bps in rows:
            if passed_bps > rate_bps * UNHELD_RATIO + burst_bps:
                yield Passed(shape.at, passed_bps, rate_bps)
                break


def _bound(shape: Shape, flow: FlowReport) -> int | None:
    """Return the maximum rate to which a shape limits a flow [bit/s]; None: the flow is not shaped."""
    if not shape.classes:
        return shape.rate
    for one in shape.classes.values():
        if all(
            name is None or name in (end.machine, end.ref)
            for name, end in ((one.src, flow.src), (one.dst, flow.dst))
        ):
            return one.ceil or one.rate
    default = shape.classes.get(shape.default or "")
    return None if default is None else default.ceil or default.rate
