"""The wire monitor on a kernel: exact bytes of streams, with and without super-frames, behind a shaper, by flow."""

import pytest
from tests.netns.runs import Measured

from iolab.results.metric import Dimensions
from iolab.results.series import Over, Series
from iolab.results.trial import Status, TrialResult
from iolab.store.read import load_run
from iolab.store.series import read_series

pytestmark = pytest.mark.netns

EXPERIMENT = """
title: A watch
lab:
  machines:
    left: {kind: netns}
    right: {kind: netns}
  links:
    wire: {ends: [left.eth0, right.eth0], shape: {at: left.eth0, qdisc: tbf, rate: 200Mbit, burst: 32K, limit: 500K}}
measure:
  tcp:
    kind: stream
    protocol: tcp
    flows: [{from: left, to: right}, {from: left, to: right}]
    duration: 1s
    watch: [{at: left.eth0, window: [12us, 100us, 10ms], line: 1Gbit, flows: 8}]
factors:
  links.wire.offload:
    joined: {tso: on, gso: on}
    apart: {tso: off, gso: off}
"""
THERE = "left.eth0->right.eth0"
DISAGREES = "watch-disagrees"


def test_watch_windows_contain_every_byte_behind_the_shaper(measured: Measured) -> None:
    """Check with and without super-frames."""
    folder = measured(EXPERIMENT)
    trials = load_run(folder).trials
    assert len(trials) == 2
    for record in trials:
        result = record.result
        assert result.status is Status.OK, result.reason
        assert not {warning.code for warning in result.warnings} & {DISAGREES, "watch-lost"}, result.warnings
        check_figures(result)
        series = read_series(folder, record.key)
        check_series(result, {(each.name, each.dimensions): each for each in series})


def figure(result: TrialResult, name: str, **about: object) -> float:
    """Return a figure of the forward direction."""
    found = result.metrics.get(name, Dimensions(direction=THERE, **about))  # type: ignore[arg-type]
    assert found is not None, f"{name} {about}"
    return found.value


def check_figures(result: TrialResult) -> None:
    """Check that the rate is the shaper's, the line's view carries the same, and each flow has separate figures."""
    sent = figure(result, "watched_bytes")
    for part in (None, "line"):
        mean = figure(result, "window_rate_mean_bps", window_ns=10_000_000, part=part)
        assert mean == pytest.approx(200e6, rel=0.35), "tcp fills the shaper"
    assert figure(result, "window_rate_max_bps", window_ns=12_000, part="line") <= 1e9
    flows = [
        each.value
        for each in result.metrics.named("watched_bytes")
        if each.dimensions.direction == THERE and each.dimensions.flow is not None
    ]
    assert len(flows) >= 4, "two streams and their control connections"
    assert sum(flows) == pytest.approx(sent, rel=0.01), "what is not IP is the rest"


def check_series(result: TrialResult, series: dict[tuple[str, Dimensions], Series]) -> None:
    """Check that the windows of the series add up to the figures."""
    for window_ns in (12_000, 100_000, 10_000_000):
        for name, total in (("window_bytes", "watched_bytes"), ("window_frames", "watched_frames")):
            found = series[name, Dimensions(direction=THERE, window_ns=window_ns)]
            assert found.over is Over.WINDOWS
            assert found.values.sum() == figure(result, total)
