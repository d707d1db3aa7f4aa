"""What was in flight of a stream: sent and not acknowledged, as the sender's TCP told again and again."""

from collections.abc import Iterator, Mapping, Sequence

from iolab.agent.messages import Reading
from iolab.lab.kernels import HERE
from iolab.lab.topology import Endpoint
from iolab.record.metric import Metric


def in_flight(
    flows: Sequence[tuple[Endpoint, int, bool]],
    connections: Mapping[str, Sequence[Reading]],
    duration_ns: int,
) -> Iterator[Metric]:
    """Yield the mean of what was in flight, of all flows together, over the last `duration_ns`.

    A flow is its sender, the port of its server, and whether the sender is the client. Nothing is said where a kernel
    tells nothing.
    """
    found = [_mean_bytes(connections, *flow, duration_ns) for flow in flows]
    if found and all(found):
        yield Metric("in_flight_bytes", "byte", sum(found))


def _mean_bytes(
    connections: Mapping[str, Sequence[Reading]], source: Endpoint, port: int, forth: bool, duration_ns: int
) -> float:
    """Return the mean over the readings in which the flow had something in flight."""
    seen: list[tuple[int, int]] = []
    for reading in connections.get(source.kernel, connections.get(HERE, ())):
        for one in reading.observations:
            if one.netns == source.netns:
                rows = (row for row in one.sockets if port == (row.remote_port if forth else row.local_port))
                seen.append((one.begin_ns, sum(row.in_flight_bytes for row in rows)))
    moments = [(at_ns, amount) for at_ns, amount in seen if amount]
    if not moments:
        return 0.0
    first_ns = moments[-1][0] - duration_ns
    late = [amount for at_ns, amount in moments if at_ns >= first_ns]
    return sum(late) / len(late)
