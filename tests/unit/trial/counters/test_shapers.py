"""Shapers: a shaper at its rate is the cause of losses at it or before it, by its own counters."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.trial.load_trials import lab
from tests.unit.trial.sheets import PORTS, WAY
from tests.unit.trial.zeros import zeros
from tests.wording import in_words

from iolab.agent.answers import Observation, Reading
from iolab.agent.messages import QdiscCounters
from iolab.experiment.model.links import Link, Shape, ShapeClass
from iolab.experiment.model.quantities import PortRef
from iolab.messages.evidence import CpuStolen, ShaperPassed
from iolab.messages.places import AtDevice, AtPort
from iolab.results.packets import Balance, Drop, Shaper
from iolab.results.search import LoadResult, Steady
from iolab.results.verdict import CpuUse, Limit, Thread
from iolab.trial.counters.differences import Counted, Snapshot
from iolab.trial.counters.drops import QDISC, RING_FULL, RULE
from iolab.trial.counters.shapers import bypassed, credit_bytes, shapers
from iolab.trial.packets.verdict import LoadReadings, judge

RATE_BPS = 48_000_000
"""100 000 frames/s of 60 bytes."""
TBF = Shaper(
    place="dut.eth1", kind="tbf", offered_frames=5600, passed_frames=5600, passed_bytes=336_000, dropped_frames=0,
    held_back=1900, rates_bps=(RATE_BPS,),
)  # fmt: skip
CREDIT = 36_000
"""Burst of its bucket: 600 frames."""
OVERLOAD = LoadResult(
    intended_fps=5e6,
    duration_ns=50_000_000,
    intended_frames=250_000,
    offered_frames=38_000,
    forwarded_frames=5_600,
)
"""50 ms of ten times the shaper's rate, which exceeds the sender's rate, too."""
BEFORE_IT = (Drop(AtPort(port="dut.eth0"), RING_FULL, 32_400),)


def seen(drops: tuple[Drop, ...] = BEFORE_IT, shaper: Shaper = TBF, unexplained: int = 0) -> LoadReadings:
    """Return the readings of the overload."""
    sheet = Balance("a->b", 38_000, 5_600, drops, unexplained)
    busy = Thread("napi/eth0-1", "device", "dut.eth0", 1, 0.67, 0.32)
    return LoadReadings(
        balances=[sheet],
        cpus=[CpuUse(1, 1.0, 0.0, 0.0)],
        threads=[busy],
        shapers=[shaper],
        directions=[WAY],
        credit_bytes={"dut.eth1": CREDIT},
    )


def snapshot(rows: Sequence[QdiscCounters]) -> Snapshot:
    """Return a reading of qdiscs."""
    one = Observation(sampler="qdiscs", netns="iolab-dut", begin_ns=0, end_ns=0, qdiscs=tuple(rows))
    return Snapshot(Reading((one,)), {})


def test_shaper_at_its_rate_is_the_limit_if_the_ring_before_the_shaper_is_full() -> None:
    """Blame neither the waiting feeder thread nor the sender's shortage."""
    found = judge(OVERLOAD, 1e-3, seen())
    assert (found.limit, found.place, found.doubt) == (Limit.SHAPER, AtPort(port="dut.eth1"), None)
    assert "a configured rate of 48 Mbit/s" in in_words(found.seen)
    assert "dropped at dut.eth0 (ring full)" in in_words(found.seen)


def test_shaper_below_its_rate_is_not_the_limit() -> None:
    """Consider the ring's own thread at half of the rate, or without delayed frames."""
    for shaper in (replace(TBF, passed_bytes=140_000), replace(TBF, held_back=0)):
        assert judge(
            replace(OVERLOAD, intended_fps=7e5, intended_frames=38_000), 1e-3, seen(shaper=shaper)
        ).limit in (
            Limit.CPU,
            Limit.HOP,
        )


def test_shaper_that_queued_the_excess_is_the_limit_even_without_loss() -> None:
    """Check a short overload that arrived mostly after the generator's end."""
    held = replace(
        OVERLOAD,
        offered_frames=5_600,
        forwarded_frames=5_600,
        late_frames=4_000,
        steady=Steady(0.9, 5_000, 1_500),
    )
    found = judge(held, 1e-3, seen(drops=()))
    assert (found.limit, found.place) == (Limit.SHAPER, AtPort(port="dut.eth1"))
    assert "4000 of 5600 frames arrived only after the sender had stopped" in in_words(found.seen)
    assert judge(replace(held, steady=None), 1e-3, seen(drops=())).limit is Limit.GENERATOR


