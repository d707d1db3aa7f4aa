"""Balance sheets, verdicts and histograms: what limited a trial, from figures that show it, and never a guess."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.lab.test_placement import measure
from tests.unit.trial.packets import lab

from iolab.agent.messages import DropCounters, InterfaceCounters, Observation, Reading
from iolab.agent.traffic import (
    DeviceCounts,
    Histogram,
    ReceiverReport,
    SenderReport,
    SocketCounts,
    Stall,
    ThreadUse,
    TrafficRan,
)
from iolab.lab.placement import ways
from iolab.lab.topology import make_topology
from iolab.trial.balance import Balance, Drop, balances
from iolab.trial.counted import Port, Snapshot
from iolab.trial.histograms import last_of, merged, quantile, summary
from iolab.trial.limits import CpuUse, Limit, Thread
from iolab.trial.search.types import LoadResult
from iolab.trial.site import Calibration, Ceilings
from iolab.trial.stalls import calm_frames, due_frames, perturbations
from iolab.trial.verdict import judge

NOTHING = Histogram(count=0, sum=0, min=None, max=None, above=0, buckets=())
(WAY,) = ways(lab(), make_topology(lab()), measure())
REFS = ("tester.p0", "dut.eth0", "dut.eth1", "tester.p1")
PORTS = {ref: Port(ref, f"iolab-{ref.split('.')[0]}", ref.split(".")[1]) for ref in REFS}
USE = ThreadUse(run_ns=1, wait_ns=0)
SENT = SenderReport(
    port="tester.p0", begin_ns=0, end_ns=10**9, intended_frames=1000, offered_frames=1000, refused_frames=0,
    dropped_by_us_frames=0, stalls=(), stall_count=0, thread=USE,
)  # fmt: skip
RECEIVED = ReceiverReport(
    port="tester.p1", of=0, drained=True, received_frames=1000, duplicate_frames=0, reordered_frames=0, late_frames=0,
    corrupted_frames=0, latency_ns=NOTHING, stalls=(), thread=USE,
    socket=SocketCounts(dropped_frames=0, ring_full_frames=0, no_buffer_frames=0),
)  # fmt: skip


def stall(late_ns: int, cause: str = "not_asked") -> Stall:
    """Return a stall that shifted the schedule by its lateness."""
    return Stall(
        begin_ns=0, end_ns=late_ns, late_ns=late_ns, slipped_ns=late_ns, cause=cause, steal_ns=0, wait_ns=0
    )


def snapshot(
    counters: Mapping[str, Mapping[str, int]] | None = None,
    drops: Mapping[str, Mapping[str, int]] | None = None,
    ruled: int = 0,
) -> Snapshot:
    """Return a reading in which only these counters are not 0."""
    seen: list[Observation] = []
    for ref, port in PORTS.items():
        values = dict.fromkeys(InterfaceCounters.__dataclass_fields__, 0) | dict(
            (counters or {}).get(ref, {})
        )
        row = InterfaceCounters(**{**values, "name": port.interface})  # type: ignore[arg-type]
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


def sheet(sent: SenderReport, received: ReceiverReport, after: Snapshot) -> Balance:
    """Return the balance of one trial from nothing to `after`."""
    ran = TrafficRan(begin_ns=0, end_ns=1, senders=(sent,), receivers=(received,))
    (found,) = balances([WAY], PORTS, ran, snapshot(), after)
    return found


def test_what_the_sender_was_refused_was_lost_in_the_devices_ring() -> None:
    """A veth's full ring belongs to the far end: offered counts it, and it is named there."""
    found = sheet(
        replace(SENT, offered_frames=900, refused_frames=100),
        replace(RECEIVED, received_frames=900),
        snapshot({"tester.p0": {"tx_dropped": 100}}),
    )
    assert (found.offered_frames, found.forwarded_frames, found.unexplained_frames) == (1000, 900, 0)
    assert found.drops == (Drop("dut.eth0", "ring full", 100),)


def test_loss_in_the_calm_part_of_a_trial_is_no_stalls() -> None:
    """10 ms per slice; a stall of 5 ms in the second takes that and two more from the calm part."""
    received = [10] * 100
    received[1], received[50] = 2, 9  # eight lost in the stall, one long after
    sent = replace(
        SENT,
        stalls=(replace(stall(5_000_000), begin_ns=12_000_000, end_ns=17_000_000),),
        slices_frames=(10,) * 100,
    )
    ran = TrafficRan(
        begin_ns=0,
        end_ns=1,
        senders=(sent,),
        receivers=(replace(RECEIVED, received_frames=991, slices_frames=tuple(received)),),
    )
    assert calm_frames(ran, 10**9) == (970, 1)
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
    received = replace(RECEIVED, received_frames=590)
    ran = TrafficRan(begin_ns=0, end_ns=1, senders=(SENT,), receivers=(received,))
    (found,) = balances([WAY], ports, ran, before, after)
    assert found.drops == (
        Drop("tester.p1", "ring full", 50),
        Drop("dut.eth0", "never read from the queue of tester.p0", 300),
        Drop("dut.eth0", "lost between tester.p0 and dut.eth0", 50),
        Drop("dut.eth1", "lost between dut.eth1 and tester.p1", 10),
    )
    assert found.unexplained_frames == 0


