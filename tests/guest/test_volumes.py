"""Volumes as disks of a real guest: size, bus and bytes as seen from both sides, and nothing left of them."""

import hashlib
import os
import signal
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import TypeAdapter
from tests.guest.labs import PATIENCE_S, run_in_background, wait_for_console

from iolab.experiment.experiment import Lab
from iolab.experiment.links import Volume
from iolab.experiment.machines import Bus, Machine
from iolab.lab.compose import compose
from iolab.lab.volumes.places import node_of
from iolab.run.agents import Agents
from iolab.run.lab.standing_lab import StandingLab

Iolab = Callable[..., subprocess.CompletedProcess[str]]
PREFIX = f"iolab-{os.getpid()}-"
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


def five_disks() -> Lab:
    """Return a guest with a disk on each bus, each of another size."""
    machine = {
        "kind": "vm",
        "accel": "tcg",
        "disks": [{"volume": name, "bus": bus} for name, bus in BUSES.items()],
    }
    volumes = {
        name: Volume.model_validate({"size": f"{8 + 4 * number}M"}) for number, name in enumerate(BUSES)
    }
    return Lab({"dut": TypeAdapter[Machine](Machine).validate_python(machine)}, {}, volumes)


def test_what_a_guest_writes_on_each_bus_is_in_the_file_of_that_size_until_the_lab_is_taken_down(
    agents: Agents,
) -> None:
    """Blocks of the guest's own random numbers, written past its cache; the two sides' checksums agree."""
    lab = five_disks()
    standing = StandingLab(agents, lambda records: None)
    files = {name: Path(f"/var/tmp/{PREFIX}{name}") for name in BUSES}
    try:
        standing.change_to(compose(lab, prefix=PREFIX, cpus=2))
        assert standing.mismatches() == []
        (guest,) = (standing.guests.started(name) for name in standing.guests.running)
        assert guest is not None
        dut = agents.of("dut")
        for name, file in files.items():
            size = lab.volumes[name].size
            seen = file.stat()
            assert (seen.st_size, stat.S_IMODE(seen.st_mode)) == (size, 0o600)
            assert seen.st_blocks * 512 >= size, "blocks are missing"
            node = node_of(name, PREFIX)
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


@pytest.mark.parametrize(
    ("flavour", "parent", "child"),
    [
        (
            "nested",
            {"memory": "1500M", "cpus": 2},
            {"accel": "kvm", "disks": [{"volume": "v", "bus": "nvme"}]},
        ),
        ("xen", {"memory": "1536M", "cpus": 2}, {"engine": "xen", "disks": [{"volume": "v"}]}),
    ],
)
def test_what_a_guest_of_a_guest_writes_is_in_its_parents_file(
    request: pytest.FixtureRequest,
    agents: Agents,
    flavour: str,
    parent: dict[str, object],
    child: dict[str, object],
) -> None:
    """Inside another emulated computer, by QEMU and in a domain of Xen; both sides' checksums agree."""
    request.getfixturevalue(flavour)
    machines = {
        "outer": {"kind": "vm", "accel": "tcg", "image": flavour} | parent,
        "inner": {"kind": "vm", "on": "outer", "memory": "256M"} | child,
    }
    made = TypeAdapter(dict[str, Machine]).validate_python(machines)
    lab = Lab(made, {}, {"v": Volume.model_validate({"size": "8M", "on": "outer"})})
    standing = StandingLab(agents, lambda records: None)
    try:
        standing.change_to(compose(lab, cpus=2))
        assert standing.mismatches() == []
        writing = "dd if=/dev/urandom of=/dev/iolab-v bs=1M count=8 oflag=direct && sync"
        assert agents.of("inner").run(("sh", "-c", writing), timeout_ms=180_000).succeeded
        told = [
            agents.of(kernel).run(("sha256sum", path), timeout_ms=180_000).stdout.split()[0]
            for kernel, path in (("inner", "/dev/iolab-v"), ("outer", "/var/tmp/iolab-v"))
        ]
        assert told[0] == told[1]
        assert told[0] != hashlib.sha256(bytes(8 * MIB)).hexdigest(), "nothing was written"
    finally:
        standing.take_down()


def test_a_killed_agents_volume_is_taken_away_by_clean(iolab: Iolab, tmp_path: Path) -> None:
    """Controller and agent are killed with the guest running; the file stays, and the next command removes it."""
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
