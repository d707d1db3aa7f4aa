"""Find drops and emulated lines on the path of a flow. Pure.

Packets are dropped on ports, on emulated paths, in machines, and at the receiver. For a line the module returns its
capacity, its traffic, and the losses of its queue.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise

from iolab.experiment.experiment import Lab
from iolab.experiment.model.impairments import DELIVERY_BYTES, Impairments
from iolab.lab.packets.placement import Way
from iolab.lab.topology import Endpoint
from iolab.messages.drop_reasons import LongerThanMtu, NotPassedOnFor
from iolab.messages.places import AtMachine, AtPort
from iolab.results.packets import Drop
from iolab.trial.counters.differences import Counted
from iolab.trial.counters.drops import (
    BACKLOG,
    FILTER,
    NO_BUFFER,
    QDISC,
    RING_FULL,
    RX_ERRORS,
    SOCKET,
    TX_ERRORS,
    UNDER_WAY,
    explain,
    merged,
    wire_drops,
)
from iolab.trial.counters.passing import Course, Passing, passing
from iolab.trial.streams.evidence import LineSeen
from iolab.units import NS_PER_S

REASONS_OF_LENGTH = ("NOT_SPECIFIED", "PKT_TOO_BIG", "SKB_DROP_REASON_PKT_TOO_BIG")
"""Kernel drop reasons for frames longer than the next port's MTU; a bridge gives no reason."""
LINE_STAGES = ("line", "codel")
"""Stages of an emulated path that drop frames when frames arrive faster than the line rate."""


def drops_of(counted: Counted, way: Way, below: Sequence[Way] = (), *, datagrams: bool) -> tuple[Drop, ...]:
    """Return drops on a path, on the lower paths in `below` and, for datagrams, at the receiver, in descending order of
    their number."""
    found = [
        drop
        for each in (
            *below,
            way,
        )  # a tunnel's counters include drops of the port under it, so the drops of that port are counted first
        for drop in (*_at_ports(counted, each), *_on_wires(counted, each), *_inside(counted, each))
    ]
    if datagrams:
        target = way.target
        found.append(Drop(AtMachine(machine=target.machine), SOCKET, protocol_count(counted, target, UNREAD)))
    return tuple(one for one in merged(found) if one.frames > 0)


def _at_ports(counted: Counted, way: Way) -> Iterator[Drop]:
    for out, into in way.hops:
        backlog = sum(counted.backlogs(counted.ports[into].kernel).values())
        dropped = counted.frames(into, "rx_dropped")
        sending, receiving = AtPort(port=out), AtPort(port=into)
        yield Drop(sending, QDISC, counted.qdisc_drops(out))
        yield Drop(sending, TX_ERRORS, counted.frames(out, "tx_errors"))
        # An emulated path reads the queue of the port at its end, and reports its own losses.
        if counted.on_wire(out, into) is None:
            yield Drop(receiving, RING_FULL, counted.frames(out, "tx_dropped"))
        yield Drop(receiving, BACKLOG, min(dropped, backlog))
        yield Drop(receiving, NO_BUFFER, dropped - min(dropped, backlog))
        yield Drop(receiving, RX_ERRORS, counted.frames(into, "rx_errors"))
        yield from (Drop(AtPort(port=ref), FILTER, counted.filtered(ref)) for ref in (out, into))


def _on_wires(counted: Counted, way: Way) -> Iterator[Drop]:
    """Yield losses on emulated paths, including those between two bridges on the path."""
    gaps = ((into, out) for (_, into), (out, _) in pairwise(way.hops))
    for hops, direct in ((way.hops, True), (gaps, False)):
        for out, into in hops:
            for drop in wire_drops(counted, out, into, 0, direct=direct):
                if drop.reason != UNDER_WAY:  # these may be acknowledgements, or the last frames sent
                    yield drop


def _inside(counted: Counted, way: Way) -> Iterator[Drop]:
    """Yield packets that a machine received and did not forward: packets longer than the next MTU, and packets with a
    kernel drop reason."""
    sent_mtu = mtu_at(counted, way.hops[0][0]) if way.hops else 0
    for (_, into), (out, _) in pairwise(way.hops):
        left = counted.frames(out, "tx_packets", "tx_dropped", "tx_errors") + counted.qdisc_drops(out)
        missing = counted.frames(into, "rx_packets") - left - counted.filtered(into)
        reasons = counted.reasons(counted.ports[into].kernel)
        mtu = mtu_at(counted, out)
        if 0 < mtu < sent_mtu and missing > 0 and any(reasons.get(name) for name in REASONS_OF_LENGTH):
            too_long = LongerThanMtu(out=out, mtu_bytes=mtu, sent_mtu_bytes=sent_mtu)
            yield Drop(AtPort(port=into), too_long, missing)
            continue
        for named in explain(missing, reasons):
            reason = NotPassedOnFor(reason=named.reason, out=out)
            yield Drop(AtPort(port=into), reason, named.frames, named.reason, named.doubt)


