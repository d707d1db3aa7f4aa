"""Whether the sender of a stream ever had a connection to its receiver, by what its kernel told. Pure."""

from collections.abc import Sequence

from iolab.lab.kernels import HERE
from iolab.trial.measurement import Readings
from iolab.trial.streams.iperf3 import Pair


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