def test_a_loss_that_two_counters_tell_is_named_once() -> None:
    """veth counts a frame that an XDP program could not pass on at both of its ends."""
    found = sheet(
        SENT,
        replace(RECEIVED, received_frames=990),
        snapshot({"tester.p1": {"rx_dropped": 10}}, {"dut.eth1": {"tx_queue_0_xdp_xmit_errors": 10}}),
    )
    assert found.drops == (Drop("tester.p1", "ring full", 10),)
    assert found.unexplained_frames == 0


def test_what_xdp_could_not_pass_on_is_in_the_interfaces_drops_already() -> None:
    """Linux 6.18 adds a veth's xdp_xmit_errors to the tx_dropped of the same end."""
    found = sheet(
        SENT,
        replace(RECEIVED, received_frames=990),
        snapshot(
            {"dut.eth1": {"tx_dropped": 10}, "tester.p1": {"rx_dropped": 10}},
            {"dut.eth1": {"tx_queue_0_xdp_xmit_errors": 10}},
        ),
    )
    assert found.drops == (Drop("tester.p1", "ring full", 10),)
    assert found.unexplained_frames == 0


def with_reasons(after: Snapshot, reasons: dict[str, int]) -> Snapshot:
    """Return a reading in which the kernel also tells why it dropped packets."""
    row = DropCounters("reason", "kernel", reasons)
    seen = Observation(sampler="drops", netns="iolab-dut", begin_ns=0, end_ns=0, drops=(row,))
    return replace(after, reading=Reading((*after.reading.observations, seen)))


def test_what_enters_a_machine_and_does_not_leave_it_is_named_there_with_the_kernels_reason() -> None:
    """Of 30 frames that the device took in and did not send, the kernel says why of 20."""
    after = snapshot({"dut.eth0": {"rx_packets": 1000}, "dut.eth1": {"tx_packets": 970}})
    lost = with_reasons(replace(after, devices={}), {"IP_INNOROUTES": 20})
    found = sheet(SENT, replace(RECEIVED, received_frames=970), lost)
    assert found.drops == (
        Drop("dut.eth0", "IP_INNOROUTES, not passed on to dut.eth1", 20),
        Drop("dut.eth0", "not passed on to dut.eth1", 10),
    )
    assert found.unexplained_frames == 0


def test_the_kernels_reasons_name_what_no_hop_tells() -> None:
    """The hop's twenty are those of the most frequent reason; only the seven that are missing get another name."""
    after = snapshot({"tester.p0": {"tx_dropped": 20}})
    sent = replace(SENT, offered_frames=980, refused_frames=20)
    found = sheet(
        sent,
        replace(RECEIVED, received_frames=973),
        with_reasons(after, {"FULL_RING": 20, "QDISC_DROP": 9}),
    )
    assert found.drops == (Drop("dut.eth0", "ring full", 20), Drop("kernel", "QDISC_DROP", 7))
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
        replace(RECEIVED, received_frames=993, socket=socket),
        snapshot({"tester.p1": {"rx_dropped": 7}}),
    )
    assert found.drops == (Drop("receiver", "ring full", 7),)


def test_a_devices_rule_and_a_missing_frame_are_told_apart() -> None:
    """Twenty were dropped as told; one is nowhere."""
    found = sheet(SENT, replace(RECEIVED, received_frames=979), snapshot(ruled=20))
    assert found.drops == (Drop("device dut.eth0", "rule", 20),)
    assert found.unexplained_frames == 1


@given(st.lists(st.integers(0, 300), min_size=6, max_size=6))
def test_the_sheet_always_closes_with_what_it_calls_unexplained(counts: list[int]) -> None:
    """Whatever the counters say: offered = forwarded + named + unexplained."""
    refused, ring, late, ruled, rx, lost = counts
    found = sheet(
        replace(SENT, offered_frames=1000 - refused, refused_frames=refused),
        replace(RECEIVED, received_frames=max(0, 1000 - lost - refused), late_frames=late),
        snapshot(
            {"tester.p0": {"tx_dropped": refused}, "dut.eth1": {"tx_dropped": ring, "rx_dropped": rx}},
            None,
            ruled,
        ),
    )
    named = sum(drop.frames for drop in found.drops)
    assert found.offered_frames == found.forwarded_frames + named + found.unexplained_frames
    assert all(drop.frames > 0 for drop in found.drops)


