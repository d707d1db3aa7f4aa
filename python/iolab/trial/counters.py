"""What the kernel counted while a trial ran, beside what the program said. Pure."""

from collections.abc import Mapping, Sequence

from iolab.agent.messages import CpuTimes, Reading
from iolab.lab.topology import Endpoint
from iolab.trial.iperf3 import FlowReport
from iolab.trial.result import Metric, Warning

DISAGREEMENT_RATIO = 0.01
"""Above this the interface's count and the program's are told to the reader."""
HEADER_BYTES = {"tcp": 14 + 20 + 32, "udp": 14 + 20 + 8}
"""Ethernet + IPv4 + TCP with time stamps, or UDP, per packet the interface counts (one GSO packet has one header)."""


def cpu_metrics(before: Reading, after: Reading) -> Mapping[str, Metric]:
    """Return the share of all CPUs' time that was busy, and that the hypervisor took."""
    total = busy = steal = 0
    for earlier, later in zip(before.cpu_times(), after.cpu_times(), strict=True):
        all_ns, idle_ns = _spent(earlier, later)
        total += all_ns
        busy += all_ns - idle_ns
        steal += later.steal_ns - earlier.steal_ns
    if total <= 0:
        return {}
    return {
        "host_cpu_ratio": Metric(busy / total, "ratio"),
        "host_steal_ratio": Metric(steal / total, "ratio"),
    }


def _spent(earlier: CpuTimes, later: CpuTimes) -> tuple[int, int]:
    """Return (all, idle) time [ns] of one CPU between two readings."""
    classes = ("user_ns", "nice_ns", "system_ns", "irq_ns", "softirq_ns", "steal_ns", "idle_ns", "iowait_ns")
    deltas = {name: max(0, getattr(later, name) - getattr(earlier, name)) for name in classes}
    return sum(deltas.values()), deltas["idle_ns"] + deltas["iowait_ns"]


def disagreements(
    protocol: str, flows: Sequence[FlowReport], before: Reading, after: Reading
) -> tuple[Warning, ...]:
    """Return a warning for every receiving interface that counted over 1 % more or less than its flows delivered."""
    arriving: dict[tuple[str | None, str], list[FlowReport]] = {}
    for flow in flows:
        arriving.setdefault((flow.dst.netns, flow.dst.interface), []).append(flow)
    found = [_disagreement(protocol, group, before, after) for group in arriving.values()]
    return tuple(warning for warning in found if warning is not None)


def _disagreement(protocol: str, flows: list[FlowReport], before: Reading, after: Reading) -> Warning | None:
    at: Endpoint = flows[0].dst
    earlier, later = before.interface(at.netns, at.interface), after.interface(at.netns, at.interface)
    place = f"{at.machine}.{at.port}"
    if earlier is None or later is None:
        return Warning("counters-missing", f"the counters of {place} could not be read")
    packets = later.rx_packets - earlier.rx_packets
    counted = later.rx_bytes - earlier.rx_bytes - packets * HEADER_BYTES[protocol]
    delivered = sum(flow.delivered_bytes for flow in flows)
    difference = (counted - delivered) / max(counted, delivered, 1)
    if abs(difference) <= DISAGREEMENT_RATIO:
        return None
    advice = (
        "the interface received more than the program read: datagrams were lost in the receiver's socket, or sent twice"
        if difference > 0
        else "the program read more than the interface counted: is the traffic taking another path?"
    )
    text = f"{place} counted {counted} bytes of payload, iperf3 delivered {delivered} ({difference:+.1%})"
    return Warning("counters-disagree", text, advice)
