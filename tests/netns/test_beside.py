"""CPU and disk interference with real trials: each has a warning, and no percentage is given."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.netns.runs import Iolab, trials

pytestmark = pytest.mark.netns
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
DISK = """
title: Disk
lab:
  machines: {pc: {kind: netns, disks: [{volume: v}]}}
  volumes: {v: {size: 64M}}
measure:
  disk: {kind: disk, program: fio, on: pc, size: 16M, fio: {each: 1s, blocks: [4K], depths: [1], access: [read]}}
blocks: 1
"""
HOG = ("timeout", "120", "sh", "-c", "while :; do :; done")


@pytest.fixture
def neighbour() -> Iterator[Path]:
    """Write a file on the disk of the volumes, if the kernel counts that disk."""
    top = subprocess.run(
        ["df", "--output=target", "/var/tmp"], capture_output=True, text=True
    ).stdout.split()[-1]
    device = subprocess.run(["mountpoint", "-d", top], capture_output=True, text=True).stdout.strip()
    if not Path(f"/sys/dev/block/{device}").exists():
        pytest.skip("needs /var/tmp on a disk")
    path = Path("/var/tmp/neighbour-of-iolab-fio")
    yield path
    path.unlink(missing_ok=True)


@contextmanager
def hogs(count: int, *argv: str) -> Iterator[None]:
    """Keep CPUs or a disk busy, like another user's programs."""
    running = [subprocess.Popen(argv, stdout=subprocess.DEVNULL) for _ in range(count)]
    try:
        yield
    finally:
        for one in running:
            one.terminate()
            one.wait()


@pytest.mark.full
def test_trials_with_cpu_interference_get_a_warning_and_no_percentage_change(
    iolab: Iolab, tmp_path: Path
) -> None:
    """Check every kind of measure that runs programs."""
    if not Path("/dev/loop-control").exists():
        pytest.skip("needs /dev/loop-control, which a container may not be given")
    path = tmp_path / "beside.yaml"
    path.write_text(LAB)
    with hogs(os.cpu_count() or 1, *HOG):
        done = iolab("run", path)
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    for trial in trials(folder):
        marks = [one for one in trial["warnings"] if one["code"] == "cpus-taken"]
        assert [one["cpus"] >= 0.25 for one in marks] == [True], trial
    assert "CPU interference" in done.stdout


def test_trial_with_disk_interference_gets_a_warning(iolab: Iolab, tmp_path: Path, neighbour: Path) -> None:
    """Read the disk by a process outside the lab."""
    if not Path("/dev/loop-control").exists():
        pytest.skip("needs /dev/loop-control, which a container may not be given")
    path = tmp_path / "disk.yaml"
    path.write_text(DISK)
    fio = (
        "fio",
        "--name=hog",
        f"--filename={neighbour}",
        "--size=64M",
        "--rw=randread",
        "--bs=64k",
        "--direct=1",
    )
    with hogs(1, *fio, "--ioengine=io_uring", "--iodepth=8", "--time_based", "--runtime=120"):
        done = iolab("run", path)
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    (trial,) = trials(folder)
    (mark,) = [one for one in trial["warnings"] if one["code"] == "disk-used"]
    assert mark["others_ratio"] > 0.1, mark
