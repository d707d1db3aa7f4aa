"""iperf3: the command lines of one client/server pair, and what its two JSON reports say. Pure: runs nothing."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from iolab.experiment.measures import Stream
from iolab.lab.topology import Endpoint

Report: TypeAlias = Mapping[str, Any]
"""iperf3's JSON, read only in this file."""

NS_PER_S = 1_000_000_000
ADVICE = {
    "socket buffer size": "; the window is more than net.core.rmem_max and wmem_max allow: raise them on the host",
    "unable to connect": "; do the addresses reach each other? `iolab plan` shows them",
}
"""What to do about errors that iperf3 reports in few words."""


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


def server_argv(pair: Pair) -> tuple[str, ...]:
    """Return the server's command: one client, then it ends by itself."""
    return (
        "iperf3",
        "--server",
        "--one-off",
        "--json",
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
        ("--bitrate", 0 if measure.protocol == "udp" and measure.rate is None else measure.rate),
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


def parse_report(text: str) -> Report:
    """Return iperf3's JSON.

    Raises:
        ValueError: iperf3 reported an error, or the text is not its JSON; the message says which.
    """
    if text.startswith("Usage:"):  # its complaint is on standard error
        raise ValueError("iperf3 does not take these options")
    try:
        report = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"iperf3's report is not JSON ({error}): {text[:200]!r}") from error
    if not isinstance(report, dict) or "end" not in report:
        raise ValueError(f"iperf3's report has no end section: {text[:200]!r}")
    if "error" in report:
        advice = next((text for words, text in ADVICE.items() if words in report["error"]), "")
        raise ValueError(f"iperf3: {report['error']}{advice}")
    return report


def flow_reports(pair: Pair, client: Report, server: Report) -> list[FlowReport]:
    """Return the flows of one pair: client to server, and for --bidir also back."""
    there = _flow(pair.client, pair.server, client, server, client["end"], "")
    if not pair.bidir:
        return [there]
    return [there, _flow(pair.server, pair.client, server, client, client["end"], "_bidir_reverse")]


def _flow(
    src: Endpoint, dst: Endpoint, sender: Report, receiver: Report, totals: Report, suffix: str
) -> FlowReport:
    sent, received = totals[f"sum_sent{suffix}"], totals[f"sum_received{suffix}"]
    udp = "packets" in received
    connections = [stream["sender"] for stream in sender["end"]["streams"] if _sends(stream)]
    rtts_us = [connection["mean_rtt"] for connection in connections if connection.get("mean_rtt")]
    return FlowReport(
        src=src,
        dst=dst,
        sent_bps=sent["bits_per_second"],
        received_bps=received["bits_per_second"],
        delivered_bytes=_delivered_bytes(receiver),
        datagrams=sent["packets"] if udp else 0,
        lost_datagrams=received["lost_packets"] if udp else 0,
        jitter_ns=received["jitter_ms"] * 1e6 if udp else None,
        retransmits=sent.get("retransmits"),
        rtt_mean_ns=sum(rtts_us) / len(rtts_us) * 1e3 if rtts_us else None,
        cpu_src_ratio=sender["end"]["cpu_utilization_percent"]["host_total"] / 100,
        cpu_dst_ratio=receiver["end"]["cpu_utilization_percent"]["host_total"] / 100,
    )


def _sends(stream: Mapping[str, Any]) -> bool:
    """Whether the reporting process is the sender of this TCP connection."""
    return "sender" in stream and bool(stream["sender"].get("sender"))


def _delivered_bytes(receiver: Report) -> int:
    rows = [stream for interval in receiver["intervals"] for stream in interval["streams"]]
    return sum(int(row["bytes"]) for row in rows if not row["sender"])
