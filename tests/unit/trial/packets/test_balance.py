"""Balance sheets: every missing frame is named once, at its place, or called unexplained."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.trial.sheets import PORTS, RECEIVED, SENT, WAY, stall
from tests.unit.trial.zeros import zeros
from tests.wording import in_words

from iolab.agent.answers import Observation, Reading
from iolab.agent.messages import (
    DeviceCounts,
    DropCounters,
    InterfaceCounters,
    QdiscCounters,
    ReceiverReport,
    SenderReport,
    SocketCounts,
)
from iolab.agent.traffic import TrafficRan
from iolab.messages.drop_reasons import (
    KernelDropped,
    LostBetween,
    NeverRead,
    NotPassedOn,
    NotPassedOnFor,
)
from iolab.messages.places import AtDevice, AtPort, PlainPlace
from iolab.results.packets import Balance, Drop
from iolab.trial.counters.differences import Counted, Snapshot
from iolab.trial.counters.drops import DAMAGED, FILTER, LATE, QDISC, RING_FULL, RULE, merged
from iolab.trial.packets.balance import balances, foreign_frames
from iolab.trial.packets.stalls import calm_frames


def received(frames: int, **other: Any) -> ReceiverReport:
    """Return the report of a receiver that received that many of 1000 frames."""
    return replace(RECEIVED, received_frames=frames, **other)


def snapshot(
    counters: Mapping[str, Mapping[str, int]] | None = None,
    drops: Mapping[str, Mapping[str, int]] | None = None,
    ruled: int = 0,
) -> Snapshot:
    """Return a reading in which only these counters are not 0."""
    seen: list[Observation] = []
    for ref, port in PORTS.items():
        counted = InterfaceCounters.__dataclass_fields__.keys() - {"name"}
        values = dict.fromkeys(counted, 0) | dict((counters or {}).get(ref, {}))
        row = InterfaceCounters(name=port.interface, **values)
        seen.append(
            Observation(sampler="interfaces", netns=port.netns, begin_ns=0, end_ns=0, interfaces=(row,))
        )
        own = DropCounters("driver", port.interface, dict((drops or {}).get(ref, {})))
        seen.append(Observation(sampler="drops", netns=port.netns, begin_ns=0, end_ns=0, drops=(own,)))
    return Snapshot(
        Reading(tuple(merge(seen))), {"dut.eth0": DeviceCounts(passed_frames=0, dropped_frames=ruled)}
    )


def merge(seen: list[Observation]) -> list[Observation]:
    """Join the interfaces of one namespace, as one reading has them."""
    found: dict[tuple[str, str | None], Observation] = {}
    for one in seen:
        key = (one.sampler, one.netns)
        both = found.get(key, replace(one, interfaces=(), drops=()))
        joined = replace(both, interfaces=both.interfaces + one.interfaces, drops=both.drops + one.drops)
        found[key] = joined
    return list(found.values())


def sheet(
    sent: SenderReport,
    arrived: ReceiverReport,
    after: Snapshot,
    before: Snapshot | None = None,
    copied: tuple[str, ...] = (),
) -> Balance:
    """Return the balance of one trial from nothing, or `before`, to `after`."""
    ran = TrafficRan(begin_ns=0, end_ns=1, senders=(sent,), receivers=(arrived,))
    (found,) = balances([WAY], ran, Counted(PORTS, before or snapshot(), after), copied)
    return found


def test_frames_refused_by_a_full_veth_ring_are_lost_at_its_far_end() -> None:
    """Count them as offered."""
    found = sheet(
        replace(SENT, offered_frames=900, refused_frames=100),
        received(900),
        snapshot({"tester.p0": {"tx_dropped": 100}}),
    )
    assert (found.offered_frames, found.forwarded_frames, found.unexplained_frames) == (1000, 900, 0)
    assert found.drops == (Drop(AtPort(port="dut.eth0"), RING_FULL, 100),)


def test_losses_outside_stalls_are_counted_separately() -> None:
    """Exclude two parts after a stall of 5 ms in slices of 10 ms."""
    slices = [10] * 100
    slices[1], slices[50] = 2, 9  # eight lost in the stall, one long after
    sent = replace(
        SENT,
        stalls=(replace(stall(5_000_000), begin_ns=12_000_000, end_ns=17_000_000),),
        slices_frames=(10,) * 100,
    )
    ran = TrafficRan(
        begin_ns=0,
        end_ns=1,
        senders=(sent,),
        receivers=(received(991, slices_frames=tuple(slices)),),
    )
    assert calm_frames(ran, 10**9) == (970, 1)
    assert calm_frames(ran, 10**9, 1.0) == (0, 0), "before its limit a device loses nothing"
    no_room = replace(sent, stalls=(replace(sent.stalls[0], cause="no_room"),))
    assert calm_frames(replace(ran, senders=(no_room,)), 10**9) == (1000, 9), "the device's own doing"
    assert calm_frames(replace(ran, senders=(SENT,), receivers=(RECEIVED,)), 10**9) == (0, 0), (
        "an older agent"
    )


def test_frames_lost_around_a_guest_are_reported_with_their_place() -> None:
    """Check 1000 frames: 700 read from the tap, 650 at the guest's NIC, 600 sent, 590 received."""
    ports = {ref: replace(port, kernel="dut" if "dut" in ref else "") for ref, port in PORTS.items()}
    whole = snapshot(
        {
            "tester.p0": {"tx_packets": 700},
            "dut.eth0": {"rx_packets": 650},
            "dut.eth1": {"tx_packets": 600, "tx_dropped": 50},
        }
    )
    before, after = (Snapshot(one.reading, {}, {"dut": one.reading}) for one in (snapshot(), whole))
    ran = TrafficRan(begin_ns=0, end_ns=1, senders=(SENT,), receivers=(received(590),))
    (found,) = balances([WAY], ran, Counted(ports, before, after))
    assert found.drops == (
        Drop(AtPort(port="tester.p1"), RING_FULL, 50),
        Drop(AtPort(port="dut.eth0"), NeverRead(sender="tester.p0"), 300),
        Drop(AtPort(port="dut.eth0"), LostBetween(sender="tester.p0", receiver="dut.eth0"), 50),
        Drop(AtPort(port="dut.eth1"), LostBetween(sender="dut.eth1", receiver="tester.p1"), 10),
    )
    assert found.unexplained_frames == 0


