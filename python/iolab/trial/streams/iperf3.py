"""iperf3: the command lines of one client/server pair, and what its two reports say. Pure: runs nothing."""

from dataclasses import dataclass
from typing import TypedDict

from iolab.experiment.measures import Stream
from iolab.lab.topology import Endpoint
from iolab.trial.streams.iperf3_report import Report, Total
from iolab.units import NS_PER_S

SHORTEST_INTERVAL_NS, LONGEST_INTERVAL_NS = 100_000_000, 60 * NS_PER_S
"""Bounds of iperf3's --interval [ns]."""
MOST_ROWS = 4000
"""Most rows of a report, one for each connection in each interval: 700 bytes each, of the 4 MiB that are kept."""
STANDING_RATIO = 0.01
"""An interval with less of the mean rate has nothing in it: what was on its way arrives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One iperf3 client and its server."""

    client: Endpoint
    """Where the client runs; it sends."""
    server: Endpoint
    """Where the server runs; it receives."""
    tcp_port: int
    """The server's port (control, and data of either protocol)."""
    bidir: bool
    """Both directions at once through this pair (--bidir)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowReport:
    """One direction of one pair, as iperf3 reports it. Counts are without warm-up unless said."""

    src: Endpoint
    """The sender."""
    dst: Endpoint
    """The receiver."""
    sent_bps: float
    """Payload the sender handed to its socket [bit/s]."""
    received_bps: float
    """Payload that the receiver read [bit/s]."""
    delivered_bytes: int
    """Payload that the receiver read, warm-up included [bytes]."""
    datagrams: int
    """UDP datagrams sent; 0 for TCP."""
    lost_datagrams: int
    """UDP datagrams that did not arrive; 0 for TCP."""
    jitter_ns: float | None
    """UDP interarrival jitter (RFC 3550) [ns]."""
    retransmits: int | None
    """TCP segments sent again."""
    rtt_mean_ns: float | None
    """TCP smoothed round-trip time, mean over parallel connections [ns]."""
    cpu_src_ratio: float
    """CPU of the sending iperf3 process [ratio of one CPU]; for --bidir of the whole process."""
    cpu_dst_ratio: float
    """CPU of the receiving iperf3 process [ratio of one CPU]."""
    handed_bytes: int = 0
    """Payload that the sender handed to its socket, warm-up included [bytes]."""
    stood_ns: int = 0
    """Longest time between the first and the last byte in which none arrived [ns]."""


class _Datagrams(TypedDict):
    """What FlowReport says of datagrams."""

    datagrams: int
    lost_datagrams: int
    jitter_ns: float | None


def server_argv(pair: Pair, measure: Stream) -> tuple[str, ...]:
    """Return the server's command: one client, then it ends by itself."""
    return (
        "iperf3",
        "--server",
        "--one-off",
        "--json",
        "--interval",
        _interval_s(measure),
        "--port",
        str(pair.tcp_port),
        "--bind",
        pair.server.address,
    )


