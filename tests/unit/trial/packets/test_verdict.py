"""Verdicts: what limited a trial, from figures that show it, and never a guess."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.trial.sheets import RECEIVED, SENT, stall
from tests.wording import in_words

from iolab.agent.messages import FlowReport, FlowSummary, ReceiverReport
from iolab.messages.caveats import ReasonOfOthers
from iolab.messages.drop_reasons import NotPassedOnFor
from iolab.messages.evidence import (
    CpuStolen,
    Disturbance,
    HeldUp,
)
from iolab.messages.places import AtCpu, AtDevice, AtPort, Place, PlainPlace
from iolab.results.packets import Balance, Drop
from iolab.results.search import LoadResult
from iolab.results.verdict import CpuUse, Limit, Thread, Verdict
from iolab.trial.counters.drops import DAMAGED, FILTER, QDISC, RING_FULL, RULE, dead_flows, explains
from iolab.trial.lab_access import Calibration, Ceilings
from iolab.trial.packets.stalls import excused_frames, perturbations
from iolab.trial.packets.verdict import LoadReadings, judge


def test_frames_due_while_the_host_held_the_sender_up_are_not_the_generators_fault() -> None:
    """40 ms of a second: four frames in a hundred; being slow without a stall is."""
    held = replace(SENT, offered_frames=950, stalls=(stall(40_000_000),))
    assert excused_frames(held) == 40
    assert excused_frames(replace(SENT, offered_frames=990, stalls=(stall(40_000_000),))) == 10
    assert excused_frames(replace(SENT, offered_frames=950)) == 0
    assert excused_frames(replace(SENT, offered_frames=950, stalls=(stall(40_000_000, "no_room"),))) == 0


def test_a_schedule_that_the_host_held_up_for_long_was_no_load_of_its_rate() -> None:
    """Of 600 ms that were lost of a second a tenth is excused: 400 frames are not 1000 in a second."""
    assert excused_frames(replace(SENT, offered_frames=400, stalls=(stall(600_000_000),))) == 100


HELD_UP = (HeldUp(code="sender-held-up", port="a", times=1, longest_ns=2_000_000),)
OTHERS = ReasonOfOthers(reason="NETFILTER_DROP", dropped_frames=5_000, missing_frames=100)


def result(lost: int = 100, unsent: int = 0, perturbed: tuple[Disturbance, ...] = ()) -> LoadResult:
    """Return a trial of 10 000 frames."""
    return LoadResult(
        intended_fps=10_000,
        duration_ns=10**9,
        intended_frames=10_000,
        offered_frames=10_000 - unsent,
        forwarded_frames=10_000 - unsent - lost,
        perturbations=perturbed,
    )


def dropped(place: Place, frames: int, unexplained: int = 0) -> list[Balance]:
    """Return a balance with drops at one place."""
    return [Balance("a->b", 10_000, 10_000 - frames, (Drop(place, RING_FULL, frames),), unexplained)]


AT_DUT = dropped(AtPort(port="dut.eth0"), 100)
"""All frames that a trial lost, at a port of the device."""


def judged(trial: LoadResult, balances: Sequence[Balance] = (), **readings: Any) -> Verdict:
    """Return what limited a trial whose goal is a loss of one in ten thousand."""
    return judge(trial, 1e-4, LoadReadings(balances=balances, **readings))


def test_a_generator_that_waited_for_its_cpu_is_named_in_doubt() -> None:
    """A tenth of the frames stayed unsent: a thread that waited 6 % of the time may be why, one that ran may not."""
    sending = Thread("generator", "generator", "tester.p0", 0, 0.9, 0.06)
    short = result(lost=0, unsent=1_000)
    waited = judged(short, threads=[sending])
    assert waited.limit is Limit.GENERATOR
    assert "waited for a CPU for 6 %" in in_words(waited.doubt)
    assert judged(short, threads=[replace(sending, wait_ratio=0.01)]).doubt is None
    beyond = LoadReadings(threads=[sending], ceilings=Ceilings(generator_fps=9_000))
    assert judge(short, 1e-3, beyond).doubt is None, "no CPU lets it send more than its ceiling"


HELD_NS = 50_000_000
"""What a disturbed host held threads up for, here [ns]: 500 frames of a trial's 10 000."""
DEVICE = Thread("napi/eth0-1", "device", "dut.eth0", 1, 0.99)
BUSY, CALM = CpuUse(1, 1.0, 0.5, 0.0), CpuUse(1, 0.4, 0.2, 0.0)