def test_loss_at_a_load_below_the_shapers_rate_is_not_caused_by_the_shaper() -> None:
    """Check 97 % of its rate, and a stall that releases frames at once."""
    calm = replace(
        OVERLOAD, intended_fps=97_000, intended_frames=4_850, offered_frames=4_850, forwarded_frames=4_800,
        perturbations=(CpuStolen(stolen_ns=2_000_000),), held_ns=2_000_000,
    )  # fmt: skip
    passed = replace(TBF, passed_frames=4_800, passed_bytes=288_000, held_back=40)
    evidence = replace(seen((Drop(AtPort(port="dut.eth0"), RING_FULL, 50),), passed), held_ns=2_000_000)
    assert judge(calm, 1e-3, evidence).limit is Limit.HOST


def test_drops_at_a_shaper_below_its_rate_are_caused_by_the_shaper() -> None:
    """Allow for a queue that is too short for bursts."""
    found = judge(
        OVERLOAD,
        1e-3,
        seen((Drop(AtPort(port="dut.eth1"), QDISC, 32_400),), replace(TBF, passed_bytes=140_000)),
    )
    assert (found.limit, found.place) == (Limit.SHAPER, AtPort(port="dut.eth1"))


def test_policer_before_a_shaper_is_the_cause_of_its_own_drops() -> None:
    """Do not explain drops by a decision, or after the shaper, by its rate."""
    by_rule = seen((Drop(AtDevice(port="dut.eth0"), RULE, 32_400),))
    assert judge(OVERLOAD, 1e-3, by_rule).limit is not Limit.SHAPER
    assert (
        judge(OVERLOAD, 1e-3, seen((Drop(AtPort(port="tester.p1"), RING_FULL, 32_400),))).limit
        is not Limit.SHAPER
    )


def test_shaper_or_policer_is_named_if_it_is_the_larger_cause_and_the_other_is_mentioned() -> None:
    """Check two causes at once."""
    found = judge(
        OVERLOAD,
        1e-3,
        seen((Drop(AtPort(port="dut.eth1"), QDISC, 25_000), Drop(AtDevice(port="dut.eth0"), RULE, 7_400))),
    )
    assert (found.limit, found.place) == (Limit.SHAPER, AtPort(port="dut.eth1"))
    assert "7400 more frames were dropped at device dut.eth0 (rule)" in in_words(found.seen)


def test_shaper_with_unknown_rate_is_named_with_doubt() -> None:
    """Doubt it, because its counters do not show its rate."""
    found = judge(OVERLOAD, 1e-3, seen(shaper=replace(TBF, rates_bps=())))
    assert found.limit is Limit.SHAPER
    assert "not part of the lab" in in_words(found.doubt)


BURST = LoadResult(
    intended_fps=127_997,
    duration_ns=501_000_000,
    intended_frames=64_126,
    offered_frames=64_126,
    forwarded_frames=59_970,
    steady=Steady(0.3, 19_238, 15_032),
)
"""A bucket of unknown rate whose credit passes all frames for most of the trial."""


def test_token_bucket_is_judged_after_its_credit_is_used_up() -> None:
    """Check one that delayed 8 % of the frames, all in less than a third of the trial."""
    bucket = replace(TBF, passed_frames=60_005, passed_bytes=30_482_540, held_back=4_973, rates_bps=())
    found = judge(BURST, 1e-3, seen((Drop(AtPort(port="dut.eth0"), RING_FULL, 4_156),), bucket))
    assert (found.limit, found.place) == (Limit.SHAPER, AtPort(port="dut.eth1"))
    assert found.doubt


def test_cpu_limit_is_doubtful_if_a_shaper_behind_it_delayed_frames() -> None:
    """Leave no doubt if the shaper never delayed a frame."""
    bucket = replace(TBF, passed_frames=60_005, passed_bytes=30_482_540, held_back=600, rates_bps=())
    drops = (Drop(AtPort(port="dut.eth0"), RING_FULL, 4_156),)
    found = judge(BURST, 1e-3, seen(drops, bucket))
    assert found.limit is not Limit.SHAPER
    assert "the tbf shaper on dut.eth1 delayed frames 600 times" in in_words(found.doubt)
    assert not judge(BURST, 1e-3, seen(drops, replace(bucket, held_back=0))).doubt


def test_unexplained_loss_makes_the_verdict_doubtful() -> None:
    """Doubt the shaper, although it was at its rate."""
    found = judge(OVERLOAD, 1e-3, seen((), unexplained=32_400))
    assert found.limit is Limit.SHAPER
    assert "no drop counter" in in_words(found.doubt)


