"""What is counted on several kernels: each port's counters are those of its own."""

import pytest

from iolab.agent.counters import DropCounters, InterfaceCounters, QdiscCounters
from iolab.agent.messages import Observation, Reading
from iolab.trial.counters.differences import Counted, Port, Snapshot


def reading(reason: str, frames: int, cpu_dropped: int) -> Reading:
    """Return what a kernel counted: drops for one reason, and frames that its CPU 0 had no room for."""
    row = DropCounters("reason", "", {reason: frames})
    softnet = ({"cpu": 0, "dropped": cpu_dropped},)
    seen = (
        Observation(sampler="drops", netns=None, begin_ns=0, end_ns=0, drops=(row,)),
        Observation(sampler="softnet", netns=None, begin_ns=0, end_ns=0, cpus=softnet),
    )
    return Reading(seen)


def test_a_guest_that_sends_is_not_taken_for_this_computer() -> None:
    """Both are read; each has its name."""
    ports = {"dut.eth0": Port("dut.eth0", None, "eth0", "dut"), "pc.eth0": Port("pc.eth0", None, "eth0")}
    before, after = (
        Snapshot(reading("NO_SOCKET", n, n), {}, {"": reading("CPU_BACKLOG", 3 * n, 3 * n)}, own="dut")
        for n in (1, 2)
    )
    counted = Counted(ports, before, after)
    assert counted.kernels() == ("dut", "")
    assert [counted.reasons(kernel) for kernel in counted.kernels()] == [{"NO_SOCKET": 1}, {"CPU_BACKLOG": 3}]
    assert [counted.backlogs(kernel) for kernel in counted.kernels()] == [{0: 1}, {0: 3}]
    assert counted.crosses("dut.eth0", "pc.eth0")


def test_counters_that_went_back_are_named_by_their_port() -> None:
    """An interface that was made again has counted less, one that is gone nothing; others count on."""

    def shown(**frames: int) -> Snapshot:
        rows = tuple(InterfaceCounters(name, 60 * n, n, 0, 0, 0, 0, 0, 0) for name, n in frames.items())
        seen = Observation(sampler="interfaces", netns=None, begin_ns=0, end_ns=0, interfaces=rows)
        return Snapshot(Reading((seen,)), {})

    ports = {f"dut.{name}": Port(f"dut.{name}", None, name) for name in ("eth0", "eth1", "eth2", "eth3")}
    counted = Counted(ports, shown(eth0=5, eth1=5, eth2=5), shown(eth0=9, eth1=2, eth3=1))
    assert counted.reset() == ("dut.eth1", "dut.eth2")


def test_a_queue_that_begins_again_counted_what_it_shows() -> None:
    """A queueing discipline that was replaced meanwhile begins at 0: no difference is negative."""
    ports = {"dut.eth1": Port("dut.eth1", "iolab-dut", "eth1")}

    def snapshot(packets: int, drops: int) -> Snapshot:
        row = QdiscCounters(
            "eth1", "1:", "root", drops=drops, kind="tbf", packets=packets, bytes=60 * packets
        )
        seen = Observation(sampler="qdiscs", netns="iolab-dut", begin_ns=0, end_ns=0, qdiscs=(row,))
        return Snapshot(Reading((seen,)), {})

    counted = Counted(ports, snapshot(1000, 50), snapshot(400, 7))
    assert counted.qdisc_drops("dut.eth1") == 7
    (row,) = counted.qdiscs("dut.eth1")
    assert (row.packets, row.bytes) == (400, 24_000)


@pytest.mark.parametrize(
    ("before", "after", "again"),
    [
        (("tbf", "8001:", 1000), ("tbf", "8001:", 1200), ()),
        (("tbf", "8001:", 1000), ("tbf", "8001:", 400), ("dut.eth1",)),
        (("tbf", "8001:", 1000), ("tbf", "8002:", 1200), ("dut.eth1",)),
        (("tbf", "8001:", 1000), ("noqueue", "0:", 0), ("dut.eth1",)),
        (("noqueue", "0:", 0), ("tbf", "8001:", 400), ()),
    ],
)
def test_a_queue_that_began_again_is_told_by_its_port(
    before: tuple[str, str, int], after: tuple[str, str, int], again: tuple[str, ...]
) -> None:
    """What it had dropped before is not known, unless there was no queue."""
    ports = {"dut.eth1": Port("dut.eth1", "iolab-dut", "eth1")}

    def snapshot(kind: str, handle: str, packets: int) -> Snapshot:
        row = QdiscCounters("eth1", handle, "root", drops=0, kind=kind, packets=packets)
        seen = Observation(sampler="qdiscs", netns="iolab-dut", begin_ns=0, end_ns=0, qdiscs=(row,))
        return Snapshot(Reading((seen,)), {})

    assert Counted(ports, snapshot(*before), snapshot(*after)).begun_again() == again
