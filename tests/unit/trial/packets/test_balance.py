"""Balance sheets: every frame that went missing is named once, where it was lost, or called unexplained."""

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
    """Return the report of a receiver to which so many of 1000 frames came."""
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


def test_what_the_sender_was_refused_was_lost_in_the_devices_ring() -> None:
    """A veth's full ring belongs to the far end: offered counts it, and it is named there."""
    found = sheet(
        replace(SENT, offered_frames=900, refused_frames=100),
        received(900),
        snapshot({"tester.p0": {"tx_dropped": 100}}),
    )
    assert (found.offered_frames, found.forwarded_frames, found.unexplained_frames) == (1000, 900, 0)
    assert found.drops == (Drop(AtPort(port="dut.eth0"), RING_FULL, 100),)


def test_loss_in_the_calm_part_of_a_trial_is_no_stalls() -> None:
    """10 ms per slice; a stall of 5 ms in the second takes that and two more from the calm part."""
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


def test_what_a_guest_never_got_is_named_where_it_stayed() -> None:
    """Of 1000 frames 700 were read from the tap, 650 reached the guest's card, 600 left it, 590 arrived."""
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


def test_a_loss_that_two_counters_tell_is_named_once() -> None:
    """veth counts a frame that an XDP program could not pass on at both of its ends."""
    found = sheet(
        SENT,
        received(990),
        snapshot({"tester.p1": {"rx_dropped": 10}}, {"dut.eth1": {"tx_queue_0_xdp_xmit_errors": 10}}),
    )
    assert found.drops == (Drop(AtPort(port="tester.p1"), RING_FULL, 10),)
    assert found.unexplained_frames == 0


def test_what_xdp_could_not_pass_on_is_in_the_interfaces_drops_already() -> None:
    """Linux 6.18 adds a veth's xdp_xmit_errors to the tx_dropped of the same end."""
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
    """Return a reading in which the kernel also tells why it dropped packets."""
    row = DropCounters("reason", "kernel", reasons)
    seen = Observation(sampler="drops", netns="iolab-dut", begin_ns=0, end_ns=0, drops=(row,))
    return replace(after, reading=Reading((*after.reading.observations, seen)))


def test_what_enters_a_machine_and_does_not_leave_it_is_named_there_with_the_kernels_reason() -> None:
    """Of 30 frames that the device took in and did not send, the kernel says why of 20: in doubt, as others may be."""
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


def test_frames_of_others_do_not_hide_what_a_machine_did_not_pass_on() -> None:
    """30 of ours were dropped by a rule, and 500 of others left by the same port and came to the receiver."""
    after = snapshot({"dut.eth0": {"rx_packets": 1000}, "dut.eth1": {"tx_packets": 1470}})
    lost = with_reasons(replace(after, devices={}), {"NETFILTER_DROP": 30})
    found = sheet(SENT, received(970, foreign_frames=500), lost)
    assert [drop.place for drop in found.drops] == [AtPort(port="dut.eth0")]
    assert found.unexplained_frames == 0


def test_frames_of_others_that_came_while_the_receiver_did_not_listen_hide_nothing_either() -> None:
    """Of 500 frames of others the receiver saw 450: the other 50 came to its port before it listened."""
    seen = {
        "dut.eth0": {"rx_packets": 1000},
        "dut.eth1": {"tx_packets": 1470},
        "tester.p1": {"rx_packets": 1470},
    }
    lost = with_reasons(replace(snapshot(seen), devices={}), {"NETFILTER_DROP": 30})
    found = sheet(SENT, received(970, foreign_frames=450), lost)
    assert [(drop.place, drop.frames) for drop in found.drops] == [(AtPort(port="dut.eth0"), 30)]
    assert found.unexplained_frames == 0


def test_what_the_receivers_own_stack_throws_away_is_no_reason_of_the_device() -> None:
    """An AF_PACKET socket leaves each frame to the stack, which drops it: 970, beside 30 that a rule dropped."""
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
    """Return a reading with a token bucket where frames leave the device."""
    row = zeros(QdiscCounters, interface="eth1", handle=handle, parent="root", drops=drops, kind="tbf")
    seen = Observation(sampler="qdiscs", netns="iolab-dut", begin_ns=0, end_ns=0, qdiscs=(row,))
    return replace(after, reading=Reading((*after.reading.observations, seen)))


@pytest.mark.parametrize("handle", ["8001:", "8002:"])
def test_what_a_queue_dropped_before_its_counters_began_again_is_told_of_the_queue(handle: str) -> None:
    """It dropped 500 frames, and its counter shows the last 200; the kernel knows of all, whatever its new handle."""
    before = with_queue(replace(snapshot(), devices={}), "8001:", 0)
    after = replace(snapshot({"dut.eth0": {"rx_packets": 1000}, "dut.eth1": {"tx_packets": 500}}), devices={})
    after = with_reasons(with_queue(after, handle, 200), {"QDISC_DROP": 500})
    found = sheet(SENT, received(500), after, before)
    (both,) = merged(found.drops)
    assert (both.place, both.reason, both.frames) == (AtPort(port="dut.eth1"), QDISC, 500)
    assert "the queue counters at dut.eth1 show 300 fewer drops" in in_words(both.doubt)


def test_the_kernels_reasons_name_what_no_hop_tells() -> None:
    """The hop's twenty are those of the most frequent reason; only the seven that are missing get another name."""
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


def test_the_kernels_reasons_name_nothing_where_nothing_is_missing() -> None:
    """They count for the whole kernel: other work drops packets too."""
    found = sheet(SENT, RECEIVED, with_reasons(snapshot(), {"NO_SOCKET": 50}))
    assert found.drops == ()
    assert found.unexplained_frames == 0


