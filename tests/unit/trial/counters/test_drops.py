"""Drop reasons and counters of several kernels: they explain frames of ours where their counts allow it."""

import re
from pathlib import Path

import pytest
from tests.unit.trial.zeros import zeros
from tests.wording import in_words

from iolab.agent.answers import Observation, Reading
from iolab.agent.messages import DropCounters, InterfaceCounters, QdiscCounters
from iolab.messages.places import AtPort
from iolab.results.packets import Drop
from iolab.trial.counters.differences import Counted, Port, Snapshot
from iolab.trial.counters.drops import LOST_BY, RING_FULL, Named, beyond, explain, share_out, without_copies

Sure = tuple[tuple[str, int], ...]


@pytest.mark.parametrize(
    ("reasons", "named"),
    [
        ({"NETFILTER_DROP": 400}, (("NETFILTER_DROP", 400),)),
        ({"NETFILTER_DROP": 409, "IP_LOCAL_SOURCE": 40_000, "FULL_RING": 7}, (("NETFILTER_DROP", 400),)),
        ({"IP_INNOROUTES": 300, "NETFILTER_DROP": 100}, (("IP_INNOROUTES", 300), ("NETFILTER_DROP", 100))),
        ({"NETFILTER_DROP": 400, "FULL_RING": 398}, ()),
        ({"NETFILTER_DROP": 4000, "FULL_RING": 900}, ()),
        ({"NETFILTER_DROP": 150}, ()),
        ({}, ()),
    ],
)
def test_a_reason_with_the_count_of_what_is_missing_is_its_own(reasons: dict[str, int], named: Sure) -> None:
    """400 are missing: one reason fits, or all together do; where several could be theirs none is named."""
    found = explain(400, reasons)
    assert found == tuple(Named(*one) for one in named)


@pytest.mark.parametrize(("count", "frames"), [(5000, 400), (450, 400), (300, 300)])
def test_a_reason_with_another_count_is_named_in_doubt(count: int, frames: int) -> None:
    """A rule of somebody else may have dropped as many."""
    (found,) = explain(400, {"NETFILTER_DROP": count, "FULL_RING": 60})
    assert (found.reason, found.frames) == ("NETFILTER_DROP", frames)
    assert f"counted {count} drops for NETFILTER_DROP, but 400 frames are missing" in in_words(found.doubt)


def test_one_reason_may_be_that_of_two_directions() -> None:
    """A rule that drops both ways is counted once; rules of two directions differ by their counts."""
    assert share_out([389, 406], {"NETFILTER_DROP": 795, "OTHERHOST": 3000}) == (
        (Named("NETFILTER_DROP", 389),),
        (Named("NETFILTER_DROP", 406),),
    )
    assert share_out([400, 1000], {"NETFILTER_DROP": 400, "IP_INNOROUTES": 1000}) == (
        (Named("NETFILTER_DROP", 400),),
        (Named("IP_INNOROUTES", 1000),),
    )


def test_what_a_stack_got_beside_a_receiver_is_taken_from_the_reason_with_that_count() -> None:
    """A device that drops more than arrives has the most frequent reason; flows may have several in the stack."""
    seen = {"IP_INNOROUTES": 600, "IP_LOCAL_SOURCE": 401, "NETFILTER_DROP": 400}
    assert without_copies(seen, 400) == {"IP_INNOROUTES": 600, "IP_LOCAL_SOURCE": 1, "NETFILTER_DROP": 400}
    assert without_copies({"NO_SOCKET": 350, "IP_LOCAL_SOURCE": 50}, 400) == {
        "NO_SOCKET": 0,
        "IP_LOCAL_SOURCE": 0,
    }
    assert without_copies({"NETFILTER_DROP": 400}, 400) == {"NETFILTER_DROP": 400}


def test_a_full_ring_takes_no_frames_from_a_rule() -> None:
    """veth gives a full ring no reason of its own: what netfilter dropped beside it keeps its name, however much."""
    rings = [Drop(AtPort(port="dut.eth0"), RING_FULL, 100)]
    assert beyond({"": {"NETFILTER_DROP": 200, "NOT_SPECIFIED": 100}}, rings) == {
        "": {"NETFILTER_DROP": 200, "NOT_SPECIFIED": 0}
    }
    assert beyond({"": {"NETFILTER_DROP": 200, "NOT_SPECIFIED": 30}}, rings) == {
        "": {"NETFILTER_DROP": 200, "NOT_SPECIFIED": 0}
    }


STAGES = Path(__file__).parents[4] / "crates" / "protocol" / "src" / "impairment.rs"
LOSE_NOTHING = {"corrupt", "duplicate", "reorder", "delay", "stall"}


def test_every_kind_of_stage_of_the_agent_has_the_reason_of_its_losses() -> None:
    """A kind that is added there and forgotten here would fail every trial in which it loses a frame."""
    kinds = {"codel", *re.findall(r'Self::\w+ \{ \.\. \} => "(\w+)"', STAGES.read_text())}
    assert {"line", "pacer"} <= kinds
    assert LOST_BY.keys() == kinds - LOSE_NOTHING


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
        row = zeros(
            QdiscCounters,
            interface="eth1",
            handle="1:",
            parent="root",
            drops=drops,
            kind="tbf",
            packets=packets,
            bytes=60 * packets,
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
        row = zeros(
            QdiscCounters, interface="eth1", handle=handle, parent="root", drops=0, kind=kind, packets=packets
        )
        seen = Observation(sampler="qdiscs", netns="iolab-dut", begin_ns=0, end_ns=0, qdiscs=(row,))
        return Snapshot(Reading((seen,)), {})

    assert Counted(ports, snapshot(*before), snapshot(*after)).begun_again() == again