@pytest.mark.parametrize("kind", ["tbf", "htb"])
def test_shapers_are_read_with_their_configured_rates(kind: str) -> None:
    """Use counter differences of the root qdisc."""
    plain = lab()
    east = Link(
        ends=(PortRef("tester.p1"), PortRef("dut.eth1")),
        shape=Shape(at=PortRef("dut.eth1"), qdisc="tbf", rate=RATE_BPS),
    )
    shaped = replace(plain, links={**plain.links, "east": east})
    rows = [
        zeros(
            QdiscCounters,
            interface="eth1",
            handle="1:",
            parent=parent,
            drops=7,
            kind=kind,
            packets=600,
            bytes=36_000,
            overlimits=200,
        )
        for parent in ("root", "1:1")
    ]
    before, after = (
        snapshot(those)
        for those in ([replace(row, drops=0, packets=100, bytes=6_000, overlimits=0) for row in rows], rows)
    )
    counted = Counted(PORTS, before, after)
    assert counted.qdisc_drops("dut.eth1") == 7
    (found,) = shapers(shaped, [WAY], counted)
    assert (found.place, found.kind, found.rates_bps) == ("dut.eth1", kind, (RATE_BPS,))
    assert (found.passed_frames, found.passed_bytes, found.held_back) == (500, 30_000, 200)


def test_shaper_bypassed_by_af_xdp_frames_is_detected() -> None:
    """Check frames of an AF_XDP socket."""
    assert bypassed([replace(TBF, passed_frames=0), TBF]) == (replace(TBF, passed_frames=0),)


@given(
    rate_bps=st.integers(1_000_000, 1_000_000_000),
    credit=st.integers(0, 300_000),
    queue_bytes=st.integers(0, 2_000_000),
    duration_ms=st.sampled_from((20, 50, 500, 3_000)),
    load=st.floats(0.2, 20.0),
    held_ms=st.integers(0, 200),
)
def test_verdict_never_states_more_than_the_shapers_rate(
    rate_bps: int, credit: int, queue_bytes: int, duration_ms: int, load: float, held_ms: int
) -> None:
    """Exclude a full bucket at the beginning, and the queue drained after the end."""
    duration_ns, frame = duration_ms * 1_000_000, 60
    at_rate = rate_bps * duration_ms // 8_000
    offered = int(at_rate * load) // frame * frame
    in_time = min(offered, at_rate + credit)
    late = min(offered - in_time, queue_bytes)
    passed = (in_time + late) // frame
    result = LoadResult(
        intended_fps=offered / frame / duration_ms * 1000, duration_ns=duration_ns, held_ns=held_ms * 1_000_000,
        intended_frames=offered // frame, offered_frames=offered // frame, forwarded_frames=passed,
        late_frames=late // frame,
    )  # fmt: skip
    lost = offered // frame - passed
    shaper = replace(
        TBF, passed_frames=passed, passed_bytes=passed * frame, held_back=passed // 3, rates_bps=(rate_bps,)
    )
    evidence = replace(
        seen((Drop(AtPort(port="dut.eth1"), QDISC, lost),), shaper),
        late_frames=(late // frame,), credit_bytes={"dut.eth1": credit},
    )  # fmt: skip
    said = [one for one in judge(result, 1e-3, evidence).seen if isinstance(one, ShaperPassed)]
    assert all(one.passed_bps <= one.rate_bps / 0.95 for one in said)


def test_credit_of_a_shape_includes_its_own_bucket_and_those_of_its_classes() -> None:
    """Assume 10 ms of its rate for a bucket without a size."""
    sized = Shape(at=PortRef("dut.eth1"), qdisc="tbf", rate=RATE_BPS, burst=5_000)
    several = Shape(
        at=PortRef("dut.eth1"), qdisc="htb", rate=80_000_000,
        classes={"one": ShapeClass(rate=40_000_000, burst=9_000)},
    )  # fmt: skip
    for shape, expected in ((sized, 5_000), (several, 100_000 + 9_000)):
        east = Link(ends=(PortRef("tester.p1"), PortRef("dut.eth1")), shape=shape)
        assert credit_bytes(replace(lab(), links={"east": east})) == {"dut.eth1": expected}


def test_classes_that_share_a_port_are_judged_by_the_rate_of_the_port() -> None:
    """Accept 44 Mbit/s of two classes at 20 and 24, below the port's 48."""
    both = replace(TBF, passed_bytes=275_000, rates_bps=(RATE_BPS, 20_000_000, 24_000_000))
    found = judge(OVERLOAD, 1e-3, seen((Drop(AtPort(port="dut.eth1"), QDISC, 32_400),), both))
    (said,) = [one for one in found.seen if isinstance(one, ShaperPassed)]
    assert (said.passed_bps, said.rate_bps) == (44_000_000, RATE_BPS)