def test_loss_counted_at_both_veth_ends_is_reported_once() -> None:
    """Handle veth, which counts failed XDP redirects at both ends."""
    found = sheet(
        SENT,
        received(990),
        snapshot({"tester.p1": {"rx_dropped": 10}}, {"dut.eth1": {"tx_queue_0_xdp_xmit_errors": 10}}),
    )
    assert found.drops == (Drop(AtPort(port="tester.p1"), RING_FULL, 10),)
    assert found.unexplained_frames == 0


def test_xdp_transmit_errors_within_tx_dropped_are_counted_once() -> None:
    """Handle Linux 6.18, which includes xdp_xmit_errors in tx_dropped."""
    found = sheet(
        SENT,
        received(990),
        snapshot(
            {"dut.eth1": {"tx_dropped": 10}, "tester.p1": {"rx_dropped": 10}},
            {"dut.eth1": {"tx_queue_0_xdp_xmit_errors": 10}},
        ),
    )
    assert found.drops == (Drop(AtPort(port="tester.p1"), RING_FULL, 10),)
    assert found.unexplained_frames == 0


def with_reasons(after: Snapshot, reasons: dict[str, int]) -> Snapshot:
    """Return a reading with the kernel's drop reasons."""
    row = DropCounters("reason", "kernel", reasons)
    seen = Observation(sampler="drops", netns="iolab-dut", begin_ns=0, end_ns=0, drops=(row,))
    return replace(after, reading=Reading((*after.reading.observations, seen)))


