"""Exported volumes on real kernels: data that one guest writes over each protocol is in the file of the other one."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import TypeAdapter
from tests.netns.runs import Iolab

from iolab.experiment.experiment import Lab
from iolab.experiment.model.links import Link
from iolab.experiment.model.machines import Machine
from iolab.experiment.model.volumes import Volume
from iolab.lab.compose import compose
from iolab.run.agents import Agents
from iolab.run.lab.standing_lab import StandingLab
from iolab.trial.disk.layers import SHOW_DEVICE, of_block_layer

MIB = 1 << 20
PATIENCE_MS = 180_000
CHAP = {"user": "lab", "secret": "notasecret12"}
BETWEEN_KERNELS: Mapping[str, dict[str, object]] = {
    "iscsi": {"export": "iscsi", "chap": CHAP, "params": {"MaxRecvDataSegmentLength": "256K"}},
    "nvme": {"export": "nvme-tcp"},
    "nbd": {"export": "nbd"},
}


def lab_of(machines: Mapping[str, object], volumes: Mapping[str, dict[str, object]], *ends: str) -> Lab:
    """Return a lab with volumes of 16 MiB."""
    made = TypeAdapter(dict[str, Machine]).validate_python(machines)
    links = {"san": Link.model_validate({"ends": list(ends)})}
    sized = {name: Volume.model_validate({"size": "16M"} | keys) for name, keys in volumes.items()}
    return Lab(made, links, sized)


def digest(agents: Agents, kernel: str, what: str) -> str:
    """Return the checksum of 2 MiB of a file or disk, read with the page cache bypassed."""
    flag = "iflag=direct" if what.startswith("/dev/") else ""
    script = f"dd if={what} bs=1M count=2 {flag} 2>/dev/null | sha256sum"
    done = agents.of(kernel).run(("sh", "-c", script), timeout_ms=PATIENCE_MS)
    assert done.succeeded, done.complaint
    return done.stdout.split()[0]


def written(agents: Agents, kernel: str, node: str) -> None:
    """Write 2 MiB of random numbers with the page cache bypassed."""
    writing = ("dd", "if=/dev/urandom", f"of={node}", "bs=1M", "count=2", "oflag=direct", "conv=fsync")
    done = agents.of(kernel).run(writing, timeout_ms=PATIENCE_MS)
    assert done.succeeded, done.complaint


def test_data_written_over_each_protocol_is_in_the_volume_of_the_other_guest(agents: Agents) -> None:
    """Check LIO with CHAP, NVMe/TCP and NBD at once, and the removal on both kernels."""
    disks = [{"volume": name, "via": "kernel"} for name in BETWEEN_KERNELS]
    machines = {"far": {"kind": "vm", "accel": "tcg"}, "near": {"kind": "vm", "accel": "tcg", "disks": disks}}
    volumes = {name: keys | {"on": "far"} for name, keys in BETWEEN_KERNELS.items()}
    lab = lab_of(machines, volumes, "far.eth0", "near.eth0")
    bare = lab_of({**machines, "near": {"kind": "vm", "accel": "tcg"}}, {}, "far.eth0", "near.eth0")
    standing = StandingLab(agents, lambda records: None)
    try:
        standing.change_to(compose(lab, cpus=2))
        assert standing.mismatches() == []
        for name in BETWEEN_KERNELS:
            written(agents, "near", f"/dev/iolab-{name}")
            there = digest(agents, "far", f"/var/tmp/iolab-{name}")
            assert digest(agents, "near", f"/dev/iolab-{name}") == there, name
            told = agents.of("near").run(("sh", "-c", SHOW_DEVICE, f"/dev/iolab-{name}"))
            counted = of_block_layer(told.stdout)
            assert counted is not None, told
            assert min(counted.written_bytes, counted.read_bytes) >= 2 * MIB, (name, counted)
        standing.change_to(compose(bare, cpus=2))
        left = "ls /sys/class/iscsi_session /sys/class/nvme /var/tmp; cat /sys/block/nbd*/pid; true"
        assert agents.of("near").run(("sh", "-c", left)).stdout.split() == [
            "/sys/class/iscsi_session:",
            "/sys/class/nvme:",
            "/var/tmp:",
        ]
        top = "/sys/kernel/config"
        left = f"ls {top}/nvmet/subsystems {top}/nvmet/ports {top}/nvmet/hosts {top}/target/core; pidof qemu-nbd; true"
        shown = agents.of("far").run(("sh", "-c", left)).stdout
        assert [line for line in shown.split() if not line.endswith(":") and line != "alua"] == []
    finally:
        standing.take_down()


@pytest.mark.parametrize("bus", ["virtio-blk", pytest.param("ide", marks=pytest.mark.full)])
def test_hypervisor_logs_in_to_iscsi_for_its_guest(agents: Agents, bus: str) -> None:
    """Use tgt with CHAP; check a file on the guest's file system in the volume."""
    disk = {"volume": "lun", "via": "hypervisor", "bus": bus, "fs": "ext4"}
    machines = {
        "pc2": {"kind": "netns"},
        "pc3": {"kind": "netns"},
        "dut": {"kind": "vm", "on": "pc2", "accel": "tcg", "disks": [disk]},
    }
    lab = lab_of(machines, {"lun": {"on": "pc3", "export": "iscsi", "chap": CHAP}}, "pc2.eth0", "pc3.eth0")
    standing = StandingLab(agents, lambda records: None)
    try:
        standing.change_to(compose(lab, cpus=2))
        assert standing.mismatches() == []
        words = "these words were written by a guest"
        script = f"echo {words} >/run/iolab-lun.mnt/words && sync"
        assert agents.of("dut").run(("sh", "-c", script), timeout_ms=PATIENCE_MS).succeeded
        assert words.encode() in Path("/var/tmp/iolab-lun").read_bytes()
    finally:
        standing.take_down()


FLUSHES = """
title: Flushes
lab:
  machines:
    dut: {kind: vm, accel: tcg}
  volumes: {v: {size: 64M}}
measure: {thput: {kind: disk, program: thput-fsys, on: dut, size: 16M}}
factors:
  machines.dut.disks:
    honest: [{volume: v, fs: ext4, cache: none}]
    lying: [{volume: v, fs: ext4, cache: unsafe}]
baseline: {machines.dut.disks: honest}
blocks: 1
"""


@pytest.mark.full
def test_disk_that_discards_flushes_is_detected(iolab: Iolab, tmp_path: Path) -> None:
    """Compare with an honest disk; test_volumes.py has a volume in memory."""
    path = tmp_path / "flushes.yaml"
    path.write_text(FLUSHES)
    done = iolab("run", path)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = (tmp_path / done.stdout.split()[-1] / "trials.jsonl").read_text().splitlines()
    told = {
        trial["cell"]["machines.dut.disks"]: [one["code"] for one in trial["warnings"]]
        for trial in map(json.loads, lines)
    }
    assert "flush-not-kept" in told["lying"]
    assert "flush-not-kept" not in told["honest"]
