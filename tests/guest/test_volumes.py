"""Volumes as disks of a real guest: size, bus and bytes as seen from both sides, and cleanup.

test_parents.py tests volumes of nested guests.
"""

import hashlib
import os
import signal
import stat
import subprocess
from pathlib import Path

import pytest
from pydantic import TypeAdapter
from tests.guest.labs import PATIENCE_S, run_in_background, wait_for_console
from tests.netns.conftest import IOLAB
from tests.netns.runs import Iolab, trials, value

from iolab.experiment.experiment import Lab
from iolab.experiment.model.machines import Bus, Machine
from iolab.experiment.model.volumes import Volume
from iolab.lab.compose import compose
from iolab.lab.volumes.places import node_of
from iolab.run.agents import Agents
from iolab.run.lab.standing_lab import StandingLab

BUSES: dict[str, Bus] = {"a": "virtio-blk", "b": "virtio-scsi", "c": "ide", "d": "nvme", "e": "pvscsi"}
MIB = 1 << 20
RUN = """
title: A guest with a disk
lab:
  machines:
    near: {kind: netns}
    dut: {kind: vm, accel: tcg, disks: [{volume: VOLUME}]}
  links: {lan: {ends: [near.p0, dut.eth0]}}
  volumes: {VOLUME: {size: 8M}}
measure: {tcp: {kind: stream, from: near, to: dut, duration: 60s}}
blocks: 1
"""


FLUSHES = """
title: Flushes of a guest
lab:
  machines: {pc: {kind: vm, accel: tcg, memory: 512M}}
  volumes: {VOLUME: {size: 16M}}
measure: {check: {kind: disk, program: flush-check, on: pc}}
factors:
  machines.pc.disks:
    honest: [{volume: VOLUME, cache: writeback}]
    lying: [{volume: VOLUME, cache: unsafe}]
blocks: 1
"""


def five_disks() -> Lab:
    """Return a guest with a disk on each bus, each of a different size."""
    machine = {
        "kind": "vm",
        "accel": "tcg",
        "disks": [{"volume": name, "bus": bus} for name, bus in BUSES.items()],
    }
    volumes = {
        name: Volume.model_validate({"size": f"{8 + 4 * number}M"}) for number, name in enumerate(BUSES)
    }
    return Lab({"dut": TypeAdapter[Machine](Machine).validate_python(machine)}, {}, volumes)


def test_data_written_on_each_bus_is_in_the_volume_file_until_the_lab_is_removed(
    agents: Agents,
) -> None:
    """Compare checksums of direct writes on both sides."""
    lab = five_disks()
    standing = StandingLab(agents, lambda records: None)
    files = {name: Path(f"/var/tmp/iolab-{name}") for name in BUSES}
    try:
        standing.change_to(compose(lab, cpus=2))
        assert standing.mismatches() == []
        (guest,) = (standing.guests.started(name) for name in standing.guests.running)
        assert guest is not None
        dut = agents.of("dut")
        for name, file in files.items():
            size = lab.volumes[name].size_bytes
            seen = file.stat()
            assert (seen.st_size, stat.S_IMODE(seen.st_mode)) == (size, 0o600)
            assert seen.st_blocks * 512 >= size, "blocks are missing"
            node = node_of(name)
            assert dut.run(("blockdev", "--getsize64", node)).stdout.strip() == str(size)
            writing = ("dd", "if=/dev/urandom", f"of={node}", "bs=1M", "count=2", "seek=3", "oflag=direct")
            assert dut.run(writing, timeout_ms=180_000).succeeded
            reading = f"dd if={node} bs=1M count=2 skip=3 iflag=direct | sha256sum"
            told = dut.run(("sh", "-c", reading), timeout_ms=180_000).stdout.split()[0]
            written = file.read_bytes()[3 * MIB : 5 * MIB]
            assert hashlib.sha256(written).hexdigest() == told
            assert written.strip(b"\0"), "nothing has arrived"
    finally:
        standing.take_down()
    assert not [file for file in files.values() if file.exists()]
    assert not Path(f"/proc/{guest.pid}").exists()


@pytest.mark.full
def test_volume_of_a_killed_agent_is_removed_by_clean(iolab: Iolab, tmp_path: Path) -> None:
    """Kill controller and agent while the guest runs."""
    volume = f"killed-{os.getpid()}"
    path = Path(f"/var/tmp/iolab-{volume}")
    file = tmp_path / "disk.yaml"
    file.write_text(RUN.replace("VOLUME", volume))
    running = run_in_background(tmp_path, file)
    wait_for_console(tmp_path / "state", "dut")
    assert path.stat().st_size == 8 * MIB
    for child in Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split():
        os.kill(int(child), signal.SIGKILL)
    running.kill()
    running.communicate(timeout=PATIENCE_S)
    assert path.exists()
    done = iolab("clean")
    assert done.returncode == 0, done.stdout + done.stderr
    assert not path.exists()


@pytest.mark.full
def test_hypervisor_that_acknowledges_flushes_without_writing_is_detected(
    iolab: Iolab, tmp_path: Path
) -> None:
    """Read the device of a separate file system, so that the host's page cache does not count."""
    image, file = tmp_path / "image", tmp_path / "flushes.yaml"
    with image.open("wb") as blank:
        blank.truncate(96 * MIB)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", image], check=True)
    file.write_text(FLUSHES.replace("VOLUME", f"flushed-{os.getpid()}"))
    iolab("clean")  # this creates nothing, and checks that the host is as before
    script = 'mount "$0" /var/tmp && chmod 1777 /var/tmp && exec "$@"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, image, IOLAB, "run", file],
        capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found = {one["cell"]["machines.pc.disks"]: one for one in trials(tmp_path / done.stdout.split()[-1])}
    codes = {name: {one["code"] for one in trial["warnings"]} for name, trial in found.items()}
    assert value(found["honest"], "disk_blocks_kept") == value(found["honest"], "disk_blocks_acknowledged")
    assert value(found["lying"], "disk_blocks_kept") < value(found["lying"], "disk_blocks_acknowledged")
    assert "acknowledged-lost" in codes["lying"] - codes["honest"]
    assert "ledger-open" not in codes["lying"] | codes["honest"]