def test_frames_not_forwarded_are_attributed_to_their_machine_with_the_kernels_drop_reason() -> None:
    """Doubt a reason for 20 of 30 frames, because it may count foreign ones."""
    after = snapshot({"dut.eth0": {"rx_packets": 1000}, "dut.eth1": {"tx_packets": 970}})
    lost = with_reasons(replace(after, devices={}), {"IP_INNOROUTES": 20})
    found = sheet(SENT, received(970), lost)
    assert [replace(drop, doubt=None) for drop in found.drops] == [
        Drop(
            AtPort(port="dut.eth0"),
            NotPassedOnFor(reason="IP_INNOROUTES", out="dut.eth1"),
            20,
            "IP_INNOROUTES",
        ),
        Drop(AtPort(port="dut.eth0"), NotPassedOn(out="dut.eth1"), 10),
    ]
    assert "counted 20 drops for IP_INNOROUTES, but 30 frames are missing" in in_words(found.drops[0].doubt)
    assert found.unexplained_frames == 0


def test_foreign_frames_do_not_hide_drops_of_a_machine() -> None:
    """Check 30 frames dropped by a rule, and 500 foreign ones on the same port."""
    after = snapshot({"dut.eth0": {"rx_packets": 1000}, "dut.eth1": {"tx_packets": 1470}})
    lost = with_reasons(replace(after, devices={}), {"NETFILTER_DROP": 30})
    found = sheet(SENT, received(970, foreign_frames=500), lost)
    assert [drop.place for drop in found.drops] == [AtPort(port="dut.eth0")]
    assert found.unexplained_frames == 0


def test_foreign_frames_before_the_receiver_started_do_not_hide_drops() -> None:
    """Check 500 foreign frames, 450 of which the receiver saw."""
    seen = {
        "dut.eth0": {"rx_packets": 1000},
        "dut.eth1": {"tx_packets": 1470},
        "tester.p1": {"rx_packets": 1470},
    }
    lost = with_reasons(replace(snapshot(seen), devices={}), {"NETFILTER_DROP": 30})
    found = sheet(SENT, received(970, foreign_frames=450), lost)
    assert [(drop.place, drop.frames) for drop in found.drops] == [(AtPort(port="dut.eth0"), 30)]
    assert found.unexplained_frames == 0


def test_drops_by_the_receivers_stack_are_not_drops_of_the_device() -> None:
    """Subtract 970 frames that AF_PACKET leaves to the stack from 30 dropped by a rule."""
    after = snapshot({"dut.eth0": {"rx_packets": 1000}, "dut.eth1": {"tx_packets": 970}})
    lost = with_reasons(replace(after, devices={}), {"NETFILTER_DROP": 30, "IP_LOCAL_SOURCE": 970})
    found = sheet(SENT, received(970), lost, copied=("tester.p1",))
    assert found.drops == (
        Drop(
            AtPort(port="dut.eth0"),
            NotPassedOnFor(reason="NETFILTER_DROP", out="dut.eth1"),
            30,
            "NETFILTER_DROP",
        ),
    )


def with_queue(after: Snapshot, handle: str, drops: int) -> Snapshot:
    """Return a reading with a token bucket on the device's egress port."""
    row = zeros(QdiscCounters, interface="eth1", handle=handle, parent="root", drops=drops, kind="tbf")
    seen = Observation(sampler="qdiscs", netns="iolab-dut", begin_ns=0, end_ns=0, qdiscs=(row,))
    return replace(after, reading=Reading((*after.reading.observations, seen)))