@pytest.mark.parametrize(
    ("trial", "sheets", "cpus", "threads", "limit"),
    [
        (result(lost=0), [], [CALM], [], Limit.NONE),
        (result(lost=0, unsent=100), [], [CALM], [], Limit.GENERATOR),
        (result(perturbed=HELD_UP), AT_DUT, [CALM], [DEVICE], Limit.HOST),
        (result(), dropped(PlainPlace(code="receiver"), 100), [CALM], [DEVICE], Limit.RECEIVER),
        (result(), AT_DUT, [BUSY], [DEVICE], Limit.THREAD),
        (
            result(),
            AT_DUT,
            [CALM],
            [replace(DEVICE, busy_ratio=0.4)],
            Limit.HOP,
        ),
        (result(), dropped(AtCpu(cpu=1), 100), [CALM], [DEVICE], Limit.HOP),
        (
            result(),
            AT_DUT,
            [BUSY],
            [replace(DEVICE, busy_ratio=0.6), Thread("receiver", "receiver", "tester.p1", 1, 0.3)],
            Limit.CPU,
        ),
        (
            result(),
            AT_DUT,
            [BUSY],
            [replace(DEVICE, busy_ratio=0.2), Thread("receiver", "receiver", "tester.p1", 1, 0.7)],
            Limit.RECEIVER,
        ),
        (result(), dropped(AtPort(port="dut.eth0"), 20, unexplained=80), [BUSY], [DEVICE], Limit.UNEXPLAINED),
        (result(), [], [BUSY], [DEVICE], Limit.UNEXPLAINED),
    ],
)
def test_the_verdict_is_what_the_figures_show(
    trial: LoadResult, sheets: list[Balance], cpus: list[CpuUse], threads: list[Thread], limit: Limit
) -> None:
    """Each cause with its figures; without any it is unexplained, however busy a CPU was."""
    found = judged(trial, sheets, cpus=cpus, threads=threads, held_ns=HELD_NS)
    assert found.limit is limit
    assert any(character.isdigit() for character in in_words(found.seen))


def test_the_receiver_is_named_with_doubt_where_others_had_as_much_of_the_devices_cpu() -> None:
    """A device that stands still half of the time: of its CPU 40 % went to the receiver, 36 % to others."""
    device = Thread("napi/eth0-1", "device", "dut.eth0", 1, 0.24, 0.49)
    for receives, doubtful in ((0.40, True), (0.70, False)):
        arrivals = Thread("napi/p1-2", "napi", "tester.p1", 1, receives)
        found = judged(result(), AT_DUT, cpus=[CpuUse(1, 1.0, 0.0, 0.0)], threads=[device, arrivals])  # fmt: skip
        assert (found.limit, found.place) == (Limit.RECEIVER, AtPort(port="tester.p1"))
        assert bool(found.doubt) == doubtful


@pytest.mark.parametrize(("held_ms", "limit"), [(50, Limit.HOST), (4, Limit.HOP)])
def test_a_disturbed_host_is_blamed_only_for_what_it_can_have_lost(held_ms: int, limit: Limit) -> None:
    """100 frames of 10 000/s take 10 ms, or 5 when they come in a burst; 4 ms do not explain them."""
    trial = result(perturbed=HELD_UP)
    found = judged(trial, AT_DUT, cpus=[CALM], held_ns=held_ms * 1_000_000)
    assert found.limit is limit


