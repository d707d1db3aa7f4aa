"""Kernel counters and TCP state of a stream: CPU shares, bytes, and the window in flight."""

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest
from tests.unit.trial.zeros import zeros

from iolab.agent.answers import Observation, Reading
from iolab.agent.messages import InterfaceCounters, SocketCounters
from iolab.lab.kernels import HERE
from iolab.lab.topology import Endpoint
from iolab.results.metric import Metrics
from iolab.trial.streams.figures import Arrival, arrivals, cpu_metrics, disagreements, unread_metric
from iolab.trial.streams.iperf3_report import FlowReport
from iolab.trial.streams.kernels import in_flight
from iolab.trial.streams.observe import Observed, connections_of

NEAR = Endpoint("near", "eth0", "iolab-near", "eth0", "198.18.0.1", 24)
FAR = Endpoint("far", "eth0", "iolab-far", "eth0", "198.18.0.2", 24)
FLOW = FlowReport(
    src=NEAR,
    dst=FAR,
    sent_bps=1e9,
    received_bps=1e9,
    delivered_bytes=1_000_000,
    handed_bytes=1_000_000,
    datagrams=0,
    lost_datagrams=0,
    jitter_ns=None,
    retransmits=0,
    rtt_mean_ns=None,
    cpu_src_ratio=0.5,
    cpu_dst_ratio=0.5,
)


def counted(rx_bytes: int, rx_packets: int) -> Reading:
    """Return a reading of far's interface."""
    row = InterfaceCounters("eth0", rx_bytes, rx_packets, 0, 0, 0, 0, 0, 0)
    seen = Observation(sampler="interfaces", netns="iolab-far", begin_ns=0, end_ns=1, interfaces=(row,))
    return Reading((seen,))


def cpu(*rows: dict[str, int]) -> Reading:
    """Return a reading of CPU times, zero where not given."""
    classes = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice")
    full = tuple(
        {"cpu": n, **{f"{name}_ns": row.get(name, 0) for name in classes}} for n, row in enumerate(rows)
    )
    return Reading((Observation(sampler="cpu", begin_ns=0, end_ns=1, cpus=full),))


def test_packet_headers_are_subtracted_before_bytes_are_compared() -> None:
    """Subtract 66 bytes for each of 100 TCP packets."""
    found = arrivals("tcp", [FLOW], counted(0, 0), counted(1_000_000 + 6600, 100))
    assert found == (Arrival("far.eth0", 1_000_000, 1_000_000),)
    assert disagreements("tcp", found) == ()


@pytest.mark.parametrize(
    ("extra", "warned"), [(9_000, False), (11_000, True), (-9_000, False), (-11_000, True)]
)
def test_byte_difference_of_more_than_1_percent_gives_a_warning(extra: int, warned: bool) -> None:
    """Check both signs."""
    found = arrivals("udp", [FLOW], counted(5, 5), counted(5 + 1_000_000 + extra + 4200, 105))
    assert [warning.code for warning in disagreements("udp", found)] == (
        ["counters-disagree"] if warned else []
    )


def test_bytes_of_flows_to_one_interface_are_compared_as_a_sum() -> None:
    """Check two flows with half the bytes each."""
    half = replace(FLOW, delivered_bytes=500_000)
    found = arrivals("tcp", [half, half], counted(0, 0), counted(1_000_000, 0))
    assert disagreements("tcp", found) == ()


@pytest.mark.parametrize(
    ("loss", "counted_bytes", "unread"),
    [
        (0.5, 1000, 0.5),  # all of 1000 sent datagrams arrived, 500 were read
        (0.5, 750, 0.25),  # half of the lost datagrams had arrived
        (0.5, 500, 0.0),
        (0.1, 1000, 0.1),  # a count that includes other traffic never exceeds all that was lost
        (0.5, 490, 0.0),
    ],
)
def test_loss_behind_the_receiving_interface_is_distinguished_from_loss_in_transit(
    loss: float, counted_bytes: int, unread: float
) -> None:
    """Check five hundred read bytes; shares are of sent ones."""
    (metric,) = unread_metric(loss, [Arrival("far.eth0", counted_bytes, 500)])
    assert metric.name == "unread_ratio"
    assert metric.value == pytest.approx(unread)