def test_what_the_receiver_lost_itself_is_its_own() -> None:
    """The kernel counts a full AF_XDP ring at the interface too."""
    socket = SocketCounts(dropped_frames=7, ring_full_frames=7, no_buffer_frames=0)
    found = sheet(
        SENT,
        received(993, socket=socket),
        snapshot({"tester.p1": {"rx_dropped": 7}}),
    )
    assert found.drops == (Drop(PlainPlace(code="receiver"), RING_FULL, 7),)


def test_a_devices_rule_and_a_missing_frame_are_told_apart() -> None:
    """Twenty were dropped as ruled; one is nowhere."""
    found = sheet(SENT, received(979), snapshot(ruled=20))
    assert found.drops == (Drop(AtDevice(port="dut.eth0"), RULE, 20),)
    assert found.unexplained_frames == 1


@given(st.lists(st.integers(0, 300), min_size=6, max_size=6))
def test_the_sheet_always_closes_with_what_it_calls_unexplained(counts: list[int]) -> None:
    """Whatever the counters say: offered = forwarded + named + unexplained."""
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


def test_damaged_frames_are_not_the_receivers_doing() -> None:
    """They arrived, with other contents: something on the way changed them. Late ones are the receiver's to tell."""
    found = sheet(SENT, received(970, corrupted_frames=20, late_frames=10), snapshot())
    assert found.drops == (
        Drop(PlainPlace(code="receiver"), LATE, 10),
        Drop(PlainPlace(code="on-the-way"), DAMAGED, 20),
    )
    assert found.unexplained_frames == 0


def test_what_a_policer_drops_is_named_at_its_port() -> None:
    """Its queueing discipline counts it, and the kernel has a name for it that is then no other loss."""
    rows = zeros(
        QdiscCounters, interface="eth0", handle="ffff:", parent="ffff:fff1", drops=30, kind="ingress"
    )
    seen = Observation(sampler="qdiscs", netns="iolab-dut", begin_ns=0, end_ns=0, qdiscs=(rows,))
    after = with_reasons(snapshot(), {"TC_INGRESS": 30})
    after = replace(after, reading=Reading((*after.reading.observations, seen)))
    found = sheet(SENT, received(970), after)
    assert found.drops == (Drop(AtPort(port="dut.eth0"), FILTER, 30),)
    assert found.unexplained_frames == 0


def test_frames_of_others_are_seen_where_more_came_in_than_was_sent() -> None:
    """1000 were sent; 1300 came in at one place on the way."""
    ran = TrafficRan(begin_ns=0, end_ns=1, senders=(SENT,), receivers=(RECEIVED,))
    after = snapshot({"dut.eth0": {"rx_packets": 1300}, "tester.p1": {"rx_packets": 1000}})
    assert foreign_frames([WAY], ran, Counted(PORTS, snapshot(), after)) == 300


def test_gap_frames_of_our_own_are_not_of_others_at_the_first_port() -> None:
    """They are counted there beside the 1000; what comes in behind it is of others, for nothing passes them on."""
    ran = TrafficRan(begin_ns=0, end_ns=1, senders=(replace(SENT, gap_frames=300),), receivers=(RECEIVED,))
    after = snapshot({"dut.eth0": {"rx_packets": 1300}, "tester.p1": {"rx_packets": 1000}})
    assert foreign_frames([WAY], ran, Counted(PORTS, snapshot(), after)) == 0
    behind = snapshot({"dut.eth0": {"rx_packets": 1300}, "tester.p1": {"rx_packets": 1300}})
    assert foreign_frames([WAY], ran, Counted(PORTS, snapshot(), behind)) == 300


def crowded(ring_full: int = 0) -> Snapshot:
    """Return a reading in which 500 frames of others came to dut.eth1, whose bucket dropped 900 of 1500."""
    counters = {"dut.eth0": {"rx_packets": 1000}, "dut.eth1": {"tx_packets": 600, "tx_dropped": ring_full}}
    after = replace(snapshot(counters), devices={})
    return with_queue(after, "8001:", 900)


def test_what_a_bucket_dropped_of_others_is_no_drop_of_ours() -> None:
    """700 of ours are missing and the bucket dropped 900: 200 were of the 500 others."""
    before = with_queue(replace(snapshot(), devices={}), "8001:", 0)
    found = sheet(SENT, received(300), crowded(), before)
    assert found.drops == (Drop(AtPort(port="dut.eth1"), QDISC, 700),)
    assert found.unexplained_frames == 0


def test_where_two_places_may_have_dropped_frames_of_others_nobody_can_tell() -> None:
    """The bucket and the ring behind it saw them both: the sheet says that counters tell of more than is missing."""
    before = with_queue(replace(snapshot(), devices={}), "8001:", 0)
    found = sheet(SENT, received(300), crowded(ring_full=50), before)
    assert [drop.frames for drop in found.drops] == [50, 900]
    assert found.unexplained_frames == -250


def test_a_counter_that_tells_of_more_than_is_missing_stays_unexplained_where_no_other_frames_came() -> None:
    """No more than 1000 frames came to the bucket, and all of them were ours."""
    before = with_queue(replace(snapshot(), devices={}), "8001:", 0)
    after = snapshot({"dut.eth0": {"rx_packets": 1000}, "dut.eth1": {"tx_packets": 100}})
    found = sheet(
        SENT,
        received(300),
        with_queue(replace(after, devices={}), "8001:", 900),
        before,
    )
    assert found.unexplained_frames == -200
