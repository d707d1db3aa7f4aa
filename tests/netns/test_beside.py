"""Work of others beside real trials: each has a mark by which no percentage is given."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.netns.runs import trials

pytestmark = pytest.mark.netns
Iolab = Callable[..., subprocess.CompletedProcess[str]]
LAB = """
title: Beside
lab:
  machines: {near: {kind: netns, disks: [{volume: v, fs: ext4}]}, far: {kind: netns}}
  links: {lan: {ends: [near.eth0, far.eth0]}}
  volumes: {v: {size: 64M}}
measure:
  program: {kind: command, on: near, shell: "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"}
  trips: {kind: rr, from: near, to: far, duration: 1s}
  echoes: {kind: ping, from: near, to: far, duration: 1s}
  disk: {kind: disk, program: fio, on: near, size: 16M, fio: {each: 1s, blocks: [4K], depths: [8], access: [read]}}
blocks: 1
"""
HOG = ("timeout", "120", "sh", "-c", "while :; do :; done")


@contextmanager
def hogs(count: int) -> Iterator[None]:
    """Keep CPUs busy, as another user's programs would."""
    running = [subprocess.Popen(HOG) for _ in range(count)]
    try:
        yield
    finally:
        for one in running:
            one.terminate()
            one.wait()


def test_trials_whose_cpus_others_had_are_marked_and_have_no_percentage(iolab: Iolab, tmp_path: Path) -> None:
    """Of every kind that runs programs."""
    if not Path("/dev/loop-control").exists():
        pytest.skip("needs /dev/loop-control, which a container may not be given")
    path = tmp_path / "beside.yaml"
    path.write_text(LAB)
    with hogs(os.cpu_count() or 1):
        done = iolab("run", path)
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    for trial in trials(folder):
        marks = [one for one in trial["warnings"] if one["code"] == "cpus-taken"]
        assert [one["cpus"] >= 0.25 for one in marks] == [True], trial
    assert "CPUs taken" in done.stdout
