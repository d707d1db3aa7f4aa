"""Counters, reports and readings over time, as evidence of what limited a stream. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from iolab.agent.connections import SocketCounters
from iolab.agent.messages import Reading
from iolab.experiment.experiment import Lab
from iolab.experiment.measures import Stream
from iolab.experiment.port_ref import PortRef
from iolab.experiment.shapes import Shape
from iolab.lab.endpoints import ETHERNET_BYTES
from iolab.lab.kernels import HERE
from iolab.lab.packets.placement import Way
from iolab.lab.topology import Endpoint
from iolab.record.balance import Drop
from iolab.statements.drop_reasons import NotPassedOnFor
from iolab.statements.places import AtMachine, AtPort
from iolab.trial.counters.cpu_use import cpu_uses, kernel_threads
from iolab.trial.counters.differences import Counted
from iolab.trial.counters.drop_reasons import explain
from iolab.trial.counters.drops import (
    BACKLOG,
    FILTER,
    NO_BUFFER,
    QDISC,
    RING_FULL,
    RX_ERRORS,
    SOCKET,
    TX_ERRORS,
    merged,
)
from iolab.trial.counters.guest_use import guest_threads
from iolab.trial.counters.shapers import shapers
from iolab.trial.lab_access import GuestPlace
from iolab.trial.measurement import Readings
from iolab.trial.streams.counters import head_bytes
from iolab.trial.streams.evidence import Carrier, Connections, FlowSeen, Passed, StreamSeen
from iolab.trial.streams.iperf3 import FlowReport, Pair
from iolab.trial.streams.programs import all_strangers, lifetime, longest_gap_ns, program_of

NS_PER_S = 1_000_000_000
FOREIGN_RATIO, FOREIGN_BPS = 0.05, 1e6
"""What a port passed beyond the flows is others' from these on: retransmissions and neighbours' talk are less."""
UNHELD_RATIO = 1.05
"""From which factor of its rate on a shaper does not hold: read back, its rate may be 0.1 % off."""
FRAME_BYTES = 1500
"""Headers of what a port counts are taken as those of frames of this size at least, where no packets tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """Everything that was read of a stream trial."""

    lab: Lab
    """As resolved."""
    measure: Stream
    """What was measured."""
    pairs: Sequence[Pair]
    """The programs."""
    flows: Sequence[tuple[Pair, FlowReport]]
    """What they reported, with the pair of each flow."""
    ways: Sequence[Way]
    """The way of each flow, in their order; without hops where the lab does not show it."""
    counted: Counted
    """Counters before and after."""
    connections: Mapping[str, Sequence[Reading]]
    """What TCP said of its connections over time, by kernel."""
    guests: Mapping[str, GuestPlace]
    """Virtual machines of the lab."""
    span_ns: int
    """How long the programs ran [ns]."""
    alone: bool = True
    """Whether no other measure has the lab carry anything meanwhile."""


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
    flows = tuple(_flow(seen, readings, index) for index in range(len(seen.flows)))
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


def _flow(seen: Observed, readings: Readings, index: int) -> FlowSeen:
    pair, flow = seen.flows[index]
    way = seen.ways[index]
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
        tcp=_connections(seen, flow.src, flow.dst, pair.tcp_port, forth=forth)
        if seen.measure.protocol == "tcp"
        else None,
        drops=tuple(one for one in merged(_drops(seen, way, flow)) if one.frames > 0),
        shapers=shapers(seen.lab, [way], seen.counted),
        waiting=_waiting(seen.counted, way, readings),
        lines=tuple(_lines(seen, way)),
        carriers=tuple(_carriers(seen.counted, way)),
        stood_ns=flow.stood_ns,
    )


def _of(readings: Readings, end: Endpoint) -> Sequence[Reading]:
    return readings.get(end.kernel, readings.get(HERE, ()))


def _connections(
    seen: Observed, source: Endpoint, target: Endpoint, port: int, *, forth: bool
) -> Connections | None:
    """Return the last state that the source's TCP gave for each connection on which it sent."""
    last: dict[tuple[int, int], SocketCounters] = {}
    for reading in _of(seen.connections, source):
        for row in (row for one in reading.observations if one.netns == source.netns for row in one.sockets):
            if port == (row.remote_port if forth else row.local_port):
                last[row.local_port, row.remote_port] = row
    # iperf3's control connection, and with --bidir the way back, send next to nothing.
    most = max((row.sent_bytes for row in last.values()), default=0)
    rows = [row for row in last.values() if row.sent_bytes * 10 > most]
    if not most or not rows:
        return None
    return Connections(
        busy_ns=sum(row.busy_ns for row in rows),
        receiver_limited_ns=sum(row.receiver_limited_ns for row in rows),
        buffer_limited_ns=sum(row.buffer_limited_ns for row in rows),
        window_bytes=sum(row.window_bytes for row in rows),
        receiver_window_bytes=sum(row.receiver_window_bytes for row in rows),
        send_buffer_bytes=sum(row.send_buffer_bytes for row in rows),
        receive_buffer_bytes=_receive_buffer(
            seen, target, {(row.remote_port, row.local_port) for row in rows}
        ),
        sent_bytes=sum(row.sent_bytes for row in rows),
        resent_bytes=sum(row.resent_bytes for row in rows),
        rtt_ns=max(row.rtt_ns for row in rows),
        congestion=rows[0].congestion,
    )


