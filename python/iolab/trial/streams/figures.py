"""Compute the metrics of a stream trial: over all flows, and per flow if there are several. The definitions are in
docs/method. Pure.

The values come from the program's reports, and are compared with the kernel's counters over the same time.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from iolab.agent.answers import Reading
from iolab.agent.messages import CpuTimes
from iolab.lab.endpoints import Endpoint
from iolab.messages.warnings import (
    CountersDisagree,
    CountersMissing,
    Disagreement,
    TrialWarning,
)
from iolab.results.metric import Dimensions, Metric
from iolab.trial.streams.iperf3_report import FlowReport
from iolab.units import ETHERNET_HEADER_BYTES

DISAGREEMENT_RATIO = 0.01
"""Minimum relative difference between interface counters and the program's report that causes a warning."""
HEADER_BYTES = {"tcp": 32, "udp": 8}
"""Header bytes per packet that the interface counts: TCP with timestamps, or UDP (a GSO packet has one header)."""
IPV4_BYTES, IPV6_BYTES = 20, 40
"""Length of an IP header without options [bytes]."""
MORE_COUNTED: Mapping[str, Disagreement] = {
    "tcp": Disagreement(code="segments-twice"),
    "udp": Disagreement(code="datagrams-unread"),
}


@dataclass(frozen=True, slots=True)
class Arrival:
    """Payload that arrived at a receiving interface in a trial, and payload that the program read; both include the
    warm-up."""

    place: str
    """Port name."""
    counted_bytes: int | None
    """Payload counted by the interface [bytes]; None if its counters could not be read."""
    delivered_bytes: int
    """Payload read by the program, over all flows [bytes]."""


def flow_metrics(protocol: str, flows: Sequence[FlowReport]) -> tuple[Metric, ...]:
    """Return rates summed over flows, loss over all datagrams, and means of jitter and round-trip time."""
    return (
        Metric.of("received_bps", sum(flow.received_bps for flow in flows)),
        Metric.of("sent_bps", sum(flow.sent_bps for flow in flows)),
        *(_udp_metrics(flows) if protocol == "udp" else _tcp_metrics(flows)),
        Metric.of("cpu_from_ratio", max(flow.cpu_src_ratio for flow in flows)),
        Metric.of("cpu_to_ratio", max(flow.cpu_dst_ratio for flow in flows)),
        *(_by_flow(protocol, flows) if len(flows) > 1 else ()),
    )


def _by_flow(protocol: str, flows: Sequence[FlowReport]) -> Iterator[Metric]:
    yield Metric.of("fairness", jain_index([flow.received_bps for flow in flows]))
    for name, flow in zip(flow_names(flows), flows, strict=True):
        about = Dimensions(flow=name)
        yield Metric.of("received_bps", flow.received_bps, about)
        yield Metric.of("sent_bps", flow.sent_bps, about)
        if protocol == "udp" and flow.datagrams:
            yield Metric.of("loss_ratio", flow.lost_datagrams / flow.datagrams, about)


def flow_names(flows: Sequence[FlowReport]) -> list[str]:
    """Return a name per flow: near->far; a second flow with the same ends is near->far#2."""
    return numbered([f"{flow.src.machine}->{flow.dst.machine}" for flow in flows])


def numbered(flows: Sequence[str]) -> list[str]:
    """Return unique flow names: a second flow with the same name gets the suffix #2."""
    names: list[str] = []
    for name in flows:
        same = sum(known.partition("#")[0] == name for known in names)
        names.append(f"{name}#{same + 1}" if same else name)
    return names


def jain_index(rates: Sequence[float]) -> float:
    """Return Jain's fairness index: 1 for equal shares, 1/n if one flow has the whole rate (Jain, Chiu, Hawe 1984)."""
    squares = sum(rate * rate for rate in rates)
    return sum(rates) ** 2 / (len(rates) * squares) if squares else 1.0


def _udp_metrics(flows: Sequence[FlowReport]) -> Iterator[Metric]:
    datagrams = sum(flow.datagrams for flow in flows)
    lost = sum(flow.lost_datagrams for flow in flows)
    yield Metric.of("loss_ratio", lost / datagrams if datagrams else 0.0)
    jitters = [flow.jitter_ns for flow in flows if flow.jitter_ns is not None]
    if jitters:
        yield Metric.of("jitter_ns", sum(jitters) / len(jitters))


def _tcp_metrics(flows: Sequence[FlowReport]) -> Iterator[Metric]:
    again = [flow.retransmits for flow in flows if flow.retransmits is not None]
    rtts = [flow.rtt_mean_ns for flow in flows if flow.rtt_mean_ns is not None]
    if again:
        yield Metric.of("retransmits", float(sum(again)))
    if rtts:
        yield Metric.of("rtt_mean_ns", sum(rtts) / len(rtts))


