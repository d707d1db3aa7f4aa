"""The window in flight: the mean of what TCP told, over the time that counts."""

from dataclasses import replace

from iolab.agent.counters import SocketCounters
from iolab.agent.messages import Observation, Reading
from iolab.lab.kernels import HERE
from iolab.lab.topology import Endpoint
from iolab.trial.streams.connections import in_flight

NEAR = Endpoint("near", "eth0", "iolab-near", "eth0", "198.18.0.1", 24)


def reading(at_s: int, *amounts: int, port: int = 5201) -> Reading:
    """Return what connections to a port had in flight at a moment."""
    sockets = tuple(
        SocketCounters(local_port=40000 + place, remote_port=port, in_flight_bytes=amount)
        for place, amount in enumerate(amounts)
    )
    at_ns = at_s * 10**9
    return Reading(
        (
            Observation(
                sampler="sockets", netns="iolab-near", begin_ns=at_ns, end_ns=at_ns + 1, sockets=sockets
            ),
        )
    )


def test_what_was_in_flight_in_the_warm_up_does_not_count() -> None:
    """Two connections are added up; readings without anything in flight are before and after the stream."""
    readings = (reading(0), reading(1, 10, 10), reading(3, 1000, 500), reading(4, 2000, 500), reading(5, 0))
    (metric,) = in_flight([(NEAR, 5201, True)], {HERE: readings}, 10**9)
    assert (metric.name, metric.unit, metric.value) == ("in_flight_bytes", "byte", 2000.0)


def test_what_drains_after_the_end_does_not_count() -> None:
    """Nor does the connection on which the programs then talk."""
    told = [(1, 1000, 10_000), (2, 1000, 20_000), (3, 1000, 30_000), (4, 400, 30_000), (5, 10, 30_100)]
    readings = tuple(
        replace(one, observations=(replace(seen, sockets=(replace(seen.sockets[0], sent_bytes=sent),)),))
        for at, amount, sent in told
        for one in [reading(at, amount)]
        for seen in one.observations
    )
    (metric,) = in_flight([(NEAR, 5201, True)], {HERE: readings}, 2 * 10**9)
    assert metric.value == 1000.0


def test_nothing_is_said_where_the_kernel_tells_nothing() -> None:
    """Neither of another server's connection."""
    assert list(in_flight([(NEAR, 5201, True)], {HERE: (reading(1, 0),)}, 10**9)) == []
    assert list(in_flight([(NEAR, 5201, True)], {HERE: (reading(1, 9, port=5202),)}, 10**9)) == []