def test_frames_due_while_the_host_held_the_sender_up_are_not_the_generators_fault() -> None:
    """100 ms of a second: a tenth of the frames; being slow without a stall is."""
    held = replace(SENT, offered_frames=880, stalls=(stall(100_000_000),))
    assert due_frames(held) == 900
    assert due_frames(replace(SENT, offered_frames=880)) == 1000
    assert due_frames(replace(SENT, offered_frames=880, stalls=(stall(100_000_000, "no_room"),))) == 1000


def test_a_schedule_that_the_host_held_up_for_long_was_no_load_of_its_rate() -> None:
    """Of 600 ms that were lost of a second a fifth is excused: 400 frames are not 1000 in a second."""
    assert due_frames(replace(SENT, offered_frames=400, stalls=(stall(600_000_000),))) == 800


def result(lost: int = 100, unsent: int = 0, perturbed: tuple[str, ...] = ()) -> LoadResult:
    """Return a trial of 10 000 frames."""
    return LoadResult(
        intended_fps=10_000,
        duration_ns=10**9,
        intended_frames=10_000,
        offered_frames=10_000 - unsent,
        forwarded_frames=10_000 - unsent - lost,
        perturbations=perturbed,
    )


def dropped(place: str, frames: int, unexplained: int = 0) -> list[Balance]:
    """Return a balance with drops at one place."""
    return [Balance("a->b", 10_000, 10_000 - frames, (Drop(place, "ring full", frames),), unexplained)]


HELD_NS = 50_000_000
"""What a disturbed host held threads up for, here [ns]: 500 frames of a trial's 10 000."""
DEVICE = Thread("napi/eth0-1", "device", "dut.eth0", 1, 0.99)
BUSY, CALM = CpuUse(1, 1.0, 0.5, 0.0), CpuUse(1, 0.4, 0.2, 0.0)


@pytest.mark.parametrize(
    ("trial", "sheets", "cpus", "threads", "limit"),
    [
        (result(lost=0), [], [CALM], [], Limit.NONE),
        (result(lost=0, unsent=100), [], [CALM], [], Limit.GENERATOR),
        (result(perturbed=("2 ms of steal",)), dropped("dut.eth0", 100), [CALM], [DEVICE], Limit.HOST),
        (result(), dropped("receiver", 100), [CALM], [DEVICE], Limit.RECEIVER),
        (result(), dropped("dut.eth0", 100), [BUSY], [DEVICE], Limit.THREAD),
        (result(), dropped("dut.eth0", 100), [CALM], [replace(DEVICE, busy_ratio=0.4)], Limit.HOP),
        (result(), dropped("cpu1", 100), [CALM], [DEVICE], Limit.HOP),
        (
            result(),
            dropped("dut.eth0", 100),
            [BUSY],
            [replace(DEVICE, busy_ratio=0.6), Thread("receiver", "receiver", "tester.p1", 1, 0.3)],
            Limit.CPU,
        ),
        (
            result(),
            dropped("dut.eth0", 100),
            [BUSY],
            [replace(DEVICE, busy_ratio=0.2), Thread("receiver", "receiver", "tester.p1", 1, 0.7)],
            Limit.RECEIVER,
        ),
        (result(), dropped("dut.eth0", 20, unexplained=80), [BUSY], [DEVICE], Limit.UNEXPLAINED),
        (result(), [], [BUSY], [DEVICE], Limit.UNEXPLAINED),
    ],
)
def test_the_verdict_is_what_the_figures_show(
    trial: LoadResult, sheets: list[Balance], cpus: list[CpuUse], threads: list[Thread], limit: Limit
) -> None:
    """Each cause with its figures; without any it is unexplained, however busy a CPU was."""
    found = judge(trial, 1e-4, sheets, cpus, threads, held_ns=HELD_NS)
    assert found.limit is limit
    assert any(character.isdigit() for character in found.text)


HELD_UP = ("held up",)


@pytest.mark.parametrize(("held_ms", "limit"), [(50, Limit.HOST), (4, Limit.HOP)])
def test_a_disturbed_host_is_blamed_only_for_what_it_can_have_lost(held_ms: int, limit: Limit) -> None:
    """100 frames of 10 000/s take 10 ms, or 5 when they come in a burst; 4 ms do not explain them."""
    trial = result(perturbed=HELD_UP)
    found = judge(trial, 1e-4, dropped("dut.eth0", 100), [CALM], [], held_ns=held_ms * 1_000_000)
    assert found.limit is limit


