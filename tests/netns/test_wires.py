"""A link with `wire:` on a kernel: what it does to packets, its change while it runs, and what is left of it."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from iolab.record.trial import Status
from iolab.store.read import load_run

pytestmark = pytest.mark.netns
Iolab = Callable[..., subprocess.CompletedProcess[str]]

EXPERIMENT = """
title: A wire
lab:
  machines:
    left: {kind: netns}
    right: {kind: netns}
  links:
    west: {ends: [left.eth0, right.eth0], wire: {rate: 20Mbit}}
measure:
  udp: {kind: stream, protocol: udp, from: left, to: right, rate: 10Mbit, duration: 1s}
factors:
  links.west.wire:
    whole: {rate: 20Mbit, delay: 2ms}
    losing: {lose_every: 4, delay: 1ms}
"""


def test_a_wire_loses_what_it_says_and_is_changed_while_it_runs(iolab: Iolab, tmp_path: Path) -> None:
    """A quarter of the datagrams is lost, or none; the taps are made once."""
    path = tmp_path / "wire.yaml"
    path.write_text(EXPERIMENT)
    done = iolab("run", path)
    assert done.returncode == 0, done.stderr + done.stdout
    folder = tmp_path / done.stdout.splitlines()[-1]
    lost: dict[str, float] = {}
    for record in load_run(folder).trials:
        assert record.result.status is Status.OK, record.result.reason
        found = {metric.name: metric.value for metric in record.result.metrics if metric.dimensions.whole}
        lost[str(record.cell["links.west.wire"])] = found["loss_ratio"]
    assert lost["whole"] == 0
    assert lost["losing"] == pytest.approx(0.25, abs=0.01)
    (log,) = folder.glob("**/commands.jsonl")
    assert (log.read_text().count("wire.start"), log.read_text().count('"wire.change"')) == (1, 2)
