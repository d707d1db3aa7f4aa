"""Build the iperf3 client/server pairs of a stream measure and their command lines. Pure: runs no program."""

from dataclasses import dataclass

from iolab.experiment.model.measures import Stream
from iolab.lab.topology import Endpoint, Topology
from iolab.units import NS_PER_S

SHORTEST_INTERVAL_NS, LONGEST_INTERVAL_NS = 100_000_000, 60 * NS_PER_S
"""Limits of iperf3's --interval [ns]."""
MOST_ROWS = 4000
"""Maximum number of rows in a report, one per connection and interval: a row has 700 bytes, and 4 MiB of output are
kept."""

FIRST_TCP_PORT = 5201
"""Default port of iperf3; further pairs use the following ports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One iperf3 client and its server."""

    client: Endpoint
    """Endpoint of the client, which sends."""
    server: Endpoint
    """Endpoint of the server, which receives."""
    tcp_port: int
    """Server port (control connection, and data of both protocols)."""
    bidir: bool
    """Whether both directions run at once through this pair (--bidir)."""


def place_pairs(measure: Stream, topology: Topology) -> tuple[Pair, ...]:
    """Return the pairs that run in parallel, in flow order."""
    routes: list[tuple[str | None, str | None]] = [(flow.src, flow.dst) for flow in measure.flows]
    routes = routes or [(measure.src or measure.on, measure.dst)]
    if measure.direction == "dual":
        routes = [route for src, dst in routes for route in ((src, dst), (dst, src))]
    pairs = []
    first = FIRST_TCP_PORT if measure.port is None else measure.port
    for number, (src, dst) in enumerate(routes):
        assert src is not None  # the check of the experiment requires a sender
        assert dst is not None  # the check of the experiment requires a receiver
        pairs.append(
            Pair(
                client=topology.endpoint(src, towards=dst, ip=measure.ip),
                server=topology.endpoint(dst, towards=src, ip=measure.ip),
                tcp_port=first + number,
                bidir=measure.direction == "both-ways",
            )
        )
    return tuple(pairs)


def server_argv(pair: Pair, measure: Stream) -> tuple[str, ...]:
    """Return the server's command; the server exits after one client."""
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
    """Return the report interval [ns]: the sampling period, raised if the report would become too long."""
    rows = measure.parallel * (2 if measure.direction == "both-ways" else 1)
    least_ns = (measure.duration + measure.warm_up) * rows // MOST_ROWS
    wanted_ns = max(measure.sample or NS_PER_S, SHORTEST_INTERVAL_NS, least_ns)
    return min(LONGEST_INTERVAL_NS, -(-wanted_ns // SHORTEST_INTERVAL_NS) * SHORTEST_INTERVAL_NS)
