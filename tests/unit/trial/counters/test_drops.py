"""Drop reasons and counters of several kernels: they explain lost test frames where their counts allow it."""

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
def test_drop_reason_whose_count_equals_the_missing_frames_explains_these_frames(
    reasons: dict[str, int], named: Sure
) -> None:
    """Accept one reason for 400 missing frames, or all together; name none if several fit."""
    found = explain(400, reasons)
    assert found == tuple(Named(*one) for one in named)


@pytest.mark.parametrize(("count", "frames"), [(5000, 400), (450, 400), (300, 300)])
def test_drop_reason_with_a_different_count_is_named_with_doubt(count: int, frames: int) -> None:
    """Allow for a foreign rule that dropped as many."""
    (found,) = explain(400, {"NETFILTER_DROP": count, "FULL_RING": 60})
    assert (found.reason, found.frames) == ("NETFILTER_DROP", frames)
    assert f"counted {count} drops for NETFILTER_DROP, but 400 frames are missing" in in_words(found.doubt)


def test_one_drop_reason_may_explain_losses_of_two_directions() -> None:
    """Count a rule for both directions once, and distinguish two rules by their counts."""
    assert share_out([389, 406], {"NETFILTER_DROP": 795, "OTHERHOST": 3000}) == (
        (Named("NETFILTER_DROP", 389),),
        (Named("NETFILTER_DROP", 406),),
    )
    assert share_out([400, 1000], {"NETFILTER_DROP": 400, "IP_INNOROUTES": 1000}) == (
        (Named("NETFILTER_DROP", 400),),
        (Named("IP_INNOROUTES", 1000),),
    )


def test_copies_to_the_receivers_stack_are_subtracted_from_the_count_of_the_drop_reason() -> None:
    """Reduce the most frequent reason if the device drops more frames than arrive."""
    seen = {"IP_INNOROUTES": 600, "IP_LOCAL_SOURCE": 401, "NETFILTER_DROP": 400}
    assert without_copies(seen, 400) == {"IP_INNOROUTES": 600, "IP_LOCAL_SOURCE": 1, "NETFILTER_DROP": 400}
    assert without_copies({"NO_SOCKET": 350, "IP_LOCAL_SOURCE": 50}, 400) == {
        "NO_SOCKET": 0,
        "IP_LOCAL_SOURCE": 0,
    }
    assert without_copies({"NETFILTER_DROP": 400}, 400) == {"NETFILTER_DROP": 400}


def test_full_ring_drops_are_not_subtracted_from_netfilter_drops() -> None:
    """Keep netfilter's name, because a full veth ring has no reason."""
    rings = [Drop(AtPort(port="dut.eth0"), RING_FULL, 100)]
    assert beyond({"": {"NETFILTER_DROP": 200, "NOT_SPECIFIED": 100}}, rings) == {
        "": {"NETFILTER_DROP": 200, "NOT_SPECIFIED": 0}
    }
    assert beyond({"": {"NETFILTER_DROP": 200, "NOT_SPECIFIED": 30}}, rings) == {
        "": {"NETFILTER_DROP": 200, "NOT_SPECIFIED": 0}
    }


STAGES = Path(__file__).parents[4] / "crates" / "protocol" / "src" / "impairment.rs"
LOSE_NOTHING = {"corrupt", "duplicate", "reorder", "delay", "stall"}


def test_every_agent_stage_that_loses_frames_has_a_drop_reason() -> None:
    """Prevent a new stage without a reason, which would fail every lossy trial."""
    kinds = {"codel", *re.findall(r'Self::\w+ \{ \.\. \} => "(\w+)"', STAGES.read_text())}
    assert {"line", "pacer"} <= kinds
    assert LOST_BY.keys() == kinds - LOSE_NOTHING


def reading(reason: str, frames: int, cpu_dropped: int) -> Reading:
    """Return a kernel's counts: drops for one reason, and backlog drops of its CPU 0."""
    row = DropCounters("reason", "", {reason: frames})
    softnet = ({"cpu": 0, "dropped": cpu_dropped},)
    seen = (
        Observation(sampler="drops", netns=None, begin_ns=0, end_ns=0, drops=(row,)),
        Observation(sampler="softnet", netns=None, begin_ns=0, end_ns=0, cpus=softnet),
    )
    return Reading(seen)


def test_counters_of_a_guest_and_of_the_local_host_are_kept_apart() -> None:
    """Read both, with separate names."""
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


def test_reset_interface_counters_are_reported_with_their_port() -> None:
    """Detect a recreated interface, and a missing one."""

    def shown(**frames: int) -> Snapshot:
        rows = tuple(InterfaceCounters(name, 60 * n, n, 0, 0, 0, 0, 0, 0) for name, n in frames.items())
        seen = Observation(sampler="interfaces", netns=None, begin_ns=0, end_ns=0, interfaces=rows)
        return Snapshot(Reading((seen,)), {})

    ports = {f"dut.{name}": Port(f"dut.{name}", None, name) for name in ("eth0", "eth1", "eth2", "eth3")}
    counted = Counted(ports, shown(eth0=5, eth1=5, eth2=5), shown(eth0=9, eth1=2, eth3=1))
    assert counted.reset() == ("dut.eth1", "dut.eth2")


def test_difference_of_a_reset_qdisc_counter_is_its_new_value() -> None:
    """Give no negative difference for a replaced qdisc."""
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
def test_reset_qdisc_counters_are_reported_with_their_port(
    before: tuple[str, str, int], after: tuple[str, str, int], again: tuple[str, ...]
) -> None:
    """Treat its earlier drops as unknown, unless there was no queue."""
    ports = {"dut.eth1": Port("dut.eth1", "iolab-dut", "eth1")}

    def snapshot(kind: str, handle: str, packets: int) -> Snapshot:
        row = zeros(
            QdiscCounters, interface="eth1", handle=handle, parent="root", drops=0, kind=kind, packets=packets
        )
        seen = Observation(sampler="qdiscs", netns="iolab-dut", begin_ns=0, end_ns=0, qdiscs=(row,))
        return Snapshot(Reading((seen,)), {})

    assert Counted(ports, snapshot(*before), snapshot(*after)).begun_again() == again
