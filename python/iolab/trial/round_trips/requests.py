"""What is asked of the agent's round-trip programs (contract/roundtrip-v1.md), and their reports, checked. Pure."""

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
"""Where the answering end listens, where nothing else is said."""
TCP_PATIENCE = 10
"""TCP sends again what was lost: its responses have so many times as long."""
SLICE_NS = 100_000_000
"""Of the series, where counters are not read; else it is their period."""


@dataclass(frozen=True, slots=True)
class Slice:
    """One slice of the reported time."""

    count: Count
    """Round trips that ended in it."""
    sum_ns: Count
    """All of their times together [ns]."""
    max_ns: Count
    """The longest [ns]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsReport:
    """Transactions, without the warm-up."""

    begin_ns: Count
    """When the reported time began [ns]."""
    duration_ns: Count
    """How long it was [ns]."""
    transactions: Count
    """That ended."""
    lost: Count
    """UDP: requests without a response in time."""
    late: Count
    """UDP: responses after their time."""
    unsent: Count
    """Intended requests that had not left at the end."""
    latency_ns: Histogram
    """A value for each transaction."""
    connect_ns: Histogram
    """Until a connection was there."""
    slice_ns: Count
    """Length of a slice [ns]."""
    slices: tuple[Slice, ...]
    """Over time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbesReport:
    """Echoes, without the warm-up."""

    begin_ns: Count
    """When the reported time began [ns]."""
    sent: Count
    """Requests that left."""
    unsent: Count
    """Requests left out: this end was held up."""
    refused: Count
    """Requests that this end's kernel did not take."""
    received: Count
    """Requests that were answered."""
    duplicate: Count
    """Answers to what had been answered."""
    reordered: Count
    """Answers after that of a later request."""
    rtt_ns: Histogram
    """A value for each that was answered."""
    lateness_ns: Histogram
    """How late requests left."""
    stamped: bool
    """Whether the kernel said when answers arrived."""
    slice_ns: Count
    """Length of a slice [ns]."""
    slices: tuple[Slice, ...]
    """Over time."""


Found = TypeVar("Found", TransactionsReport, ProbesReport)


def requests_of(measure: RoundTrips, asking: Endpoint, answering: Endpoint) -> tuple[str | None, str]:
    """Return what the answering end is asked for, None where its kernel answers, and what the asking end is."""
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
            raise TypeError(f"{type(measure).__name__} makes no round trips")


def interval_ns(measure: RequestResponse) -> int:
    """Return how far apart the requests of one connection are meant to leave [ns]; 0: as responses come."""
    if measure.per_second is None:
        return 0
    return max(1, round(NS_PER_S * measure.connections / measure.per_second))


def parse_report(shape: type[Found], text: str) -> Found:
    """Return the report that a program wrote. Raises ValueError: it is none; the message says why."""
    return Encoding(shape).decode(text.strip().rpartition("\n")[2])


def _text(request: dict[str, Json]) -> str:
    return json.dumps(request, separators=(",", ":"))
