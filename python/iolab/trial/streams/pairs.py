"""Which iperf3 pairs a stream measure needs: its flows and direction, placed on the lab's ports. Pure."""

from iolab.experiment.measures import Stream
from iolab.lab.topology import Topology
from iolab.trial.streams.iperf3 import Pair

FIRST_TCP_PORT = 5201
"""iperf3's own default; further pairs take the following ports."""


def place_pairs(measure: Stream, topology: Topology) -> tuple[Pair, ...]:
    """Return the pairs that run at the same time, in the order of the flows."""
    routes: list[tuple[str | None, str | None]] = [(flow.src, flow.dst) for flow in measure.flows]
    routes = routes or [(measure.src or measure.on, measure.dst)]
    if measure.direction == "dual":
        routes = [route for src, dst in routes for route in ((src, dst), (dst, src))]
    pairs = []
    first = FIRST_TCP_PORT if measure.port is None else measure.port
    for number, (src, dst) in enumerate(routes):
        assert src is not None, "the experiment was checked to name the sender"
        assert dst is not None, "the experiment was checked to name the receiver"
        pairs.append(
            Pair(
                client=topology.endpoint(src, towards=dst, ip=measure.ip),
                server=topology.endpoint(dst, towards=src, ip=measure.ip),
                tcp_port=first + number,
                bidir=measure.direction == "both-ways",
            )
        )
    return tuple(pairs)
