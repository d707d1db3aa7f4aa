"""Verdicts: the limit of a trial, from figures that show it, never a guess."""

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


def test_frames_due_during_a_host_stall_are_excused() -> None:
    """Excuse 40 ms of a second, but not a slow sender without a stall."""
    held = replace(SENT, offered_frames=950, stalls=(stall(40_000_000),))
    assert excused_frames(held) == 40
    assert excused_frames(replace(SENT, offered_frames=990, stalls=(stall(40_000_000),))) == 10
    assert excused_frames(replace(SENT, offered_frames=950)) == 0
    assert excused_frames(replace(SENT, offered_frames=950, stalls=(stall(40_000_000, "no_room"),))) == 0


def test_host_stalls_excuse_at_most_a_tenth_of_the_intended_frames() -> None:
    """Require that 600 ms of stalls do not turn 400 frames into 1000 per second."""
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
"""All lost frames of a trial, at a port of the device."""


def judged(trial: LoadResult, balances: Sequence[Balance] = (), **readings: Any) -> Verdict:
    """Return the verdict on a trial with a loss goal of 1e-4."""
    return judge(trial, 1e-4, LoadReadings(balances=balances, **readings))


def test_generator_that_waited_for_its_cpu_is_named_with_doubt() -> None:
    """Doubt it after a wait of 6 % with a tenth unsent."""
    sending = Thread("generator", "generator", "tester.p0", 0, 0.9, 0.06)
    short = result(lost=0, unsent=1_000)
    waited = judged(short, threads=[sending])
    assert waited.limit is Limit.GENERATOR
    assert "waited for a CPU for 6 %" in in_words(waited.doubt)
    assert judged(short, threads=[replace(sending, wait_ratio=0.01)]).doubt is None
    beyond = LoadReadings(threads=[sending], ceilings=Ceilings(generator_fps=9_000))
    assert judge(short, 1e-3, beyond).doubt is None, "no CPU lets it send more than its ceiling"


HELD_NS = 50_000_000
"""Stall time of threads on a disturbed host [ns]: 500 frames of a trial's 10 000."""
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
def test_verdict_follows_from_the_figures(
    trial: LoadResult, sheets: list[Balance], cpus: list[CpuUse], threads: list[Thread], limit: Limit
) -> None:
    """State each cause with its figures; leave others unexplained, however busy a CPU is."""
    found = judged(trial, sheets, cpus=cpus, threads=threads, held_ns=HELD_NS)
    assert found.limit is limit
    assert any(character.isdigit() for character in in_words(found.seen))


def test_receiver_is_named_with_doubt_if_others_used_as_much_of_the_devices_cpu() -> None:
    """Check a device that is idle half of the time: 40 % of its CPU to the receiver, 36 % to others."""
    device = Thread("napi/eth0-1", "device", "dut.eth0", 1, 0.24, 0.49)
    for receives, doubtful in ((0.40, True), (0.70, False)):
        arrivals = Thread("napi/p1-2", "napi", "tester.p1", 1, receives)
        found = judged(result(), AT_DUT, cpus=[CpuUse(1, 1.0, 0.0, 0.0)], threads=[device, arrivals])  # fmt: skip
        assert (found.limit, found.place) == (Limit.RECEIVER, AtPort(port="tester.p1"))
        assert bool(found.doubt) == doubtful


@pytest.mark.parametrize(("held_ms", "limit"), [(50, Limit.HOST), (4, Limit.HOP)])
def test_disturbed_host_is_blamed_only_for_the_frames_of_its_stalls(held_ms: int, limit: Limit) -> None:
    """Require 10 ms for 100 frames at 10 000/s, or 5 in a burst; 4 ms do not suffice."""
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
def test_verdict_considers_the_calibrated_limits_of_the_instrument(
    trial: LoadResult, sheets: list[Balance], ceilings: Ceilings, limit: Limit
) -> None:
    """Limit a load above the generator's maximum to the generator, and one at the receiver's to the receiver."""
    found = judged(trial, sheets, cpus=[CALM], ceilings=ceilings, held_ns=HELD_NS)
    assert found.limit is limit
    assert ("calibrat" in in_words(found.seen)) == (limit in (Limit.GENERATOR, Limit.RECEIVER))


def test_saturated_thread_is_the_limit_whatever_the_receivers_maximum_rate() -> None:
    """Prefer the observation to the known maximum."""
    found = judged(result(), AT_DUT, cpus=[BUSY], threads=[DEVICE], ceilings=Ceilings(None, 9_000))
    assert found.limit is Limit.THREAD


def test_maximum_rates_are_those_of_the_paths_in_use() -> None:
    """Use the smaller of two measured frame sizes."""
    known = Calibration({"af_xdp": {64: 2e6, 512: 1e6}, "af_packet": {64: 5e5}}, {"af_packet": 4e5})
    assert known.ceilings("AF_XDP native copy", "AF_PACKET rx-ring", 600) == Ceilings(1e6, 4e5)
    assert known.ceilings("AF_PACKET tx-ring", "AF_XDP native copy", 64) == Ceilings(5e5, None)


def test_only_a_stall_of_at_least_1_ms_is_a_perturbation() -> None:
    """Exclude a full ring; include a stall of 2 ms and two ticks of steal."""
    calm = replace(SENT, stalls=(stall(400_000), stall(5_000_000, "no_room")))
    assert perturbations([calm], [RECEIVED], 0) == ()
    (held,) = perturbations([replace(SENT, stalls=(stall(2_000_000),))], [RECEIVED], 0)
    assert held == HeldUp(code="sender-held-up", port=SENT.port, times=1, longest_ns=2_000_000)
    (stolen,) = perturbations([SENT], [RECEIVED], 20_000_000)
    assert stolen == CpuStolen(stolen_ns=20_000_000)


