"""The kernel's counters and TCP's own state of a stream: CPU shares, bytes, and the window in flight."""

from dataclasses import replace

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


def test_headers_are_taken_off_before_comparing() -> None:
    """A million bytes in 100 TCP packets of 66 bytes of headers each agree exactly."""
    found = arrivals("tcp", [FLOW], counted(0, 0), counted(1_000_000 + 6600, 100))
    assert found == (Arrival("far.eth0", 1_000_000, 1_000_000),)
    assert disagreements("tcp", found) == ()


@pytest.mark.parametrize(
    ("extra", "warned"), [(9_000, False), (11_000, True), (-9_000, False), (-11_000, True)]
)
def test_more_than_one_percent_apart_is_warned(extra: int, warned: bool) -> None:
    """In either direction."""
    found = arrivals("udp", [FLOW], counted(5, 5), counted(5 + 1_000_000 + extra + 4200, 105))
    assert [warning.code for warning in disagreements("udp", found)] == (
        ["counters-disagree"] if warned else []
    )


def test_flows_to_one_interface_are_compared_together() -> None:
    """Two flows of half the bytes are one interface's count."""
    half = replace(FLOW, delivered_bytes=500_000)
    found = arrivals("tcp", [half, half], counted(0, 0), counted(1_000_000, 0))
    assert disagreements("tcp", found) == ()


@pytest.mark.parametrize(
    ("loss", "counted_bytes", "unread"),
    [
        (0.5, 1000, 0.5),  # of 1000 sent all arrived, 500 were read
        (0.5, 750, 0.25),  # half of what was lost had arrived
        (0.5, 500, 0.0),
        (0.1, 1000, 0.1),  # a count that takes in other traffic never makes it more than all that was lost
        (0.5, 490, 0.0),
    ],
)
def test_loss_behind_the_receiving_interface_is_told_from_loss_on_the_way(
    loss: float, counted_bytes: int, unread: float
) -> None:
    """Five hundred bytes were read; the shares are of what was sent."""
    (metric,) = unread_metric(loss, [Arrival("far.eth0", counted_bytes, 500)])
    assert metric.name == "unread_ratio"
    assert metric.value == pytest.approx(unread)


def test_where_datagrams_were_lost_is_not_told_without_counters_or_datagrams() -> None:
    """No figure is better than a made-up one."""
    assert unread_metric(0.5, [Arrival("far.eth0", None, 500)]) == ()
    assert unread_metric(1.0, [Arrival("far.eth0", 500, 0)]) == ()


def test_busy_and_stolen_time_are_shares_of_all_cpus() -> None:
    """Two CPUs for one second each: one half busy of which a tenth was stolen, the other idle."""
    before = cpu({}, {})
    after = cpu({"user": 300, "softirq": 100, "steal": 100, "idle": 500}, {"idle": 900, "iowait": 100})
    metrics = Metrics(cpu_metrics(before, after))
    assert metrics["host_cpu_ratio"].value == pytest.approx(0.25)
    assert metrics["host_steal_ratio"].value == pytest.approx(0.05)


def reading(at_s: int, *amounts: int, port: int = 5201) -> Reading:
    """Return what connections to a port had in flight at a moment."""
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
