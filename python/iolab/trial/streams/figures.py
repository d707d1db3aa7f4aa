"""The metrics of a stream trial: over all flows, and per flow where there are several. Defined in docs/method."""

from collections.abc import Iterator, Sequence

from iolab.results.metric import Dimensions, Metric
from iolab.trial.streams.iperf3_report import FlowReport


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
    times = [flow.rtt_mean_ns for flow in flows if flow.rtt_mean_ns is not None]
    if again:
        yield Metric.of("retransmits", float(sum(again)))
    if times:
        yield Metric.of("rtt_mean_ns", sum(times) / len(times))