@pytest.mark.parametrize("handle", ["8001:", "8002:"])
def test_qdisc_drops_before_a_counter_reset_are_attributed_to_the_qdisc(handle: str) -> None:
    """Use the kernel's reason for 500 drops, of which the new counter shows 200."""
    before = with_queue(replace(snapshot(), devices={}), "8001:", 0)
    after = replace(snapshot({"dut.eth0": {"rx_packets": 1000}, "dut.eth1": {"tx_packets": 500}}), devices={})
    after = with_reasons(with_queue(after, handle, 200), {"QDISC_DROP": 500})
    found = sheet(SENT, received(500), after, before)
    (both,) = merged(found.drops)
    assert (both.place, both.reason, both.frames) == (AtPort(port="dut.eth1"), QDISC, 500)
    assert "the queue counters at dut.eth1 show 300 fewer drops" in in_words(both.doubt)


def test_kernel_drop_reasons_explain_losses_that_no_hop_counts() -> None:
    """Assign the hop's twenty to the most frequent reason, and another name to seven missing frames."""
    after = snapshot({"tester.p0": {"tx_dropped": 20}})
    sent = replace(SENT, offered_frames=980, refused_frames=20)
    found = sheet(
        sent,
        received(973),
        with_reasons(after, {"FULL_RING": 20, "QDISC_DROP": 9}),
    )
    ring, other = found.drops
    assert ring == Drop(AtPort(port="dut.eth0"), RING_FULL, 20)
    assert replace(other, doubt=None) == Drop(
        PlainPlace(code="in-kernel"), KernelDropped(reason="QDISC_DROP"), 7, "QDISC_DROP"
    )
    assert "counted 9 drops for QDISC_DROP, but 7 frames are missing" in in_words(other.doubt)
    assert found.unexplained_frames == 0


def test_kernel_drop_reasons_are_ignored_if_nothing_is_missing() -> None:
    """Ignore drops of other work."""
    found = sheet(SENT, RECEIVED, with_reasons(snapshot(), {"NO_SOCKET": 50}))
    assert found.drops == ()
    assert found.unexplained_frames == 0


def test_frames_lost_in_the_receiver_socket_are_attributed_to_the_socket() -> None:
    """Count a full AF_XDP ring, which the interface counts, too, once."""
    socket = SocketCounts(dropped_frames=7, ring_full_frames=7, no_buffer_frames=0)
    found = sheet(
        SENT,
        received(993, socket=socket),
        snapshot({"tester.p1": {"rx_dropped": 7}}),
    )
    assert found.drops == (Drop(PlainPlace(code="receiver"), RING_FULL, 7),)


def test_frames_dropped_by_a_rule_and_missing_frames_are_counted_separately() -> None:
    """Check twenty dropped frames and a missing one."""
    found = sheet(SENT, received(979), snapshot(ruled=20))
    assert found.drops == (Drop(AtDevice(port="dut.eth0"), RULE, 20),)
    assert found.unexplained_frames == 1


@given(st.lists(st.integers(0, 300), min_size=6, max_size=6))
def test_every_balance_sheet_adds_up(counts: list[int]) -> None:
    """Check offered = forwarded + named + unexplained for any counters."""
    refused, ring, late, ruled, rx, lost = counts
    found = sheet(
        replace(SENT, offered_frames=1000 - refused, refused_frames=refused),
        received(max(0, 1000 - lost - refused), late_frames=late),
        snapshot(
            {"tester.p0": {"tx_dropped": refused}, "dut.eth1": {"tx_dropped": ring, "rx_dropped": rx}},
            None,
            ruled,
        ),
    )
    named = sum(drop.frames for drop in found.drops)
    assert found.offered_frames == found.forwarded_frames + named + found.unexplained_frames
    assert all(drop.frames > 0 for drop in found.drops)


def test_damaged_frames_are_attributed_to_transit_and_late_frames_to_the_receiver() -> None:
    """Attribute changed contents to the path."""
    found = sheet(SENT, received(970, corrupted_frames=20, late_frames=10), snapshot())
    assert found.drops == (
        Drop(PlainPlace(code="receiver"), LATE, 10),
        Drop(PlainPlace(code="on-the-way"), DAMAGED, 20),
    )
    assert found.unexplained_frames == 0


