"""Disks of namespaces on real kernels: a file, the same through a user-space export, a LUN over iSCSI; and cleanup."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.netns.conftest import IOLAB
from tests.netns.runs import PATIENCE_S, Iolab, needs_devices, processes_with, storage_state, until

pytestmark = [pytest.mark.netns, needs_devices("/dev/fuse", "/dev/loop-control")]

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


@pytest.fixture
def nothing_left(tmp_path: Path) -> Iterator[Path]:
    """Provide a neighbour's file, which must not change, and neither may the storage state."""
    before = storage_state()
    neighbour = Path("/var/tmp/neighbour-of-iolab")
    neighbour.write_text("precious")
    yield neighbour
    assert neighbour.read_text() == "precious"
    neighbour.unlink()
    assert storage_state() == before


def test_local_user_space_and_iscsi_disks_are_measured_and_removed(
    iolab: Iolab, nothing_left: Path, tmp_path: Path
) -> None:
    """Read back sizes, file systems and iSCSI parameters in every trial."""
    path = tmp_path / "disks.yaml"
    path.write_text(DISKS)
    done = iolab("run", path)
    assert done.returncode == 0, done.stderr
    assert "3 ok, 0 failed, 0 invalid" in done.stdout


TAKEN = """
title: Taken
lab:
  machines: {pc2: {kind: netns}}
  volumes: {plain: {size: 16M}}
measure: {fill: {kind: disk, program: fio, on: pc2, size: 4M, fio: {each: 100ms, blocks: [4K], depths: [1]}}}
factors: {path: {local: {machines.pc2.disks: [{volume: plain, fs: ext4}]}}}
blocks: 1
"""


@pytest.mark.parametrize("place", ["/dev/iolab-plain", "/run/iolab-plain.mnt", "/var/tmp/iolab-plain"])
@pytest.mark.parametrize("kind", ["folder", "file", pytest.param("link", marks=pytest.mark.full)])
def test_existing_file_at_the_path_of_a_lab_disk_is_reported_and_kept(
    iolab: Iolab, nothing_left: Path, tmp_path: Path, place: str, kind: str
) -> None:
    """Remove the lab, and keep the foreign object."""
    path, taken = tmp_path / "taken.yaml", Path(place)
    path.write_text(TAKEN)
    if kind == "folder":
        taken.mkdir()
    elif kind == "file":
        taken.write_text("precious")
    else:
        taken.symlink_to(nothing_left)
    kept = storage_state()
    try:
        done = iolab("run", path)
        assert done.returncode != 0, done.stdout
        assert f"{place} exists already (" in done.stdout + done.stderr
        assert "remove it if no lab does" in done.stdout + done.stderr
        assert storage_state() == kept
        assert kind != "file" or taken.read_text() == "precious"
        assert iolab("clean").returncode == 0
        assert storage_state() == kept
    finally:
        taken.rmdir() if kind == "folder" else taken.unlink()


FIO = """
title: fio
lab:
  machines: {pc2: {kind: netns}}
  volumes: {plain: {size: 64M}}
measure:
  grid: {kind: disk, program: fio, on: pc2, size: 16M, fio: {each: 300ms, blocks: [4K], depths: [8]}}
  steady: {kind: disk, program: fio, profile: steady-state, on: pc2, size: 16M, fio: {each: 100ms, rounds: 5}}
  own: {kind: disk, program: fio, on: pc2, size: 16M, fio: {job_file: own.fio, replace: [filename]}}
factors:
  on: {files: {machines.pc2.disks: [{volume: plain, fs: ext4}]}, device: {machines.pc2.disks: [{volume: plain}]}}
blocks: 1
"""


OWN_JOB = """
; as people publish them
[global]
filename=/dev/elsewhere
direct=1
group_reporting

[read then, all at once]
rw=read
bs=64k
numjobs=2

[mixed at a rate]
  stonewall
  rw=randrw
bs=4k
rate_iops=200
time_based
runtime=300ms
"""


