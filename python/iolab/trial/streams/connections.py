"""What the senders' kernels report of a stream's connections. Pure.

Whether any stood, what controlled their congestion, and what was in flight: sent and not acknowledged.
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from iolab.agent.messages import Reading
from iolab.experiment.model.measures import Stream
from iolab.lab.kernels import HERE
from iolab.lab.topology import Endpoint
from iolab.messages.warnings import CongestionDiffers
from iolab.results.metric import Metric
from iolab.trial.measurement import Readings
from iolab.trial.streams.iperf3 import Pair
from iolab.trial.streams.iperf3_report import Report

SENDING_RATIO = 0.1
"""A flow that sends less than this part of its mean has ended."""


def in_flight(
    flows: Sequence[tuple[Endpoint, int, bool]],
    connections: Mapping[str, Sequence[Reading]],
    duration_ns: int,
) -> Iterator[Metric]:
    """Yield the mean of what was in flight, of all flows together, over the last `duration_ns` in which they sent.

    A flow is its sender, the port of its server, and whether the sender is the client. Nothing is said where a kernel
    tells nothing.
    """
    found = [_mean_bytes(connections, *flow, duration_ns) for flow in flows]
    if found and all(found):
        yield Metric.of("in_flight_bytes", sum(found))


def _mean_bytes(
    connections: Mapping[str, Sequence[Reading]], source: Endpoint, port: int, forth: bool, duration_ns: int
) -> float:
    """Return the mean over the readings in which the flow had something in flight, and sent."""
    seen: list[_Moment] = []
    for reading in connections.get(source.kernel, connections.get(HERE, ())):
        for one in reading.observations:
            if one.netns == source.netns:
                rows = [row for row in one.sockets if port == (row.remote_port if forth else row.local_port)]
                amounts = (sum(row.in_flight_bytes for row in rows), sum(row.sent_bytes for row in rows))
                seen.append(_Moment(one.begin_ns, *amounts))
    moments = _sending([one for one in seen if one.in_flight_bytes])
    if not moments:
        return 0.0
    first_ns = moments[-1].at_ns - duration_ns
    return statistics.fmean(one.in_flight_bytes for one in moments if one.at_ns >= first_ns)


@dataclass(frozen=True, slots=True)
class _Moment:
    """What a flow's connections told together."""

    at_ns: int
    in_flight_bytes: int
    sent_bytes: int
    """Until then; 0: the kernel does not tell."""


def _sending(moments: list[_Moment]) -> list[_Moment]:
    """Return the moments up to the last in which the flow still sent.

    What is on its way then drains, and the control connection goes on: on a long path both last for round trips.
    """
    steps = [max(0, two.sent_bytes - one.sent_bytes) for one, two in pairwise(moments)]
    if not any(steps):
        return moments
    least = SENDING_RATIO * statistics.fmean(steps)
    last = max(place for place, step in enumerate(steps, 1) if step >= least)
    return moments[: last + 1]


def other_congestion(
    measure: Stream, pairs: Sequence[Pair], reports: Sequence[tuple[Report, Report]]
) -> Iterator[CongestionDiffers]:
    """Yield each sender at which something else did; iperf3 reads it from the socket that sent."""
    if measure.congestion is None:
        return
    told: set[tuple[str, str]] = set()
    for pair, (client, server) in zip(pairs, reports, strict=True):
        for end, report in ((pair.client, client), (pair.server, server))[: 2 if pair.bidir else 1]:
            seen = report.end.sender_tcp_congestion
            if seen is not None and seen != measure.congestion and (end.machine, seen) not in told:
                told.add((end.machine, seen))
                yield CongestionDiffers(machine=end.machine, asked=measure.congestion, seen=seen)


def unconnected(pairs: Sequence[Pair], connections: Readings) -> Pair | None:
    """Return the first pair without any connection at its sender; None: each had one, or nothing was read of it."""
    for pair in pairs:
        readings = connections.get(pair.client.kernel, connections.get(HERE, ()))
        rows = [
            row
            for reading in readings
            for one in reading.observations
            if one.netns == pair.client.netns
            for row in one.sockets
        ]
        if readings and all(row.remote_port != pair.tcp_port for row in rows):
            return pair
    return None
