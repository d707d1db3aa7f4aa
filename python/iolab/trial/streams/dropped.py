"""What was dropped on the way of a flow, and where it arrives: at ports, on emulated paths, inside machines. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

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

REASONS_OF_LENGTH = ("NOT_SPECIFIED", "PKT_TOO_BIG", "SKB_DROP_REASON_PKT_TOO_BIG")
"""What the kernel calls frames that are longer than the next port takes; a bridge gives no reason."""


def drops_of(counted: Counted, way: Way, below: Sequence[Way] = (), *, datagrams: bool) -> tuple[Drop, ...]:
    """Return what was dropped on a way, on those `below` that carry it and, of datagrams, at its end, most first."""
    found = [
        drop
        for each in (
            *below,
            way,
        )  # a tunnel counts as its own what the port below it dropped: that comes first
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
        # An emulated path reads the queue of its end, and says what it lost.
        if counted.on_wire(out, into) is None:
            yield Drop(receiving, RING_FULL, counted.frames(out, "tx_dropped"))
        yield Drop(receiving, BACKLOG, min(dropped, backlog))
        yield Drop(receiving, NO_BUFFER, dropped - min(dropped, backlog))
        yield Drop(receiving, RX_ERRORS, counted.frames(into, "rx_errors"))
        yield from (Drop(AtPort(port=ref), FILTER, counted.filtered(ref)) for ref in (out, into))


def _on_wires(counted: Counted, way: Way) -> Iterator[Drop]:
    """Yield what emulated paths lost, those between two bridges on the way included."""
    gaps = ((into, out) for (_, into), (out, _) in pairwise(way.hops))
    for hops, direct in ((way.hops, True), (gaps, False)):
        for out, into in hops:
            for drop in wire_drops(counted, out, into, 0, direct=direct):
                if drop.reason != UNDER_WAY:  # what is there after a stream acknowledges, or was sent last
                    yield drop


def _inside(counted: Counted, way: Way) -> Iterator[Drop]:
    """Yield what a machine took in and did not pass on: too long for the next port, or for a reason of the kernel."""
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
    """Return the largest packet that a port takes, as its kernel shows it [bytes]; 0: not known."""
    port = counted.ports[ref]
    shown = counted.after.of(port.kernel).setting(port.netns, "interface", port.interface).get("mtu", "")
    return int(shown) if shown.isdecimal() else 0


UNREAD: Mapping[str, tuple[str, ...]] = {"Udp": ("RcvbufErrors",), "Udp6": ("RcvbufErrors",)}
"""Counters of datagrams that did not fit into the sockets of a namespace, by protocol."""
INCOMPLETE: Mapping[str, tuple[str, ...]] = {"Ip": ("ReasmFails",), "Ip6": ("ReasmFails",)}
"""Those of datagrams of which a fragment was missing."""
COMPLETE: Mapping[str, tuple[str, ...]] = {"Ip": ("ReasmOKs",), "Ip6": ("ReasmOKs",)}
"""Those of datagrams of which no fragment was missing."""


def protocol_count(counted: Counted, end: Endpoint, names: Mapping[str, tuple[str, ...]]) -> int:
    """Return by how much counters of the protocols of a namespace rose."""
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