def mtu_at(counted: Counted, ref: str) -> int:
    """Return the MTU of a port as shown by its kernel [bytes]; 0: unknown."""
    port = counted.ports[ref]
    shown = counted.after.of(port.kernel).setting(port.netns, "interface", port.interface).get("mtu", "")
    return int(shown) if shown.isdecimal() else 0


UNREAD: Mapping[str, tuple[str, ...]] = {"Udp": ("RcvbufErrors",), "Udp6": ("RcvbufErrors",)}
"""Counters of datagrams that did not fit into the buffers of a namespace's sockets, by protocol."""
INCOMPLETE: Mapping[str, tuple[str, ...]] = {"Ip": ("ReasmFails",), "Ip6": ("ReasmFails",)}
"""Counters of datagrams with a missing fragment, by protocol."""
COMPLETE: Mapping[str, tuple[str, ...]] = {"Ip": ("ReasmOKs",), "Ip6": ("ReasmOKs",)}
"""Counters of completely reassembled datagrams, by protocol."""


def protocol_count(counted: Counted, end: Endpoint, names: Mapping[str, tuple[str, ...]]) -> int:
    """Return the increase of a namespace's protocol counters."""
    before, after = (
        sum(
            row.counters.get(name, 0)
            for one in snapshot.of(end.kernel).observations
            if one.netns == end.netns
            for row in one.drops
            if row.place == "protocol"
            for name in names.get(row.name, ())
        )
        for snapshot in (counted.before, counted.after)
    )
    return after - before


def lines_on(
    lab: Lab, way: Way, counted: Counted, course: Course, active_ns: tuple[int, int] | None
) -> Iterator[LineSeen]:
    """Yield the lines on a path; `active_ns` is the programs' run time on the clock of the emulated links, None if
    unknown."""
    ways = {
        str(end): (name, own)
        for name, link in lab.links.items()
        if link.wire is not None
        for end, own in link.wire.ways(link.ends).items()
    }
    for out, into in way.hops:
        if out not in ways or ways[out][1].most_bps() is None:
            continue
        link, own = ways[out]
        wire = counted.on_wire(out, into)
        passed = _on_the_line(counted, out, course, 0 if wire is None else wire[1].passed_bytes)
        lost = (
            0 if wire is None else sum(one.lost_frames for one in wire[1].stages if one.kind in LINE_STAGES)
        )
        arrived = 0 if wire is None else wire[1].arrived_frames
        since_ns = counted.after.wires[link].does_since_ns if link in counted.after.wires else 0
        capacity = 0
        if own.rate is None and since_ns and active_ns is not None:
            capacity = capacity_bytes(own, active_ns[0] - since_ns, active_ns[1] - since_ns)
        yield LineSeen(
            place=out,
            link=link,
            passed_bps=0.0 if passed is None else passed.bps,
            rate_bps=None if own.rate is None else float(own.rate.removesuffix("bit")),
            arrived_frames=arrived,
            lost_frames=lost,
            passed_bytes=0 if wire is None else wire[1].passed_bytes,
            capacity_bytes=capacity,
            marked_frames=0 if wire is None else wire[1].marked_frames,
            stall_ns=0 if own.stall is None else own.stall.length,
            stall_every_ns=0 if own.stall is None else own.stall.every,
        )


def _on_the_line(counted: Counted, out: str, course: Course, line_bytes: int) -> Passing | None:
    """Return the passed bytes as the line counts them, with a header for each frame of a super-frame."""
    passed = passing(course.port(out, "tx_bytes"))
    sent_bytes = counted.frames(out, "tx_bytes")
    if passed is None or not line_bytes or not sent_bytes:
        return passed
    return Passing(round(passed.bytes * line_bytes / sent_bytes), passed.span_ns)


def capacity_bytes(line: Impairments, begin_ns: int, end_ns: int) -> int:
    """Return the capacity of a line with a trace between two times since the trace's start [bytes]."""
    return _carried(line, end_ns) - _carried(line, max(0, begin_ns))


def _carried(line: Impairments, until_ns: int) -> int:
    """Return the capacity of a line since the start of its trace [bytes]; the trace repeats."""
    if line.delivery_trace is not None:
        rounds, rest_ns = divmod(until_ns, line.delivery_trace[-1])
        passed = bisect_right(line.delivery_trace, rest_ns)
        return (rounds * len(line.delivery_trace) + passed) * DELIVERY_BYTES
    steps: Sequence[tuple[int, int]] = line.rate_trace or ()
    ends = list(accumulate(length_ns for length_ns, _ in steps))
    sums = [0, *accumulate(length_ns * bps for length_ns, bps in steps)]
    rounds, rest_ns = divmod(until_ns, ends[-1])
    at = bisect_right(ends, rest_ns)
    begun_ns = ends[at - 1] if at else 0
    return (rounds * sums[-1] + sums[at] + (rest_ns - begun_ns) * steps[at][1]) // (8 * NS_PER_S)