@pytest.mark.parametrize(
    ("trial", "sheets", "ceilings", "limit"),
    [
        (result(unsent=500, perturbed=HELD_UP), [], Ceilings(9_000, None), Limit.GENERATOR),
        (result(unsent=500, perturbed=HELD_UP), [], Ceilings(11_000, None), Limit.HOST),
        (result(unsent=5, perturbed=HELD_UP), [], Ceilings(9_000, None), Limit.HOST),
        (result(lost=0), [], Ceilings(9_000, 9_000), Limit.NONE),
        (result(), dropped("dut.eth0", 100), Ceilings(None, 10_000), Limit.RECEIVER),
        (result(), dropped("dut.eth0", 100), Ceilings(None, 11_000), Limit.HOP),
        (result(), [], Ceilings(None, 9_900), Limit.RECEIVER),
        (result(), [], Ceilings(None, 20_000), Limit.UNEXPLAINED),
    ],
)
def test_the_verdict_knows_what_the_instrument_can_do(
    trial: LoadResult, sheets: list[Balance], ceilings: Ceilings, limit: Limit
) -> None:
    """A load above its ceiling limits the generator, disturbed host or not; at its own the receiver is the limit."""
    found = judge(trial, 1e-4, sheets, [CALM], [], ceilings, HELD_NS)
    assert found.limit is limit
    assert ("calibrat" in found.text) == (limit in (Limit.GENERATOR, Limit.RECEIVER))


def test_a_thread_that_ran_all_the_time_is_the_limit_whatever_the_receiver_can_do() -> None:
    """Its own CPU had no time left: that is seen, and the ceiling is only known."""
    found = judge(result(), 1e-4, dropped("dut.eth0", 100), [BUSY], [DEVICE], Ceilings(None, 9_000))
    assert found.limit is Limit.THREAD


def test_ceilings_are_those_of_the_paths_in_use() -> None:
    """Ports say what they use in words; sizes between two that were measured have the ceiling of the smaller."""
    known = Calibration({"af_xdp": {64: 2e6, 512: 1e6}, "af_packet": {64: 5e5}}, {"af_packet": 4e5})
    assert known.ceilings("AF_XDP native copy", "AF_PACKET rx-ring", 600) == Ceilings(1e6, 4e5)
    assert known.ceilings("AF_PACKET tx-ring", "AF_XDP native copy", 64) == Ceilings(5e5, None)


def test_only_what_held_a_thread_up_for_a_millisecond_is_a_disturbance() -> None:
    """A ring without room is load; a stall of 2 ms and two ticks of steal are the host's."""
    calm = replace(SENT, stalls=(stall(400_000), stall(5_000_000, "no_room")))
    assert perturbations([calm], [RECEIVED], 0) == ()
    (held,) = perturbations([replace(SENT, stalls=(stall(2_000_000),))], [RECEIVED], 0)
    assert "2.0 ms" in held
    (stolen,) = perturbations([SENT], [RECEIVED], 20_000_000)
    assert "20 ms" in stolen


@given(st.lists(st.integers(0, 2**36), min_size=1, max_size=200), st.floats(0.01, 1.0))
def test_a_quantile_is_never_below_the_truth_and_at_most_1_in_128_above(
    values: list[int], share: float
) -> None:
    """Against the sorted values themselves, in the buckets of the contract."""
    found = histogram(values)
    truth = sorted(values)[max(1, -int(-share * len(values) // 1)) - 1]
    assert truth <= (quantile(found, share) or 0) <= truth * (1 + 1 / 128) + 1


@given(st.lists(st.integers(0, 2**20), max_size=50), st.lists(st.integers(0, 2**20), max_size=50))
def test_merging_is_as_if_all_had_been_counted_together(some: list[int], others: list[int]) -> None:
    """Counts, extremes and buckets."""
    assert merged([histogram(some), histogram(others)]) == histogram([*some, *others])


def test_an_empty_histogram_has_no_summary() -> None:
    """No frame arrived: no figure, not 0."""
    assert summary(NOTHING) is None
    assert quantile(NOTHING, 0.5) is None


def histogram(values: list[int]) -> Histogram:
    """Return the values as the agent counts them."""
    counts: dict[int, int] = {}
    for value in values:
        shift = max(0, value.bit_length() - 8)
        low = value >> shift << shift
        assert low <= value <= last_of(low)
        counts[low] = counts.get(low, 0) + 1
    return Histogram(
        count=len(values),
        sum=sum(values),
        min=min(values, default=None),
        max=max(values, default=None),
        above=0,
        buckets=tuple(sorted(counts.items())),
    )
