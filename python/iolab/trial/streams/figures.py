"""The metrics of a stream trial: over all flows, and per flow where there are several. Defined in docs/method. Pure.

They are what the program said; what the kernel counted while the trial ran stands beside it.
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
"""Above this a difference of the interface's count and the program's is worth a warning."""
HEADER_BYTES = {"tcp": 32, "udp": 8}
"""TCP with time stamps, or UDP, per packet the interface counts (one GSO packet has one header)."""
IPV4_BYTES, IPV6_BYTES = 20, 40
"""Header of IP without options."""
MORE_COUNTED: Mapping[str, Disagreement] = {
    "tcp": Disagreement(code="segments-twice"),
    "udp": Disagreement(code="datagrams-unread"),
}


@dataclass(frozen=True, slots=True)
class Arrival:
    """What reached a receiving interface in a trial, and what of it the program read; warm-up included."""

    place: str
    """The port."""
    counted_bytes: int | None
    """Payload that the interface counted [bytes]; None: its counters could not be read."""
    delivered_bytes: int
    """Payload that the program read, of all flows [bytes]."""


def flow_metrics(protocol: str, flows: Sequence[FlowReport]) -> tuple[Metric, ...]:
    """Return rates summed over flows, loss over all datagrams, means of jitter and round-trip time."""
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
    """Return a name per flow: near->far; the second with the same ends is near->far#2."""
    return numbered([f"{flow.src.machine}->{flow.dst.machine}" for flow in flows])


def numbered(flows: Sequence[str]) -> list[str]:
    """Tell flows with the same ends apart: the second of a name gets #2."""
    names: list[str] = []
    for name in flows:
        same = sum(known.partition("#")[0] == name for known in names)
        names.append(f"{name}#{same + 1}" if same else name)
    return names


def jain_index(rates: Sequence[float]) -> float:
    """Return Jain's fairness index: 1 for equal shares, 1/n when one flow gets all (Jain, Chiu, Hawe 1984)."""
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
    """Return the share of all CPUs' time that was busy, and that the hypervisor took.

    `machine`: whose kernel was read; None: this computer's.
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
    """Return (all, idle) time [ns] of one CPU between two readings."""
    classes = ("user_ns", "nice_ns", "system_ns", "irq_ns", "softirq_ns", "steal_ns", "idle_ns", "iowait_ns")
    deltas = {name: max(0, getattr(later, name) - getattr(earlier, name)) for name in classes}
    return sum(deltas.values()), deltas["idle_ns"] + deltas["iowait_ns"]


def arrivals(
    protocol: str, flows: Sequence[FlowReport], before: Reading, after: Reading, length: int | None = None
) -> tuple[Arrival, ...]:
    """Return what arrived at every receiving interface of a kernel's flows; `length` is that of each datagram."""
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
    if (
        datagram_bytes is not None and whole > 0
    ):  # fragments of datagrams that never were whole arrive as well
        return Arrival(place, whole * datagram_bytes, delivered)
    packets = later.rx_packets - earlier.rx_packets
    beyond = head_bytes(protocol, at.address, at.counted_bytes)
    return Arrival(place, later.rx_bytes - earlier.rx_bytes - packets * beyond, delivered)


def _reassembled(reading: Reading, at: Endpoint) -> int:
    """Return the datagrams that the namespace of an end made of fragments."""
    rows = (row for seen in reading.observations if seen.netns == at.netns for row in seen.drops)
    return sum(row.counters.get("ReasmOKs", 0) for row in rows if row.name in ("Ip", "Ip6"))


def head_bytes(protocol: str, address: str, counted_bytes: int = ETHERNET_HEADER_BYTES) -> int:
    """Return what an interface counts of each packet of a stream beside its payload [bytes]."""
    return counted_bytes + (IPV6_BYTES if ":" in address else IPV4_BYTES) + HEADER_BYTES[protocol]


def unread_metric(loss_ratio: float, found: Sequence[Arrival]) -> tuple[Metric, ...]:
    """Return which part of the loss of datagrams was after the receiving interfaces; nothing where it is not known."""
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
    """Return a warning for every receiving interface that counted over 1 % more or less than its flows delivered.

    Where the flows are not alone in the lab, more means nothing.
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
