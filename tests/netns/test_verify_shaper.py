"""`iolab verify-shaper` on a kernel: a conforming shaper passes, and another one fails with advice."""

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
def test_shaper_that_conforms_to_rate_and_burst_passes_the_check(
    iolab: Iolab, tmp_path: Path, shape: str
) -> None:
    """Check all scales; accept stalls of a busy host as inconclusive.

    On a stalled host, a scale may be inconclusive; then the host is named.
    """
    done = judged(iolab, tmp_path, shape)
    verdict = {0: "pass", 3: "inconclusive"}.get(done.returncode)
    assert verdict, done.stdout + done.stderr
    assert f"wire, tcp  block 1: {verdict}" in done.stdout
    lines = [line for line in done.stdout.splitlines() if "busiest window" in line]
    assert len(lines) == 4
    assert all(line.endswith("ok") or "inconclusive: " in line for line in lines)


def test_shaper_that_sends_super_frames_fails_the_check_with_advice(iolab: Iolab, tmp_path: Path) -> None:
    """Check htb's super-frames of 64 KB in a window of 12 us.

    On a host with interference, the check gives no verdict.
    """
    done = judged(iolab, tmp_path, "qdisc: htb, burst: 2K")
    verdict = {1: "FAIL", 3: "inconclusive"}.get(done.returncode)
    assert verdict, done.stdout + done.stderr
    assert f"block 1: {verdict}" in done.stdout
    (first,) = [line for line in done.stdout.splitlines() if "busiest window" in line and " 12 " in line]
    assert first.endswith("FAIL") or "inconclusive: " in first
    assert "set gso_max_segs to 1" in done.stdout