@pytest.mark.parametrize(
    ("trial", "sheets", "ceilings", "limit"),
    [
        (result(unsent=500, perturbed=HELD_UP), [], Ceilings(9_000, None), Limit.GENERATOR),
        (result(unsent=500, perturbed=HELD_UP), [], Ceilings(11_000, None), Limit.HOST),
        (result(unsent=5, perturbed=HELD_UP), [], Ceilings(9_000, None), Limit.HOST),
        (result(lost=0), [], Ceilings(9_000, 9_000), Limit.NONE),
        (result(), AT_DUT, Ceilings(None, 10_000), Limit.RECEIVER),
        (result(), AT_DUT, Ceilings(None, 11_000), Limit.HOP),
        (result(), [], Ceilings(None, 9_900), Limit.RECEIVER),
        (result(), [], Ceilings(None, 20_000), Limit.UNEXPLAINED),
    ],
)
def test_the_verdict_knows_what_the_instrument_can_do(
    trial: LoadResult, sheets: list[Balance], ceilings: Ceilings, limit: Limit
) -> None:
    """A load above its ceiling limits the generator, disturbed host or not; at its own the receiver is the limit."""
    found = judged(trial, sheets, cpus=[CALM], ceilings=ceilings, held_ns=HELD_NS)
    assert found.limit is limit
    assert ("calibrat" in in_words(found.seen)) == (limit in (Limit.GENERATOR, Limit.RECEIVER))


def test_a_thread_that_ran_all_the_time_is_the_limit_whatever_the_receiver_can_do() -> None:
    """Its own CPU had no time left: that is seen, and the ceiling is only known."""
    found = judged(result(), AT_DUT, cpus=[BUSY], threads=[DEVICE], ceilings=Ceilings(None, 9_000))
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
    assert held == HeldUp(code="sender-held-up", port=SENT.port, times=1, longest_ns=2_000_000)
    (stolen,) = perturbations([SENT], [RECEIVED], 20_000_000)
    assert stolen == CpuStolen(stolen_ns=20_000_000)


def constant(calm_frames: int, calm_lost: int) -> LoadResult:
    """1 % of the frames lost, and a host that held threads up for long."""
    return replace(result(perturbed=HELD_UP), calm_frames=calm_frames, calm_lost_frames=calm_lost)


@pytest.mark.parametrize(
    ("trial", "limit", "certain"),
    [
        (constant(3_000, 30), Limit.HOP, True),
        (constant(3_000, 0), Limit.HOST, True),
        (constant(100, 1), Limit.HOST, False),
    ],
)
def test_loss_as_often_in_the_calm_as_in_stalls_is_not_the_hosts(
    trial: LoadResult, limit: Limit, certain: bool
) -> None:
    """Rates decide, not counts: 30 of 3000 are 1 % again. Where little was calm there is doubt."""
    found = judged(trial, AT_DUT, cpus=[CALM], held_ns=HELD_NS)
    assert (found.limit, not found.doubt) == (limit, certain)


@pytest.mark.parametrize(
    ("drop", "limit"),
    [
        (
            Drop(
                AtPort(port="dut.eth0"),
                NotPassedOnFor(reason="NETFILTER_DROP", out="dut.eth1"),
                100,
                "NETFILTER_DROP",
            ),
            Limit.RULE,
        ),
        (Drop(AtPort(port="dut.eth0"), FILTER, 100), Limit.RULE),
        (Drop(AtDevice(port="dut.eth0"), RULE, 100), Limit.RULE),
        (Drop(PlainPlace(code="on-the-way"), DAMAGED, 100), Limit.DAMAGE),
    ],
)
def test_what_was_dropped_by_a_decision_is_never_the_hosts_doing(drop: Drop, limit: Limit) -> None:
    """However disturbed it was, and however little of the trial was calm: a rule needs no time."""
    sheets = [Balance("a->b", 10_000, 9_900, (drop,), 0)]
    found = judged(result(perturbed=HELD_UP), sheets, held_ns=HELD_NS)
    assert (found.limit, found.place, found.doubt) == (limit, drop.place, None)


def test_a_counter_of_more_drops_than_frames_are_missing_counts_other_traffic_too() -> None:
    """The sentence has no more lost frames than there are, and says that it is not certain whose they were."""
    found = judged(result(lost=350), dropped(AtPort(port="dut.eth0"), 1_986))
    assert "350 of 350 lost frames were dropped at dut.eth0" in in_words(found.seen)
    assert "other traffic" in in_words(found.doubt)