def client_argv(pair: Pair, measure: Stream) -> tuple[str, ...]:
    """Return the client's command for this measure."""
    argv = [
        "iperf3",
        "--client",
        pair.server.address,
        "--port",
        str(pair.tcp_port),
        "--bind",
        pair.client.address,
    ]
    argv += ["--json", "--time", str(measure.duration // NS_PER_S)]
    optional = (
        ("--omit", measure.warm_up // NS_PER_S or None),
        ("--interval", _interval_s(measure)),
        ("--bitrate", 0 if measure.protocol == "udp" and measure.rate is None else measure.rate),
        ("--congestion", measure.congestion if measure.protocol == "tcp" else None),
        ("--window", measure.window),
        ("--length", measure.length),
        ("--parallel", measure.parallel if measure.parallel > 1 else None),
    )
    for option, value in optional:
        if value is not None:
            argv += [option, str(value)]
    if measure.protocol == "udp":
        argv.append("--udp")
    if pair.bidir:
        argv.append("--bidir")
    return tuple(argv)


def _interval_s(measure: Stream) -> str:
    return f"{interval_ns(measure) / NS_PER_S:g}"


def interval_ns(measure: Stream) -> int:
    """Return how long an interval of the report is [ns]: that of samples, as far as the report stays short."""
    rows = measure.parallel * (2 if measure.direction == "both-ways" else 1)
    least_ns = (measure.duration + measure.warm_up) * rows // MOST_ROWS
    wanted_ns = max(measure.sample or NS_PER_S, SHORTEST_INTERVAL_NS, least_ns)
    return min(LONGEST_INTERVAL_NS, -(-wanted_ns // SHORTEST_INTERVAL_NS) * SHORTEST_INTERVAL_NS)


SILENT_S = 0.25
"""Where nothing arrived for so long before the end, what was sent meanwhile is lost: no queue holds it back alone."""


def flow_reports(pair: Pair, client: Report, server: Report) -> list[FlowReport]:
    """Return the flows of one pair: client to server, and for --bidir also back.

    Raises:
        ValueError: a report lacks a part that it should have.
    """
    end = client.end
    there = _flow(pair.client, pair.server, client, server, end.sum_sent, end.sum_received)
    if not pair.bidir:
        return [there]
    if end.sum_sent_bidir_reverse is None or end.sum_received_bidir_reverse is None:
        raise ValueError("iperf3's report has no sums of the way back")
    back = (end.sum_sent_bidir_reverse, end.sum_received_bidir_reverse)
    return [there, _flow(pair.server, pair.client, server, client, *back)]


def _flow(
    src: Endpoint, dst: Endpoint, sender: Report, receiver: Report, sent: Total, received: Total
) -> FlowReport:
    rtts_us = _rtts_us(sender)
    return FlowReport(
        src=src,
        dst=dst,
        sent_bps=sent.bits_per_second,
        received_bps=received.bits_per_second,
        delivered_bytes=_bytes(receiver, sending=False),
        handed_bytes=_bytes(sender, sending=True),
        stood_ns=_stood_ns(receiver),
        **_datagrams(sent, received, receiver),
        retransmits=sent.retransmits,
        rtt_mean_ns=sum(rtts_us) / len(rtts_us) * 1e3 if rtts_us else None,
        cpu_src_ratio=sender.end.cpu_utilization_percent.host_total / 100,
        cpu_dst_ratio=receiver.end.cpu_utilization_percent.host_total / 100,
    )


def _rtts_us(sender: Report) -> list[float]:
    """Return the round-trip times that a sender read after the warm-up; else the means of its connections.

    Those means are of the warm-up, too: of a long path slow start lasts for seconds, with the queue empty.
    """
    rows = (row for interval in sender.intervals for row in interval.streams)
    found = [float(row.rtt) for row in rows if row.sender and row.rtt and not row.omitted]
    ends = (stream.sender for stream in sender.end.streams if stream.sender is not None)
    return found or [float(one.mean_rtt) for one in ends if one.sender and one.mean_rtt]


def _datagrams(sent: Total, received: Total, receiver: Report) -> _Datagrams:
    """Return what became of datagrams.

    Each end leaves its own warm-up out. Over a delay these are different datagrams: what is lost of those of the
    sender's warm-up counts in the receiver's time. So with a warm-up both counts are the receiver's.
    """
    if received.packets is None:
        return _Datagrams(datagrams=0, lost_datagrams=0, jitter_ns=None)
    if sent.packets is None or received.lost_packets is None or received.jitter_ms is None:
        raise ValueError("iperf3's report counts datagrams at one end only")
    counted, lost = sent.packets, received.lost_packets
    rows = [row for interval in receiver.intervals for row in interval.streams if not row.sender]
    own = [
        row for row in rows if not row.omitted and row.packets is not None and row.lost_packets is not None
    ]
    if own and len(own) < len(rows):
        counted = sum(row.packets or 0 for row in own)
        lost = max(0, sum(row.lost_packets or 0 for row in own))
    elif _silent_at_end_s(receiver) >= SILENT_S:
        # The receiver knows no number after the last that arrived: what was sent while nothing came is lost as well.
        arrived = sum((row.packets or 0) - (row.lost_packets or 0) for row in rows)
        lost = max(lost, counted - arrived)
    if lost > counted:
        raise ValueError(f"iperf3 reports {lost} datagrams lost of {counted} sent")
    return _Datagrams(datagrams=counted, lost_datagrams=lost, jitter_ns=received.jitter_ms * 1e6)


def _silent_at_end_s(receiver: Report) -> float:
    """Return for how long nothing arrived before the end [s]."""
    silent = 0.0
    for interval in reversed(receiver.intervals):
        rows = [row for row in interval.streams if not row.sender]
        if any(row.bytes for row in rows):
            break
        silent += max(0.0, rows[0].end - rows[0].start) if rows else 0.0
    return silent


def _stood_ns(receiver: Report) -> int:
    """Return the longest time in which nothing arrived, once something had, and before the last did [ns]."""
    spans = []
    for interval in receiver.intervals:
        rows = [row for row in interval.streams if not row.sender]
        if rows:
            spans.append((sum(row.bytes for row in rows), max(0.0, rows[0].end - rows[0].start)))
    least = STANDING_RATIO * sum(count for count, _ in spans) / max(1, len(spans))
    longest = standing = 0.0
    begun = False
    for count, seconds in spans:
        longest = max(longest, standing) if count > least else longest
        standing = 0.0 if count > least or not begun else standing + seconds
        begun = begun or count > least
    return int(longest * NS_PER_S)


def _bytes(report: Report, *, sending: bool) -> int:
    rows = (row for interval in report.intervals for row in interval.streams)
    return sum(row.bytes for row in rows if row.sender is sending)