def cpu_metrics(before: Reading, after: Reading, machine: str | None = None) -> tuple[Metric, ...]:
    """Return the busy share and the steal share of the total CPU time.

    `machine` is the machine whose kernel was read; None: the local host.
    """
    total = busy = steal = 0
    for earlier, later in zip(before.cpu_times(), after.cpu_times(), strict=True):
        all_ns, idle_ns = _spent(earlier, later)
        total += all_ns
        busy += all_ns - idle_ns
        steal += later.steal_ns - earlier.steal_ns
    if total <= 0:
        return ()
    about = Dimensions(machine=machine)
    return (
        Metric.of("host_cpu_ratio", busy / total, about),
        Metric.of("host_steal_ratio", steal / total, about),
    )


def _spent(earlier: CpuTimes, later: CpuTimes) -> tuple[int, int]:
    """Return the (total, idle) time of one CPU between two readings [ns]."""
    classes = ("user_ns", "nice_ns", "system_ns", "irq_ns", "softirq_ns", "steal_ns", "idle_ns", "iowait_ns")
    deltas = {name: max(0, getattr(later, name) - getattr(earlier, name)) for name in classes}
    return sum(deltas.values()), deltas["idle_ns"] + deltas["iowait_ns"]


def arrivals(
    protocol: str, flows: Sequence[FlowReport], before: Reading, after: Reading, length: int | None = None
) -> tuple[Arrival, ...]:
    """Return the payload at every receiving interface of a kernel's flows; `length` is the datagram length."""
    arriving: dict[tuple[str | None, str], list[FlowReport]] = {}
    for flow in flows:
        arriving.setdefault((flow.dst.netns, flow.dst.interface), []).append(flow)
    datagram = length if protocol == "udp" else None
    return tuple(_arrival(protocol, group, before, after, datagram) for group in arriving.values())


def _arrival(
    protocol: str, flows: list[FlowReport], before: Reading, after: Reading, datagram_bytes: int | None
) -> Arrival:
    at: Endpoint = flows[0].dst
    place, delivered = f"{at.machine}.{at.port}", sum(flow.delivered_bytes for flow in flows)
    earlier, later = before.interface(at.netns, at.interface), after.interface(at.netns, at.interface)
    if earlier is None or later is None:
        return Arrival(place, None, delivered)
    whole = _reassembled(after, at) - _reassembled(before, at)
    if datagram_bytes is not None and whole > 0:  # fragments of incomplete datagrams arrive too
        return Arrival(place, whole * datagram_bytes, delivered)
    packets = later.rx_packets - earlier.rx_packets
    beyond = head_bytes(protocol, at.address, at.counted_bytes)
    return Arrival(place, later.rx_bytes - earlier.rx_bytes - packets * beyond, delivered)


def _reassembled(reading: Reading, at: Endpoint) -> int:
    """Return the number of datagrams that an end's namespace reassembled from fragments."""
    rows = (row for seen in reading.observations if seen.netns == at.netns for row in seen.drops)
    return sum(row.counters.get("ReasmOKs", 0) for row in rows if row.name in ("Ip", "Ip6"))


def head_bytes(protocol: str, address: str, counted_bytes: int = ETHERNET_HEADER_BYTES) -> int:
    """Return the header bytes that an interface counts per packet of a stream [bytes]."""
    return counted_bytes + (IPV6_BYTES if ":" in address else IPV4_BYTES) + HEADER_BYTES[protocol]


def unread_metric(loss_ratio: float, found: Sequence[Arrival]) -> tuple[Metric, ...]:
    """Return the share of datagrams lost after the receiving interfaces; empty if unknown."""
    counted, delivered = 0, sum(arrival.delivered_bytes for arrival in found)
    for arrival in found:
        if arrival.counted_bytes is None:
            return ()
        counted += arrival.counted_bytes
    if not delivered:
        return ()
    received_ratio = 1 - loss_ratio
    unread_ratio = (counted / delivered - 1) * received_ratio
    return (Metric.of("unread_ratio", min(max(unread_ratio, 0.0), loss_ratio)),)


def disagreements(protocol: str, found: Sequence[Arrival], *, alone: bool = True) -> tuple[TrialWarning, ...]:
    """Return a warning for every receiving interface whose count differs from the flows' payload by more than 1 %.

    If other flows share the lab, a count above the payload causes no warning.
    """
    warnings = (_disagreement(protocol, arrival, alone=alone) for arrival in found)
    return tuple(warning for warning in warnings if warning is not None)


def _disagreement(protocol: str, arrival: Arrival, *, alone: bool) -> TrialWarning | None:
    counted, delivered = arrival.counted_bytes, arrival.delivered_bytes
    if counted is None:
        return CountersMissing(place=arrival.place)
    difference = (counted - delivered) / max(counted, delivered, 1)
    if abs(difference) <= DISAGREEMENT_RATIO or (difference > 0 and not alone):
        return None
    return CountersDisagree(
        place=arrival.place,
        counted_bytes=counted,
        delivered_bytes=delivered,
        difference_ratio=difference,
        cause=MORE_COUNTED[protocol] if difference > 0 else Disagreement(code="another-path"),
    )