def test_a_reason_that_may_be_that_of_others_makes_no_certain_verdict() -> None:
    """The kernel's reasons are those of all its work: a rule elsewhere may have dropped what it counts."""
    drop = Drop(
        AtPort(port="dut.eth0"),
        NotPassedOnFor(reason="NETFILTER_DROP", out="dut.eth1"),
        100,
        "NETFILTER_DROP",
        OTHERS,
    )
    found = judged(result(), [Balance("a->b", 10_000, 9_900, (drop,), 0)])
    assert (found.limit, found.place, found.doubt) == (Limit.RULE, AtPort(port="dut.eth0"), OTHERS)


def test_a_queue_whose_counters_began_again_puts_what_is_blamed_in_doubt() -> None:
    """What it dropped before is not known, and may have been most; a trial without loss is sure."""
    evidence = LoadReadings(balances=AT_DUT, begun_again=("dut.eth1",))
    assert "the queue at dut.eth1 were reset" in in_words(judge(result(), 1e-4, evidence).doubt)
    assert not judged(result(lost=0), begun_again=("dut.eth1",)).doubt


def test_losses_from_several_causes_are_all_told() -> None:
    """Two directions, two causes: the larger is named, the other stands beside it."""
    sheets = [
        Balance("a->b", 5_000, 4_940, (Drop(AtPort(port="dut.eth0"), RING_FULL, 60),), 0),
        Balance("b->a", 5_000, 4_960, (Drop(AtPort(port="dut.eth1"), QDISC, 40),), 0),
    ]
    found = judged(result(), sheets)
    assert (found.limit, found.place, found.doubt) == (Limit.HOP, AtPort(port="dut.eth0"), None)
    assert "another 40 frames were dropped at dut.eth1 (qdisc)" in in_words(found.seen)


def test_losses_at_many_places_are_named_with_doubt() -> None:
    """No place has most of them, though counters tell of all."""
    drops = tuple(Drop(AtPort(port=f"dut.eth{number}"), RING_FULL, 25) for number in range(4))
    found = judged(result(), [Balance("a->b", 10_000, 9_900, drops, 0)])
    assert found.limit is Limit.HOP
    assert "several places" in in_words(found.doubt)


def flows(*dead: int, others_lost: int = 0) -> ReceiverReport:
    """A receiver of ten flows of 1000 frames."""
    rows = [FlowReport(flow, 1_000, 0) for flow in dead] + [FlowReport(9, 1_000, 1_000 - others_lost)] * bool(
        others_lost
    )
    return replace(RECEIVED, flows=FlowSummary(10, len(rows), tuple(rows)))


def test_a_flow_of_which_nothing_arrives_is_a_finding_of_its_own() -> None:
    """Nine flows pass whole: no want of time does that. The host is not blamed, and the place is named."""
    dead = dead_flows([flows(3)])
    seen = LoadReadings(balances=dropped(AtPort(port="dut.eth0"), 1_000), dead=dead, held_ns=10**9)
    found = judge(result(lost=1_000, perturbed=HELD_UP), 1e-4, seen)
    assert (found.limit, found.place) == (Limit.FLOWS, AtPort(port="dut.eth0"))
    assert "1 of 10 flows (numbers 3, counted from 0) lost all 1000 frames" in in_words(found.seen)


def test_flows_that_lose_all_like_every_other_are_no_finding() -> None:
    """Where all flows are dead nothing passes, and where others lose most frames a short flow may lose all."""
    assert dead_flows([flows(*range(10))]) is None
    assert dead_flows([flows(others_lost=5)]) is None
    dead = dead_flows([flows(3)])
    assert dead is not None
    assert not explains(replace(dead, fewest_frames=10), result(lost=9_000))


def test_the_receiver_that_takes_the_devices_cpu_is_named_by_its_own_port() -> None:
    """Frames were lost at the device, which is said; what limited it is the instrument's port."""
    receiver = Thread("receiver", "receiver", "tester.p1", 1, 0.7)
    threads = [replace(DEVICE, busy_ratio=0.2), receiver]
    found = judged(result(), AT_DUT, cpus=[BUSY], threads=threads)
    assert (found.limit, found.place) == (Limit.RECEIVER, AtPort(port="tester.p1"))
    assert "dropped at dut.eth0" in in_words(found.seen)