def constant(calm_frames: int, calm_lost: int) -> LoadResult:
    """Return a trial with 1 % loss on a host with long stalls."""
    return replace(result(perturbed=HELD_UP), calm_frames=calm_frames, calm_lost_frames=calm_lost)


@pytest.mark.parametrize(
    ("trial", "limit", "certain"),
    [
        (constant(3_000, 30), Limit.HOP, True),
        (constant(3_000, 0), Limit.HOST, True),
        (constant(100, 1), Limit.HOST, False),
    ],
)
def test_loss_that_is_equally_frequent_outside_stalls_is_not_blamed_on_the_host(
    trial: LoadResult, limit: Limit, certain: bool
) -> None:
    """Compare ratios, not counts; doubt a short undisturbed time."""
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
def test_drop_by_a_rule_is_never_blamed_on_the_host(drop: Drop, limit: Limit) -> None:
    """Ignore disturbances, because a rule needs no time."""
    sheets = [Balance("a->b", 10_000, 9_900, (drop,), 0)]
    found = judged(result(perturbed=HELD_UP), sheets, held_ns=HELD_NS)
    assert (found.limit, found.place, found.doubt) == (limit, drop.place, None)


def test_drop_counter_above_the_number_of_missing_frames_includes_other_traffic() -> None:
    """State no more losses than exist, and the uncertainty."""
    found = judged(result(lost=350), dropped(AtPort(port="dut.eth0"), 1_986))
    assert "350 of 350 lost frames were dropped at dut.eth0" in in_words(found.seen)
    assert "other traffic" in in_words(found.doubt)


def test_ambiguous_kernel_drop_reason_gives_a_doubtful_verdict() -> None:
    """Allow for foreign drops with the same reason."""
    drop = Drop(
        AtPort(port="dut.eth0"),
        NotPassedOnFor(reason="NETFILTER_DROP", out="dut.eth1"),
        100,
        "NETFILTER_DROP",
        OTHERS,
    )
    found = judged(result(), [Balance("a->b", 10_000, 9_900, (drop,), 0)])
    assert (found.limit, found.place, found.doubt) == (Limit.RULE, AtPort(port="dut.eth0"), OTHERS)


def test_reset_qdisc_counters_make_a_verdict_doubtful() -> None:
    """Leave a trial without loss certain."""
    evidence = LoadReadings(balances=AT_DUT, begun_again=("dut.eth1",))
    assert "the queue at dut.eth1 were reset" in in_words(judge(result(), 1e-4, evidence).doubt)
    assert not judged(result(lost=0), begun_again=("dut.eth1",)).doubt


def test_all_causes_of_loss_are_mentioned() -> None:
    """Name the larger of two directions' causes."""
    sheets = [
        Balance("a->b", 5_000, 4_940, (Drop(AtPort(port="dut.eth0"), RING_FULL, 60),), 0),
        Balance("b->a", 5_000, 4_960, (Drop(AtPort(port="dut.eth1"), QDISC, 40),), 0),
    ]
    found = judged(result(), sheets)
    assert (found.limit, found.place, found.doubt) == (Limit.HOP, AtPort(port="dut.eth0"), None)
    assert "40 more frames were dropped at dut.eth1 (qdisc)" in in_words(found.seen)


def test_losses_at_many_places_are_named_with_doubt() -> None:
    """Doubt it, although counters account for all frames."""
    drops = tuple(Drop(AtPort(port=f"dut.eth{number}"), RING_FULL, 25) for number in range(4))
    found = judged(result(), [Balance("a->b", 10_000, 9_900, drops, 0)])
    assert found.limit is Limit.HOP
    assert "several places" in in_words(found.doubt)


def flows(*dead: int, others_lost: int = 0) -> ReceiverReport:
    """Return the receiver report of ten flows of 1000 frames."""
    rows = [FlowReport(flow, 1_000, 0) for flow in dead] + [FlowReport(9, 1_000, 1_000 - others_lost)] * bool(
        others_lost
    )
    return replace(RECEIVED, flows=FlowSummary(10, len(rows), tuple(rows)))


def test_flow_that_loses_all_frames_gets_a_separate_verdict() -> None:
    """Blame the place, not the host, because nine flows pass completely."""
    dead = dead_flows([flows(3)])
    seen = LoadReadings(balances=dropped(AtPort(port="dut.eth0"), 1_000), dead=dead, held_ns=10**9)
    found = judge(result(lost=1_000, perturbed=HELD_UP), 1e-4, seen)
    assert (found.limit, found.place) == (Limit.FLOWS, AtPort(port="dut.eth0"))
    assert "1 of 10 flows (numbers 3, counted from 0) lost all 1000 frames" in in_words(found.seen)


def test_no_flow_is_reported_separately_if_every_flow_loses_all_frames() -> None:
    """Exclude a short flow under heavy loss."""
    assert dead_flows([flows(*range(10))]) is None
    assert dead_flows([flows(others_lost=5)]) is None
    dead = dead_flows([flows(3)])
    assert dead is not None
    assert not explains(replace(dead, fewest_frames=10), result(lost=9_000))


def test_receiver_that_uses_the_devices_cpu_is_named_by_its_port() -> None:
    """Mention the losses at the device."""
    receiver = Thread("receiver", "receiver", "tester.p1", 1, 0.7)
    threads = [replace(DEVICE, busy_ratio=0.2), receiver]
    found = judged(result(), AT_DUT, cpus=[BUSY], threads=threads)
    assert (found.limit, found.place) == (Limit.RECEIVER, AtPort(port="tester.p1"))
    assert "dropped at dut.eth0" in in_words(found.seen)
