"""Round trips: request and response, and echoes."""

from typing import Annotated, Literal

from pydantic import Field

from iolab.experiment.measures import Measure
from iolab.experiment.quantities import Count, Flag, Maybe, Nanoseconds, SomeInterval, SomeNanoseconds

MOST_BYTES = 16 << 20
"""Of a request or response over TCP."""
Payload = Annotated[int, Field(ge=24, le=65_507, strict=True)]
"""Behind the header of ICMP or UDP [bytes]."""
Port = Annotated[int, Field(ge=1, le=65_000, strict=True)]
"""Of TCP or UDP."""


class RoundTrips(Measure):
    """What both kinds have in common."""

    src: str = Field(alias="from")
    """Who asks: a machine, or machine.port."""
    dst: str = Field(alias="to")
    """Who answers: a machine, or machine.port."""
    duration: SomeNanoseconds = 10_000_000_000
    """Of the measurement."""
    warm_up: Nanoseconds = 0
    """Left out of the result, before `duration`."""
    ip: Maybe[Literal[4, 6]] = None
    """Version of IP, where links have both; absent: the one they have, of both 4."""
    port: Maybe[Port] = None
    """Where the answering end listens; absent: 5801, of several at once the second 5802, and so on."""


class Ping(RoundTrips):
    """Echo requests at equal distances, answered or not: round-trip times and loss of a path."""

    kind: Literal["ping"]
    """What is measured."""
    protocol: Literal["icmp", "udp"] = "icmp"
    """icmp: the kernel of the other end answers. udp: a program there does."""
    interval: SomeInterval = 1_000_000
    """From one request to the next."""
    size: Payload = 56
    """Payload behind the header of ICMP or UDP [bytes]."""
    wait: SomeNanoseconds = 1_000_000_000
    """How long an answer may take, after the last request."""


class RequestResponse(RoundTrips):
    """Transactions: a request, its response, the next request."""

    kind: Literal["rr"]
    """What is measured."""
    protocol: Literal["tcp", "udp"] = "tcp"
    """What carries them."""
    connections: Count = Field(default=1, ge=1, le=256)
    """Each has one request under way at a time, and a thread at both ends."""
    request: Annotated[int, Field(ge=1, le=MOST_BYTES, strict=True)] = 64
    """Of a request; over UDP from 24 to 65507 [bytes]."""
    response: Annotated[int, Field(ge=1, le=MOST_BYTES, strict=True)] = 64
    """Of a response; over UDP from 24 to 65507 [bytes]."""
    connect_each: Flag = False
    """Open a connection for each request (TCP)."""
    per_second: Maybe[Annotated[int, Field(ge=1, le=10_000_000, strict=True)]] = None
    """Intended transactions of all connections together; latency then counts from the time that each was meant for.
    Absent: as fast as responses come."""
    timeout: SomeNanoseconds = 1_000_000_000
    """A response that takes longer is lost (UDP), or fails the trial (TCP, after ten times as long)."""
