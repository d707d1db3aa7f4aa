"""What the kernel counted while a trial ran, beside what the program said. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iolab.agent.messages import CpuTimes, Reading
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


@dataclass(frozen=True, slots=True)
class Arrival:
    """What reached a receiving interface in a trial, and what of it the program read; warm-up included."""

    place: str
    """The port."""
    counted_bytes: int | None
    """Payload that the interface counted [bytes]; None: its counters could not be read."""
    delivered_bytes: int
    """Payload that the program read, of all flows [bytes]."""


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
