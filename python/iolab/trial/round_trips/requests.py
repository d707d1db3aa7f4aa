"""Build the requests to the agent's round-trip programs (contract/roundtrip-v1.md), and parse their reports. Pure."""

import json
from dataclasses import dataclass
from typing import TypeVar

from iolab.agent.decoding import Count
from iolab.agent.messages import Histogram, Json
from iolab.experiment.model.measures import Ping, RequestResponse, RoundTrips
from iolab.lab.topology import Endpoint
from iolab.results.encoding import Encoding
from iolab.units import NS_PER_S

FIRST_PORT = 5801
"""Default port of the answering end."""
TCP_PATIENCE = 10
"""Factor by which the response timeout is longer for TCP, which retransmits lost segments."""
SLICE_NS = 100_000_000
"""Default slice length of the series [ns]; if counters are sampled, their period is used instead."""


@dataclass(frozen=True, slots=True)
class Slice:
    """One slice of the reported time."""

    count: Count
    """Round trips completed in the slice."""
    sum_ns: Count
    """Sum of the times of these round trips [ns]."""
    max_ns: Count
    """Maximum time [ns]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsReport:
    """Report of transactions, without the warm-up."""

    begin_ns: Count
    """Start of the reported time [ns]."""
    duration_ns: Count
    """Duration of the reported time [ns]."""
    transactions: Count
    """Completed transactions."""
    lost: Count
    """Number of UDP requests without a response before the timeout."""
    late: Count
    """Number of UDP responses that arrived after the timeout."""
    unsent: Count
    """Number of intended requests that had not been sent by the end."""
    latency_ns: Histogram
    """Latency, one value per transaction."""
    connect_ns: Histogram
    """Time to open a connection."""
    slice_ns: Count
    """Length of a slice [ns]."""
    slices: tuple[Slice, ...]
    """Slices in time order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbesReport:
    """Report of echoes, without the warm-up."""

    begin_ns: Count
    """Start of the reported time [ns]."""
    sent: Count
    """Requests sent."""
    unsent: Count
    """Requests omitted because the sender stalled."""
    refused: Count
    """Requests that the sender's kernel refused."""
    received: Count
    """Requests answered."""
    duplicate: Count
    """Duplicate answers."""
    reordered: Count
    """Number of answers that arrived after the answer to a later request."""
    rtt_ns: Histogram
    """Round-trip time, one value per answered request."""
    lateness_ns: Histogram
    """Lateness of requests."""
    stamped: bool
    """Whether the kernel timestamped the arrival of answers."""
    slice_ns: Count
    """Length of a slice [ns]."""
    slices: tuple[Slice, ...]
    """Slices in time order."""


Found = TypeVar("Found", TransactionsReport, ProbesReport)


def requests_of(measure: RoundTrips, asking: Endpoint, answering: Endpoint) -> tuple[str | None, str]:
    """Return the request to the answering end (None if its kernel answers) and the request to the requesting end."""
    port = FIRST_PORT if measure.port is None else measure.port
    to: dict[str, Json] = {"source": asking.address, "address": answering.address, "port": port}
    timing: dict[str, Json] = {
        "warm_up_ns": measure.warm_up,
        "duration_ns": measure.duration,
        "slice_ns": measure.sample or SLICE_NS,
    }
    at: dict[str, Json] = {"address": answering.address, "port": port}
    match measure:
        case Ping():
            serve = {
                "protocol": "udp",
                **at,
                "threads": 1,
                "request_bytes": measure.size,
                "response_bytes": 0,
            }
            ask = {
                "program": "probes",
                "protocol": measure.protocol,
                **to,
                "interval_ns": measure.interval,
                "payload_bytes": measure.size,
                "wait_ns": measure.wait,
                **timing,
            }
            return (_text({"program": "serve", **serve}) if measure.protocol == "udp" else None), _text(ask)
        case RequestResponse():
            sizes = {"request_bytes": measure.request, "response_bytes": measure.response}
            serve = {"protocol": measure.protocol, **at, "threads": measure.connections, **sizes}
            ask = {
                "program": "transactions",
                "protocol": measure.protocol,
                **to,
                **sizes,
                "connections": measure.connections,
                "connect_each": measure.connect_each,
                "interval_ns": interval_ns(measure),
                "timeout_ns": measure.timeout * (TCP_PATIENCE if measure.protocol == "tcp" else 1),
                **timing,
            }
            return _text({"program": "serve", **serve}), _text(ask)
        case _:
            raise TypeError(type(measure).__name__)


def interval_ns(measure: RequestResponse) -> int:
    """Return the interval between requests of one connection [ns]; 0: the next request follows the response."""
    if measure.per_second is None:
        return 0
    return max(1, round(NS_PER_S * measure.connections / measure.per_second))


def parse_report(shape: type[Found], text: str) -> Found:
    """Return the report of a program. Raises ValueError with the reason if it is invalid."""
    return Encoding(shape).decode(text.strip().rpartition("\n")[2])


def _text(request: dict[str, Json]) -> str:
    return json.dumps(request, separators=(",", ":"))
