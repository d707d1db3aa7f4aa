"""Disks of namespaces on real kernels: a file, the same through a door, a LUN over iSCSI; and nothing left of them."""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.netns.conftest import IOLAB
from tests.netns.runs import PATIENCE_S, processes_with, until

pytestmark = pytest.mark.netns
Iolab = Callable[..., subprocess.CompletedProcess[str]]

DISKS = """
title: Disks
lab:
  machines: {pc2: {kind: netns}, pc3: {kind: netns}}
  links: {san: {ends: [pc2.eth0, pc3.eth0]}}
  volumes:
    plain: {size: 64M}
    lun0: {on: pc3, size: 64M, export: iscsi, params: {MaxRecvDataSegmentLength: 256K, InitialR2T: off}}
measure: {tcp: {kind: stream, from: pc2, to: pc3, duration: 1s}}
factors:
  path:
    local: {machines.pc2.disks: [{volume: plain, fs: ext4, mount: noatime}]}
    door: {machines.pc2.disks: [{volume: plain, via: user, fs: ext4}]}
    iscsi: {machines.pc2.disks: [{volume: lun0, via: user, fs: ext4}]}
blocks: 1
"""


@pytest.fixture(autouse=True)
def _needs() -> None:
    for program in ("tgtd", "qemu-storage-daemon", "mkfs.ext4", "losetup"):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}")
    if not Path("/dev/fuse").exists() or not Path("/dev/loop-control").exists():
        pytest.skip("needs FUSE and loop devices")


def storage_state() -> dict[str, object]:
    """Return what a lab with disks could leave behind."""
    living = [each for each in Path("/proc").glob("[0-9]*") if (each / "cmdline").read_bytes()]
    programs = [(each / "comm").read_text().strip() for each in living]
    return {
        "loops": subprocess.run(["losetup", "-a"], capture_output=True, text=True).stdout,
        "mounts": [line for line in Path("/proc/self/mounts").read_text().splitlines() if "iolab-" in line],
        "files": sorted(
            str(path) for top in ("/run", "/dev", "/var/tmp") for path in Path(top).glob("iolab-*")
        ),
        "programs": [name for name in programs if name in ("tgtd", "qemu-storage-da")],
    }


@pytest.fixture
def nothing_left(tmp_path: Path) -> Iterator[Path]:
    """A file of a neighbour, which stays as it is, as does all that storage is made of."""
    before = storage_state()
    neighbour = Path("/var/tmp/neighbour-of-iolab")
    neighbour.write_text("precious")
    yield neighbour
    assert neighbour.read_text() == "precious"
    neighbour.unlink()
    assert storage_state() == before


def test_a_lab_has_disks_by_three_ways_and_leaves_nothing(
    iolab: Iolab, nothing_left: Path, tmp_path: Path
) -> None:
    """Sizes, file systems and what the target offers are read back in every trial."""
    path = tmp_path / "disks.yaml"
    path.write_text(DISKS)
    done = iolab("run", path)
    assert done.returncode == 0, done.stderr
    assert "3 ok, 0 failed, 0 invalid" in done.stdout


@pytest.mark.parametrize("victim", ["iolab", "iolab-agent", "tgtd", "qemu-storage-da"])
def test_a_program_that_is_killed_leaves_nothing_after_clean(
    iolab: Iolab, nothing_left: Path, tmp_path: Path, victim: str
) -> None:
    """Controller, agent, target, initiator: whoever dies, loop devices, mounts and programs are gone."""
    path = tmp_path / "disks.yaml"
    path.write_text(DISKS.replace("duration: 1s", "duration: 4s").replace("    local:", "    iscsi first:", 1).replace(
        "[{volume: plain, fs: ext4, mount: noatime}]", "[{volume: lun0, via: user, fs: ext4, mount: noatime}]"
    ))  # fmt: skip
    run = subprocess.Popen(
        [IOLAB, "run", path], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        until(lambda: Path("/run/iolab-lun0.mnt").is_mount())
        os.kill(process_of(run.pid, victim, tmp_path / "state"), signal.SIGKILL)
        run.wait(PATIENCE_S)
    finally:
        run.kill()
        run.wait()
    until(lambda: iolab("clean").returncode == 0)


def process_of(controller: int, name: str, state: Path) -> int:
    """Return the process of that name that this run started."""
    if name == "iolab":
        return controller
    return next(pid for pid, own in processes_with(f"IOLAB_STATE_DIR={state}").items() if own == name)