def test_policer_drops_are_attributed_to_the_port_of_the_policer() -> None:
    """Count the qdisc's drops once, although the kernel reports a reason, too."""
    rows = zeros(
        QdiscCounters, interface="eth0", handle="ffff:", parent="ffff:fff1", drops=30, kind="ingress"
    )
    seen = Observation(sampler="qdiscs", netns="iolab-dut", begin_ns=0, end_ns=0, qdiscs=(rows,))
    after = with_reasons(snapshot(), {"TC_INGRESS": 30})
    after = replace(after, reading=Reading((*after.reading.observations, seen)))
    found = sheet(SENT, received(970), after)
    assert found.drops == (Drop(AtPort(port="dut.eth0"), FILTER, 30),)
    assert found.unexplained_frames == 0


def test_foreign_frames_are_detected_where_more_frames_arrive_than_were_sent() -> None:
    """Check 1000 sent frames and 1300 at one place."""
    ran = TrafficRan(begin_ns=0, end_ns=1, senders=(SENT,), receivers=(RECEIVED,))
    after = snapshot({"dut.eth0": {"rx_packets": 1300}, "tester.p1": {"rx_packets": 1000}})
    assert foreign_frames([WAY], ran, Counted(PORTS, snapshot(), after)) == 300


def test_gap_frames_do_not_count_as_foreign_frames_at_the_first_port() -> None:
    """Count more frames behind that port as foreign, because nothing forwards gap frames."""
    ran = TrafficRan(begin_ns=0, end_ns=1, senders=(replace(SENT, gap_frames=300),), receivers=(RECEIVED,))
    after = snapshot({"dut.eth0": {"rx_packets": 1300}, "tester.p1": {"rx_packets": 1000}})
    assert foreign_frames([WAY], ran, Counted(PORTS, snapshot(), after)) == 0
    behind = snapshot({"dut.eth0": {"rx_packets": 1300}, "tester.p1": {"rx_packets": 1300}})
    assert foreign_frames([WAY], ran, Counted(PORTS, snapshot(), behind)) == 300


def crowded(ring_full: int = 0) -> Snapshot:
    """Return a reading with 500 foreign frames at dut.eth1, whose bucket dropped 900 of 1500."""
    counters = {"dut.eth0": {"rx_packets": 1000}, "dut.eth1": {"tx_packets": 600, "tx_dropped": ring_full}}
    after = replace(snapshot(counters), devices={})
    return with_queue(after, "8001:", 900)


def test_shaper_drops_of_foreign_frames_are_not_counted_as_drops_of_test_frames() -> None:
    """Check 700 missing frames, 900 dropped, and 500 foreign ones."""
    before = with_queue(replace(snapshot(), devices={}), "8001:", 0)
    found = sheet(SENT, received(300), crowded(), before)
    assert found.drops == (Drop(AtPort(port="dut.eth1"), QDISC, 700),)
    assert found.unexplained_frames == 0


def test_drops_of_foreign_frames_at_two_places_stay_unexplained() -> None:
    """Report a surplus of drops."""
    before = with_queue(replace(snapshot(), devices={}), "8001:", 0)
    found = sheet(SENT, received(300), crowded(ring_full=50), before)
    assert [drop.frames for drop in found.drops] == [50, 900]
    assert found.unexplained_frames == -250


def test_surplus_drop_count_without_foreign_frames_stays_unexplained() -> None:
    """Check 1000 frames at the bucket, all of them test frames."""
    before = with_queue(replace(snapshot(), devices={}), "8001:", 0)
    after = snapshot({"dut.eth0": {"rx_packets": 1000}, "dut.eth1": {"tx_packets": 100}})
    found = sheet(
        SENT,
        received(300),
        with_queue(replace(after, devices={}), "8001:", 900),
        before,
    )
    assert found.unexplained_frames == -200
