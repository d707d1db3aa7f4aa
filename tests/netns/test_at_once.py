"""Concurrent measures in real namespaces: two streams and a program, each with a separate record."""

from pathlib import Path

import pytest
from tests.netns.runs import Iolab, trials

pytestmark = pytest.mark.netns
LAB = """
title: At once
lab:
  machines:
    near: {kind: netns}
    far: {kind: netns}
  links:
    lan: {ends: [near.eth0, far.eth0]}
measure:
  up: {kind: stream, protocol: udp, from: near, to: far, rate: 5Mbit, duration: 2s}
  down: {kind: stream, from: far, to: near, rate: 5Mbit, duration: 1s}
  probe:
    kind: command
    on: near
    shell: "cat /proc/uptime"
    metrics: {up_s: {unit: s, pattern: '^(\\S+)'}}
  load: {kind: together, of: {up: 0s, down: 500ms, probe: 1s}}
blocks: 1
"""
BROKEN = LAB.replace("cat /proc/uptime", "exit 3")


def test_each_concurrent_measure_has_a_record_with_the_same_time_range(iolab: Iolab, tmp_path: Path) -> None:
    """Check figures and verdicts, without disturbance warnings about each other."""
    file = tmp_path / "lab.yaml"
    file.write_text(LAB)
    planned = iolab("plan", file)
    assert "# in parallel with down, probe, starts at 0 s" in planned.stdout
    assert "--port 5401" in planned.stdout
    ran = iolab("run", file)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    records = {one["measure"]: one for one in trials(folder)}
    assert {name: one["status"] for name, one in records.items()} == dict.fromkeys(
        ("up", "down", "probe"), "ok"
    )
    assert len({one["wall"] for one in records.values()}) == 1
    warned = {warning["code"] for one in records.values() for warning in one["warnings"]}
    assert warned.isdisjoint({"counters-disagree", "foreign-traffic"})


@pytest.mark.full
def test_failure_of_one_concurrent_measure_invalidates_the_others(iolab: Iolab, tmp_path: Path) -> None:
    """Report the failed measure as their reason."""
    file = tmp_path / "lab.yaml"
    file.write_text(BROKEN)
    assert iolab("run", file).returncode != 0
    (folder,) = (tmp_path / "runs").iterdir()
    reasons = {one["measure"]: one["reason"]["code"] for one in trials(folder)}
    failed = "one-at-once-failed"
    assert reasons == {"up": failed, "down": failed, "probe": "program-ended-badly"}