def test_fio_measures_files_and_devices_and_its_file_is_removed(
    iolab: Iolab, nothing_left: Path, tmp_path: Path
) -> None:
    """Check rate and latency of every combination, in fio's units."""
    path = tmp_path / "fio.yaml"
    path.write_text(FIO)
    (tmp_path / "own.fio").write_text(OWN_JOB)
    done = iolab("run", path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 ok, 0 failed, 0 invalid" in done.stdout
    shown = json.loads(iolab("show", "--json", done.stdout.split()[-1]).stdout)
    grid = [each for each in shown["estimates"] if each["measure"] == "grid"]
    phases = {
        each["dimensions"]["part"]: each["mean"] for each in grid if each["metric"] == "disk_operations_per_s"
    }
    assert set(phases) == {"read", "write", "mixed-read", "mixed-write"}
    assert all(value > 0 for value in phases.values())
    assert any(each["metric"] == "disk_latency_p50_ns" for each in grid)
    own = [each for each in shown["estimates"] if each["measure"] == "own"]
    rows = {
        (each["dimensions"]["section"], each["dimensions"]["part"])
        for each in own
        if each["metric"] == "disk_operations_per_s"
    }
    assert rows == {
        ("read then, all at once", "read"),
        ("mixed at a rate", "read"),
        ("mixed at a rate", "write"),
    }
    (lines,) = (tmp_path / "runs").glob("*/trials.jsonl")
    records = [json.loads(line) for line in lines.read_text().splitlines()]
    codes = [{one["code"] for one in each["warnings"]} for each in records if each["measure"] == "own"]
    assert all("job-keys-replaced" in found for found in codes)
    assert not any(found & {"ledger-open", "section-ledger-open"} for found in codes)


DOOR = """
title: Door
lab:
  machines: {pc2: {kind: netns, disks: [{volume: plain, via: user, throttle: {bytes: 40M}}]}}
  volumes: {plain: {size: 64M}}
measure:
  places: {kind: disk, program: fio, on: pc2, size: 64M,
           fio: {each: 500ms, blocks: [64K], depths: [8], access: [read]}}
blocks: 1
"""


def test_user_space_export_performs_no_read_ahead(iolab: Iolab, nothing_left: Path, tmp_path: Path) -> None:
    """Compare bytes of the device with those of the storage daemon."""
    path = tmp_path / "door.yaml"
    path.write_text(DOOR)
    done = iolab("run", path)
    assert done.returncode == 0, done.stdout + done.stderr
    (lines,) = (tmp_path / "runs").glob("*/trials.jsonl")
    (record,) = [json.loads(line) for line in lines.read_text().splitlines()]
    read = {
        one["dimensions"]["part"]: one["value"]
        for one in record["metrics"]
        if one["name"] == "disk_layer_bytes"
    }
    assert read["device, read"] > 1 << 20
    assert read["target, read"] == pytest.approx(read["device, read"], rel=0.01)


LEGACY = """
title: Memory
lab:
  machines: {pc2: {kind: netns}}
  volumes: {plain: {size: 128M}}
measure:
  limited: {kind: disk, program: bonnie++, profile: legacy-2006, on: pc2, size: 64M, files: 0}
  free: {kind: disk, program: bonnie++, profile: legacy-2006, on: pc2, size: 64M, files: 0, memory: 256M}
factors: {machines.pc2.disks: {file: [{volume: plain, fs: ext4}]}}
blocks: 1
"""


@pytest.mark.full
def test_memory_limit_of_a_legacy_profile_forces_reads_from_the_disk(
    iolab: Iolab, nothing_left: Path, tmp_path: Path
) -> None:
    """Report a trial without the limit, whose file stays in memory."""
    path = tmp_path / "legacy.yaml"
    path.write_text(LEGACY)
    done = iolab("run", path)
    assert "2 ok, 0 failed, 0 invalid" in done.stdout, done.stdout + done.stderr
    (run,) = (tmp_path / "runs").iterdir()
    records = [json.loads(line) for line in (run / "trials.jsonl").read_text().splitlines()]
    codes = {one["measure"]: {warning["code"] for warning in one["warnings"]} for one in records}
    assert "read-from-memory" in codes["free"]
    assert not codes["limited"] & {"read-from-memory", "memory-not-limited", "cache-unknown"}
    assert not list(Path("/sys/fs/cgroup").glob("**/iolab-disk*"))


@pytest.mark.parametrize(
    "victim",
    [
        "iolab",
        *(pytest.param(name, marks=pytest.mark.full) for name in ("iolab-agent", "tgtd", "qemu-storage-da")),
    ],
)
def test_clean_removes_everything_that_a_killed_disk_program_left_behind(
    iolab: Iolab, nothing_left: Path, tmp_path: Path, victim: str
) -> None:
    """Kill controller, agent, target or initiator; check loop devices, mounts and programs."""
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
    until(lambda: "still running" not in iolab("clean").stdout)


def process_of(controller: int, name: str, state: Path) -> int:
    """Return the process of that name that this run started."""
    if name == "iolab":
        return controller
    return next(pid for pid, own in processes_with(f"IOLAB_STATE_DIR={state}").items() if own == name)
