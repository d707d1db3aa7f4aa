"""An ordinary user's watch by AF_PACKET and capture on a port, in the agent's namespaces."""

import pytest
from tests.netns.runs import Measured

from iolab.results.trial import Status
from iolab.store.read import load_run

pytestmark = pytest.mark.netns
EXPERIMENT = """
title: A user's look
lab:
  machines: {left: {kind: netns}, right: {kind: netns}}
  links: {path: {ends: [left.eth0, right.eth0]}}
measure:
  udp: {kind: stream, protocol: udp, from: left, to: right, rate: 8Mbit, length: 1000, duration: 1s, watch: [path],
        capture: [{at: right.eth0, filter: {protocol: udp}}]}
"""


def test_ordinary_user_watches_and_captures_every_frame(measured_by_user: Measured) -> None:
    """Compare the watch's windows with interface counters, and the capture with the stream."""
    (record,) = load_run(measured_by_user(EXPERIMENT)).trials
    result = record.result
    assert result.status is Status.OK, result.reason
    codes = {warning.code for warning in result.warnings}
    assert "watch-by-packets" in codes
    assert not codes & {"watch-disagrees", "watch-lost", "capture-lost"}
    seen = {
        metric.dimensions.direction: metric.value
        for metric in result.metrics.named("watched_frames")
        if metric.dimensions.flow is None
    }
    assert seen["left.eth0->right.eth0"] >= 950, "a megabyte in datagrams of 1000 bytes"
    (captured,) = result.metrics.named("captured_frames")
    assert 950 <= captured.value <= seen["left.eth0->right.eth0"] + seen["right.eth0->left.eth0"]
