"""The metrics of a stream trial: over all flows, and per flow where there are several. Defined in docs/method."""

from collections.abc import Mapping, Sequence

from iolab.record.metric import Metric
from iolab.trial.iperf3 import FlowReport


def flow_metrics(protocol: str, flows: Sequence[FlowReport]) -> Mapping[str, Metric]:
    """Return rates summed over flows, loss over all datagrams, means of jitter and round-trip time."""
    metrics = {
        "received_bps": Metric(sum(flow.received_bps for flow in flows), "bit/s"),
        "sent_bps": Metric(sum(flow.sent_bps for flow in flows), "bit/s"),
    }
    if protocol == "udp":
        metrics |= _udp_metrics(flows)
    else:
        metrics |= _tcp_metrics(flows)
    metrics["cpu_from_ratio"] = Metric(max(flow.cpu_src_ratio for flow in flows), "ratio")
    metrics["cpu_to_ratio"] = Metric(max(flow.cpu_dst_ratio for flow in flows), "ratio")
    if len(flows) > 1:
        metrics["fairness"] = Metric(jain_index([flow.received_bps for flow in flows]), "ratio")
        for name, flow in zip(flow_names(flows), flows, strict=True):
            metrics[f"received_bps[{name}]"] = Metric(flow.received_bps, "bit/s")
            metrics[f"sent_bps[{name}]"] = Metric(flow.sent_bps, "bit/s")
            if protocol == "udp" and flow.datagrams:
                metrics[f"loss_ratio[{name}]"] = Metric(flow.lost_datagrams / flow.datagrams, "ratio")
    return metrics


def flow_names(flows: Sequence[FlowReport]) -> list[str]:
    """Return a name per flow: near->far; the second with the same ends is near->far#2."""
    names: list[str] = []
    for flow in flows:
        name = f"{flow.src.machine}->{flow.dst.machine}"
        same = sum(known.partition("#")[0] == name for known in names)
        names.append(f"{name}#{same + 1}" if same else name)
    return names


def jain_index(rates: Sequence[float]) -> float:
    """Return Jain's fairness index: 1 for equal shares, 1/n when one flow gets all (Jain, Chiu, Hawe 1984)."""
    squares = sum(rate * rate for rate in rates)
    return sum(rates) ** 2 / (len(rates) * squares) if squares else 1.0


def _udp_metrics(flows: Sequence[FlowReport]) -> Mapping[str, Metric]:
    datagrams = sum(flow.datagrams for flow in flows)
    jitters = [flow.jitter_ns for flow in flows if flow.jitter_ns is not None]
    metrics = {
        "loss_ratio": Metric(
            sum(flow.lost_datagrams for flow in flows) / datagrams if datagrams else 0.0, "ratio"
        )
    }
    if jitters:
        metrics["jitter_ns"] = Metric(sum(jitters) / len(jitters), "ns")
    return metrics


def _tcp_metrics(flows: Sequence[FlowReport]) -> Mapping[str, Metric]:
    again = [flow.retransmits for flow in flows if flow.retransmits is not None]
    times = [flow.rtt_mean_ns for flow in flows if flow.rtt_mean_ns is not None]
    metrics = {}
    if again:
        metrics["retransmits"] = Metric(float(sum(again)), "count")
    if times:
        metrics["rtt_mean_ns"] = Metric(sum(times) / len(times), "ns")
    return metrics
