"""A shaper judged by windows of four lengths: what passes, what fails, and what is suggested."""

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
"""Most in each window of a stream of 100 Mbit/s, one frame per gap."""
TRAINS = {scale: 100e6 + 45 * FRAME_BYTES * 8e9 / scale for scale in SCALES_NS}
"""The same of one that comes in super-frames."""


def judged(
    shape: str,
    most: dict[int, float],
    mean_bps: float = 99.9e6,
    direction: str = "a.eth0->b.eth0",
    warnings: Sequence[TrialWarning] = (),
) -> Judged:
    """Return what is found of a shaper at a.eth0."""
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
def test_one_frame_per_gap_passes(shape: str, direction: str) -> None:
    """As does one frame more, or what the burst allows."""
    found = judged(shape, EVEN, direction=direction)
    assert (found.passed, found.advice) == (True, ())
    assert [check.window_ns for check in found.checks if check.what is Kept.WINDOW] == list(SCALES_NS)


def test_trains_beyond_the_burst_fail_and_shorter_super_frames_are_suggested() -> None:
    """What the burst allows passes; a larger train than it does not."""
    assert judged("qdisc: tbf, burst: 100K", TRAINS).passed
    found = judged("qdisc: htb, burst: 10K", TRAINS)
    assert not found.passed
    assert {advice.key: advice.value for advice in found.advice} == {"gso_max_segs": 6, "burst": 10_240}


def test_a_pacer_that_caught_up_too_fast_is_suggested_a_burst_of_two_frames() -> None:
    """One that has a burst keeps that; where its host cost it rate, the rate is not judged."""
    (advice,) = judged("qdisc: pacer", TRAINS).advice
    assert (advice.key, advice.value) == ("burst", 3036)
    assert judged("qdisc: pacer, burst: 100K", TRAINS).passed
    assert judged("qdisc: pacer, burst: 3036", TRAINS).advice == ()
    slipped = (PacerSlipped(link="x", direction="a.eth0->b.eth0", lost_ratio=0.05),)
    assert (
        judged("qdisc: pacer, burst: 3036", EVEN, mean_bps=95e6, warnings=slipped).verdict is Kind.NOT_JUDGED
    )


def test_a_rate_that_is_not_reached_fails_and_a_larger_bucket_is_suggested() -> None:
    """The bucket holds what a timer tick brings, the queue 50 ms."""
    found = judged("qdisc: tbf, burst: 2K", EVEN, mean_bps=30e6)
    assert [check.held for check in found.checks] == [True, False, True, True, True, True]
    assert {advice.key: advice.value for advice in found.advice} == {"burst": 50_000, "limit": 625_000}


def test_a_rate_above_the_asked_one_fails() -> None:
    """By more than one percent."""
    assert not judged("qdisc: pacer", EVEN, mean_bps=102e6).passed
    assert judged("qdisc: pacer", EVEN, mean_bps=100.5e6).passed


def test_a_host_without_cpus_excuses_too_little_and_trains_but_no_rate_above_the_asked_one() -> None:
    """What sends less, or at once, may have waited; nothing makes a host send more."""
    stolen = (WatchStolen(at="b.eth0", stolen_ratio=0.2),)
    assert judged("qdisc: pacer", EVEN, mean_bps=95e6, warnings=stolen).verdict is Kind.NOT_JUDGED
    assert judged("qdisc: pacer", TRAINS, warnings=stolen).verdict is Kind.NOT_JUDGED
    assert judged("qdisc: pacer", EVEN, mean_bps=102e6, warnings=stolen).verdict is Kind.FAILED


def test_a_shaper_that_nothing_watches_is_an_error_that_says_what_to_add() -> None:
    """Windows before the shaper are no windows behind it."""
    with pytest.raises(InputError, match=r"watch: \[b\.eth0\]"):
        judged("qdisc: pacer", EVEN, direction="b.eth0->a.eth0")
