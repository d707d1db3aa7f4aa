"""Shaper checks by windows of four lengths: passes, failures, and suggestions."""

from collections.abc import Sequence

import pytest

from iolab.analysis.shaper_check import SCALES_NS, Judged, Kind, judge
from iolab.analysis.shaper_classes import Kept
from iolab.errors import InputError
from iolab.experiment import Resolver, cells, parse
from iolab.messages.instrument_warnings import PacerSlipped, WatchStolen
from iolab.messages.warnings import TrialWarning
from iolab.results.metric import Dimensions, Metric, Metrics

TEXT = """
lab:
  machines: {a: {kind: netns}, b: {kind: netns}}
  links: {x: {ends: [a.eth0, b.eth0], shape: SHAPE}}
measure: {tcp: {kind: stream, from: a, to: b, duration: 1s}}
"""
FRAME_BYTES = 1514
EVEN = {scale: 100e6 + FRAME_BYTES * 8e9 / scale for scale in SCALES_NS}
"""Maximum in each window of a stream of 100 Mbit/s, one frame per gap."""
TRAINS = {scale: 100e6 + 45 * FRAME_BYTES * 8e9 / scale for scale in SCALES_NS}
"""The same for a stream of super-frames."""


def judged(
    shape: str,
    most: dict[int, float],
    mean_bps: float = 99.9e6,
    direction: str = "a.eth0->b.eth0",
    warnings: Sequence[TrialWarning] = (),
) -> Judged:
    """Return the result for a shaper on a.eth0."""
    experiment = parse(TEXT.replace("SHAPE", f"{{at: a.eth0, rate: 100Mbit, {shape}}}"), "file.yaml")
    setup = Resolver(experiment).setup(next(cells(experiment)))
    metrics = Metrics(
        Metric(name, "bit/s", value, Dimensions(direction=direction, window_ns=scale))
        for scale, value in most.items()
        for name, value in (("window_rate_max_bps", value), ("window_rate_mean_bps", mean_bps))
    )
    ((link, found),) = judge(setup, "tcp", metrics, warnings=warnings)
    assert link == "x"
    return found


@pytest.mark.parametrize("shape", ["qdisc: pacer", "qdisc: htb, burst: 2K", "qdisc: tbf, burst: 32K"])
@pytest.mark.parametrize("direction", ["a.eth0->b.eth0", "->b.eth0"])
def test_shaper_that_sends_one_frame_per_gap_passes_the_check(shape: str, direction: str) -> None:
    """Accept one frame more, too, and the allowed burst."""
    found = judged(shape, EVEN, direction=direction)
    assert (found.passed, found.advice) == (True, ())
    assert [check.window_ns for check in found.checks if check.what is Kept.WINDOW] == list(SCALES_NS)


def test_trains_longer_than_the_burst_fail_and_a_lower_gso_max_segs_is_suggested() -> None:
    """Accept a burst within the limit, and refuse a larger train."""
    assert judged("qdisc: tbf, burst: 100K", TRAINS).passed
    found = judged("qdisc: htb, burst: 10K", TRAINS)
    assert not found.passed
    assert {advice.key: advice.value for advice in found.advice} == {"gso_max_segs": 6, "burst": 10_240}


def test_burst_of_two_frames_is_suggested_for_a_pacer_that_catches_up_too_fast() -> None:
    """Keep an existing burst; do not judge a rate that the host reduced."""
    (advice,) = judged("qdisc: pacer", TRAINS).advice
    assert (advice.key, advice.value) == ("burst", 3036)
    assert judged("qdisc: pacer, burst: 100K", TRAINS).passed
    assert judged("qdisc: pacer, burst: 3036", TRAINS).advice == ()
    slipped = (PacerSlipped(link="x", direction="a.eth0->b.eth0", lost_ratio=0.05),)
    assert (
        judged("qdisc: pacer, burst: 3036", EVEN, mean_bps=95e6, warnings=slipped).verdict is Kind.NOT_JUDGED
    )


def test_rate_that_is_not_reached_fails_and_a_larger_burst_is_suggested() -> None:
    """Suggest a bucket for one timer tick, and a queue of 50 ms."""
    found = judged("qdisc: tbf, burst: 2K", EVEN, mean_bps=30e6)
    assert [check.held for check in found.checks] == [True, False, True, True, True, True]
    assert {advice.key: advice.value for advice in found.advice} == {"burst": 50_000, "limit": 625_000}


def test_rate_more_than_1_percent_too_high_fails() -> None:
    """Refuse a rate that is more than one percent too high."""
    assert not judged("qdisc: pacer", EVEN, mean_bps=102e6).passed
    assert judged("qdisc: pacer", EVEN, mean_bps=100.5e6).passed


def test_cpu_steal_excuses_a_low_rate_and_trains_but_not_a_high_rate() -> None:
    """Excuse only what a wait for a CPU explains; no wait makes a host send more."""
    stolen = (WatchStolen(at="b.eth0", stolen_ratio=0.2),)
    assert judged("qdisc: pacer", EVEN, mean_bps=95e6, warnings=stolen).verdict is Kind.NOT_JUDGED
    assert judged("qdisc: pacer", TRAINS, warnings=stolen).verdict is Kind.NOT_JUDGED
    assert judged("qdisc: pacer", EVEN, mean_bps=102e6, warnings=stolen).verdict is Kind.FAILED


def test_unwatched_shaper_is_an_error_that_names_the_watch_to_add() -> None:
    """Refuse windows before the shaper."""
    with pytest.raises(InputError, match=r"watch: \[b\.eth0\]"):
        judged("qdisc: pacer", EVEN, direction="b.eth0->a.eth0")