def test_place_of_datagram_loss_is_unknown_without_counters_or_datagrams() -> None:
    """Give no figure."""
    assert unread_metric(0.5, [Arrival("far.eth0", None, 500)]) == ()
    assert unread_metric(1.0, [Arrival("far.eth0", 500, 0)]) == ()


def test_cpu_busy_and_steal_time_are_shares_of_all_cpus() -> None:
    """Check two CPUs for one second: one half busy with a tenth of it steal, the other idle."""
    before = cpu({}, {})
    after = cpu({"user": 300, "softirq": 100, "steal": 100, "idle": 500}, {"idle": 900, "iowait": 100})
    metrics = Metrics(cpu_metrics(before, after))
    assert metrics["host_cpu_ratio"].value == pytest.approx(0.25)
    assert metrics["host_steal_ratio"].value == pytest.approx(0.05)


def reading(at_s: int, *amounts: int, port: int = 5201) -> Reading:
    """Return the bytes in flight of connections to a port at a moment."""
    sockets = tuple(
        zeros(SocketCounters, local_port=40000 + place, remote_port=port, in_flight_bytes=amount)
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


def test_window_in_flight_excludes_the_warm_up() -> None:
    """Add two connections; skip readings outside the stream."""
    readings = (reading(0), reading(1, 10, 10), reading(3, 1000, 500), reading(4, 2000, 500), reading(5, 0))
    (metric,) = in_flight([(NEAR, 5201, True)], {HERE: readings}, 10**9)
    assert (metric.name, metric.unit, metric.value) == ("in_flight_bytes", "byte", 2000.0)


def test_window_in_flight_excludes_draining_and_control_connections() -> None:
    """Exclude the control connection of the programs."""
    told = [(1, 1000, 10_000), (2, 1000, 20_000), (3, 1000, 30_000), (4, 400, 30_000), (5, 10, 30_100)]
    readings = tuple(
        replace(one, observations=(replace(seen, sockets=(replace(seen.sockets[0], sent_bytes=sent),)),))
        for at, amount, sent in told
        for one in [reading(at, amount)]
        for seen in one.observations
    )
    (metric,) = in_flight([(NEAR, 5201, True)], {HERE: readings}, 2 * 10**9)
    assert metric.value == 1000.0


def test_without_kernel_data_there_is_no_window_metric() -> None:
    """Ignore connections of a different server."""
    assert list(in_flight([(NEAR, 5201, True)], {HERE: (reading(1, 0),)}, 10**9)) == []
    assert list(in_flight([(NEAR, 5201, True)], {HERE: (reading(1, 9, port=5202),)}, 10**9)) == []


def test_mean_congestion_window_excludes_the_warm_up() -> None:
    """Let the window be 10 kB in slow start, and 1 MB in the 2 s after it."""
    told = [(1, 10_000, 10_000), (2, 10_000, 20_000), (3, 1_000_000, 10**6), (4, 1_000_000, 2 * 10**6)]
    readings = tuple(
        replace(one, observations=(replace(seen, sockets=(grown,)),))
        for at, window, sent in told
        for one in [reading(at, 1000)]
        for seen in one.observations
        for grown in [replace(seen.sockets[0], window_bytes=window, sent_bytes=sent, rtt_ns=at * 10**6)]
    )
    measure = SimpleNamespace(warm_up=2 * 10**9)
    seen = cast("Observed", SimpleNamespace(connections={HERE: readings}, measure=measure))
    found = connections_of(seen, NEAR, FAR, 5201, forth=True)
    assert found is not None
    assert (found.mean_window_bytes, found.mean_rtt_ns) == (1_000_000, 3_500_000)
    assert found.sent_bytes == 2 * 10**6