def _receive_buffer(seen: Observed, target: Endpoint, ports: set[tuple[int, int]]) -> int:
    """Return the largest bound of a receive buffer of connections, by their local and remote ports."""
    rows = (
        row
        for reading in _of(seen.connections, target)
        for one in reading.observations
        if one.netns == target.netns
        for row in one.sockets
    )
    own = (row.receive_buffer_bytes for row in rows if (row.local_port, row.remote_port) in ports)
    return max(own, default=0)


# Drops ------------------------------------------------------------------------------------------------------


def _drops(seen: Observed, way: Way, flow: FlowReport) -> Iterator[Drop]:
    """Yield what was dropped on a way and at its end."""
    counted = seen.counted
    for out, into in way.hops:
        backlog = sum(counted.backlogs(counted.ports[into].kernel).values())
        dropped = counted.frames(into, "rx_dropped")
        sending, receiving = AtPort(port=out), AtPort(port=into)
        yield Drop(sending, QDISC, counted.qdisc_drops(out))
        yield Drop(sending, TX_ERRORS, counted.frames(out, "tx_errors"))
        yield Drop(receiving, RING_FULL, counted.frames(out, "tx_dropped"))
        yield Drop(receiving, BACKLOG, min(dropped, backlog))
        yield Drop(receiving, NO_BUFFER, dropped - min(dropped, backlog))
        yield Drop(receiving, RX_ERRORS, counted.frames(into, "rx_errors"))
        yield from (Drop(AtPort(port=ref), FILTER, counted.filtered(ref)) for ref in (out, into))
    yield from _vanished(seen, way)
    if seen.measure.protocol == "udp":
        yield Drop(AtMachine(machine=flow.dst.machine), SOCKET, _unread(seen, flow.dst))


def _unread(seen: Observed, end: Endpoint) -> int:
    """Return the datagrams that did not fit into the sockets of a namespace."""
    found = []
    for snapshot in (seen.counted.before, seen.counted.after):
        reading = snapshot.of(end.kernel)
        rows = (row for one in reading.observations if one.netns == end.netns for row in one.drops)
        found.append(
            sum(
                row.counters.get("RcvbufErrors", 0)
                for row in rows
                if row.place == "protocol" and row.name in ("Udp", "Udp6")
            )
        )
    return found[1] - found[0]


def _vanished(seen: Observed, way: Way) -> Iterator[Drop]:
    """Yield what a machine took in and did not pass on, where the kernel gives a reason for as many."""
    counted = seen.counted
    for (_, into), (out, _) in pairwise(way.hops):
        left = counted.frames(out, "tx_packets", "tx_dropped", "tx_errors") + counted.qdisc_drops(out)
        missing = counted.frames(into, "rx_packets") - left - counted.filtered(into)
        for named in explain(missing, counted.reasons(counted.ports[into].kernel)):
            reason = NotPassedOnFor(reason=named.reason, out=out)
            yield Drop(AtPort(port=into), reason, named.frames, named.reason, named.doubt)


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


def _waiting(counted: Counted, way: Way, readings: Readings) -> dict[str, float]:
    """Return the part of the readings over time at which packets waited in the queues of a way."""
    found: dict[str, float] = {}
    for out, _ in way.hops:
        port = counted.ports[out]
        seen = [
            any(row.backlog_bytes for row in one.qdiscs if row.interface == port.interface)
            for reading in readings.get(port.kernel, readings.get(HERE, ()))
            for one in reading.observations
            if one.sampler == "qdiscs" and one.netns == port.netns
        ]
        if seen:
            found[out] = sum(seen) / len(seen)
    return found


def _lines(seen: Observed, way: Way) -> Iterator[Passed]:
    """Yield the links of a way that carry a known rate."""
    rates = {
        end: int(way.rate.removesuffix("bit"))
        for link in seen.lab.links.values()
        if link.wire is not None
        for end, way in link.wire.ways(link.ends).items()
        if way.rate is not None and not way.in_frames
    }
    for out, _ in way.hops:
        rate = rates.get(PortRef(out))
        if rate is not None:
            passed_bps = seen.counted.frames(out, "tx_bytes") * 8 * NS_PER_S / max(1, seen.span_ns)
            yield Passed(out, passed_bps, float(rate))


def _foreign(seen: Observed) -> Iterator[Passed]:
    """Yield the ports that passed more than the flows sent: somebody else uses the link."""
    own: dict[str, float] = {}
    for way, (_, flow) in zip(seen.ways, seen.flows, strict=True):
        for out, into in way.hops:
            own[out] = own.get(out, 0.0) + flow.sent_bps
            own.setdefault(into, 0.0)  # what acknowledges comes back there, in packets without payload
    points = {point.ref: point for way in seen.ways for point in (way.source, way.target)}
    seconds = (seen.measure.duration + seen.measure.warm_up) / NS_PER_S
    for ref, sent_bps in own.items():
        point = points.get(PortRef(ref), seen.ways[0].source)
        beside = point.counted_bytes if ref in points else ETHERNET_BYTES
        heads = head_bytes(seen.measure.protocol, point.address, beside)
        payload_bytes = seen.counted.frames(ref, "tx_bytes") - heads * seen.counted.frames(ref, "tx_packets")
        passed_bps = payload_bytes * 8 / seconds
        again_bps = sum(flow.retransmits or 0 for _, flow in seen.flows) * FRAME_BYTES * 8 / seconds
        if passed_bps > sent_bps * (1 + FOREIGN_RATIO) + again_bps + FOREIGN_BPS:
            yield Passed(ref, passed_bps, sent_bps)


def _unheld(seen: Observed) -> Iterator[Passed]:
    """Yield the shaped ports by which more payload went than their rate lets through."""
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
    """Return the most that a flow may have of a shape [bit/s]; None: it passes unshaped."""
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
