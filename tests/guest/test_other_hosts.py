"""Guests on remote hosts, reached by a real sshd in namespaces: image, cable, the guest's NIC, and cleanup."""

import json
from pathlib import Path

import pytest
from tests.netns.runs import Iolab, trials, value
from tests.netns.sshd import Network, SshHost

LAB = """
title: A guest on another host
lab:
  machines:
    tester: {kind: host, ssh: tester}
    pc1: {kind: host, ssh: pc1}
    dut: {kind: vm, on: pc1, accel: tcg, disks: [{volume: far, bus: virtio-scsi}]}
  links:
    lan: {ends: [tester.lan0, pc1.lan0], cable: true}
    card: {ends: [pc1.lan0, dut.eth0]}
  volumes: {far: {size: 8M, on: pc1}}
measure:
  udp: {kind: stream, protocol: udp, rate: 5Mbit, from: tester, to: dut, duration: 1s}
factors: {machines.dut.nic: [virtio-net, macvtap]}
seed: 1
"""


@pytest.fixture
def pair(network: Network) -> tuple[SshHost, SshHost]:
    """Provide a tester and a host for the guest, connected by a cable."""
    hosts = network.host("tester"), network.host("pc1")
    network.cable(*hosts, "lan0")
    return hosts


def shown(host: SshHost) -> str:
    """Return the state that a lab could change on a host."""
    script = "ip -4 -o addr show dev lan0; ip -o link | cut -d ' ' -f 2,4-; ls /run/netns"
    return host.inside(f"{script}; ls -d /run/iolab/f/* /var/tmp/iolab-far 2>/dev/null || true")


@pytest.mark.full
def test_guest_on_a_remote_host_is_measured_through_the_hosts_nic(
    pair: tuple[SshHost, SshHost], iolab: Iolab, tmp_path: Path
) -> None:
    """Copy the image once, boot with each NIC and a disk of the host, and remove everything."""
    (tmp_path / "lab.yaml").write_text(LAB)
    before = [shown(host) for host in pair]
    done = iolab("run", "lab.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr.count("copying root.squashfs") == 1
    folder = tmp_path / done.stdout.splitlines()[-1]
    rows = trials(folder)
    assert [row["status"] for row in rows] == ["ok", "ok"]
    for row in rows:
        assert 1e6 < value(row, "received_bps") < 6e6, "most may be lost on a busy host"
        assert row["guests"]["dut"]["on"] == "pc1"
    made = [line for line in (folder / "commands.jsonl").read_text().splitlines() if "fallocate" in line]
    assert len(made) == 1, "the file stays while the card changes"
    facts = json.loads((folder / "machines" / "dut.json").read_text())
    assert facts["guest"]["accel"] == "tcg"
    assert None not in facts["features"].values()
    assert all(facts["programs"][name].split() for name in ("ip", "tc", "ethtool", "iperf3"))
    assert next(one for one in facts["interfaces"] if one["name"] == "eth0")["offloads"]
    assert [shown(host) for host in pair] == before
    assert [path.name for path in pair[0].cache.glob("image-*")] == []
    assert len(list(pair[1].cache.glob("image-*"))) == 4
    assert iolab("clean", "--host", "pc1").returncode == 0
    assert not pair[1].cache.exists()
