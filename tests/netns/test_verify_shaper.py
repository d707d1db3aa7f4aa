"""`iolab verify-shaper` on a kernel: a shaper that keeps its word passes, and one that does not fails, with advice."""

import subprocess
from pathlib import Path

import pytest
from tests.netns.runs import Iolab

pytestmark = pytest.mark.netns

EXPERIMENT = """
title: A shaper
lab:
  machines: {near: {kind: netns}, far: {kind: netns}}
  links: {wire: {ends: [near.eth0, far.eth0], shape: {at: near.eth0, rate: 100Mbit, SHAPE}}}
measure:
  tcp: {kind: stream, from: near, to: far, duration: 2s, watch: [far.eth0]}
"""


def judged(iolab: Iolab, folder: Path, shape: str) -> subprocess.CompletedProcess[str]:
    """Judge a shaper of 100 Mbit/s."""
    path = folder / "shaper.yaml"
    path.write_text(EXPERIMENT.replace("SHAPE", shape))
    return iolab("verify-shaper", path)


@pytest.mark.parametrize("shape", ["qdisc: tbf, burst: 32K, limit: 500K", "qdisc: pacer"])
def test_a_shaper_that_keeps_rate_and_burst_passes(iolab: Iolab, tmp_path: Path, shape: str) -> None:
    """At every scale no window holds more than was asked for.

    On a host that is held up some do: that is no verdict, and the host is named.
    """
    done = judged(iolab, tmp_path, shape)
    verdict = {0: "pass", 3: "inconclusive"}.get(done.returncode)
    assert verdict, done.stdout + done.stderr
    assert f"wire, tcp  block 1: {verdict}" in done.stdout
    lines = [line for line in done.stdout.splitlines() if "busiest window" in line]
    assert len(lines) == 4
    assert all(line.endswith("ok") or "inconclusive: " in line for line in lines)


def test_a_shaper_that_sends_super_frames_at_once_fails_with_advice(iolab: Iolab, tmp_path: Path) -> None:
    """htb sends a super-frame whole, however small its bucket: 64 KB in one window of 12 us.

    On a host that is busy with other work that is no verdict.
    """
    done = judged(iolab, tmp_path, "qdisc: htb, burst: 2K")
    verdict = {1: "FAIL", 3: "inconclusive"}.get(done.returncode)
    assert verdict, done.stdout + done.stderr
    assert f"block 1: {verdict}" in done.stdout
    (first,) = [line for line in done.stdout.splitlines() if "busiest window" in line and " 12 " in line]
    assert first.endswith("FAIL") or "inconclusive: " in first
    assert "set gso_max_segs to 1" in done.stdout
