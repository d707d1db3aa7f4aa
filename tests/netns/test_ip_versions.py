"""IPv6 alone and together with IPv4: ready at once, routed, measured, and no packet of the other on the link."""

import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from tests.netns.computer import PREFIX, TAG, Computer, computer, lab_of, namespaces, tunnelled
from tests.netns.runs import Iolab, trials, value

from iolab.experiment.experiment import Lab
from iolab.lab.actions import Command
from iolab.lab.compose import compose
from iolab.lab.leases import tagged
from iolab.lab.topology import make_topology

__all__ = ["computer"]

pytestmark = [pytest.mark.netns, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]

MEASURES = """
title: Versions
lab:
  machines:
    near: {kind: netns}
    router: {kind: netns, forward: route}
    far: {kind: netns}
  links:
    lan: {ends: [near.eth0, router.eth0], ip: IP}
    wan: {ends: [router.eth1, far.eth0], ip: IP, shape: {at: router.eth1, qdisc: htb, rate: 200Mbit,
          classes: {all: {rate: 100Mbit, from: near}}}}
measure:
  tcp: {kind: stream, from: near, to: far, duration: 1s, capture: [far.eth0], watch: [far.eth0], ip: MEASURED}
  rr: {kind: rr, from: near, to: far, duration: 1s, ip: MEASURED}
  icmp: {kind: ping, from: near, to: far, duration: 1s, interval: 10ms, ip: MEASURED}
  udp: {kind: ping, protocol: udp, from: near, to: far, duration: 1s, interval: 10ms, ip: MEASURED}
  own: {kind: latency, from: near.eth0, to: far.eth0, frame_size: 128, rate: 1kpps, duration: 1s, ip: FRAMES}
  echo: {kind: command, on: near, run: [echo, "x=1 {far}"], ip: MEASURED,
         metrics: {x: {pattern: "x=([0-9])", unit: "1"}}}
blocks: 1
"""


def answers(computer: Computer, lab: Lab, source: str, target: str, ip: int) -> bool:
    """Return whether a machine answers the first echo request of one IP version at once."""
    address = make_topology(tagged(lab, TAG)).endpoint(target, source, ip=ip).address
    argv = ["ip", "netns", "exec", f"{PREFIX}{source}", "ping", "-q", "-c", "1", "-W", "1", address]
    return subprocess.run(argv, capture_output=True, text=True, check=False).returncode == 0


def test_ipv4_and_ipv6_are_routed_through_two_routers_and_their_addresses_are_removed(
    computer: Computer,
) -> None:
    """Wait for no duplicate address detection; check forwarding per version."""
    ends = {
        "one": {"ends": ["a.eth0", "r1.eth0"]},
        "two": {"ends": ["r1.eth1", "r2.eth0"]},
        "three": {"ends": ["r2.eth1", "b.eth0"]},
    }
    machines = {"a": {}, "r1": {"forward": "route"}, "r2": {"forward": "route"}, "b": {}}
    for ip in (6, "both", 4, "both"):
        lab = lab_of(machines, {name: {**link, "ip": ip} for name, link in ends.items()})
        computer.become(compose(tagged(lab, TAG)))
        for version in (4, 6) if isinstance(ip, str) else (ip,):
            assert answers(computer, lab, "a", "b", version), (ip, version)
        assert computer.misses() == [], ip
        shown = computer.run(Command(("ip", "addr", "show"), f"{PREFIX}a"))
        assert "fe80" not in shown
        assert ("2001:2:" in shown, "198.18." in shown) == (ip != 4, ip != 6)
    computer.become(())
    assert namespaces() == [f"{PREFIX}computer"]


@pytest.mark.parametrize("inner", [4, 6])
def test_vxlan_over_ipv6_reduces_the_mtu_by_70_bytes(computer: Computer, inner: int) -> None:
    """Use the IPv6 addresses of the underlay."""
    lab = tunnelled(ip=inner)
    lan = lab.links["lan"].model_copy(update={"ip": 6})
    lab = Lab(lab.machines, {**lab.links, "lan": lan}, {})
    computer.build(lab)
    assert answers(computer, lab, "a", "b", inner)
    shown = computer.run(Command(("ip", "-d", "link", "show", "dev", "t0"), f"{PREFIX}a"))
    assert "mtu 1430" in shown
    assert "local 2001:2::1" in shown


@pytest.mark.parametrize(
    ("ip", "measured", "frames", "seen"),
    [
        ("6", "none", "6", "6"),
        pytest.param("both", "6", "6", "6", marks=pytest.mark.full),
        pytest.param("both", "4", "4", "4", marks=pytest.mark.full),
    ],
)
def test_measures_send_packets_of_the_requested_ip_version_only(
    iolab: Iolab, tmp_path: Path, ip: str, measured: str, frames: str, seen: str
) -> None:
    """Check streams, transactions, echoes, test frames, and a command's addresses; shape by class."""
    text = MEASURES.replace("MEASURED", measured).replace("FRAMES", frames).replace("ip: IP", f"ip: {ip}")
    (tmp_path / "versions.yaml").write_text(text)
    done = iolab("run", tmp_path / "versions.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    folder = tmp_path / done.stdout.splitlines()[-1]
    found = {trial["measure"]: trial for trial in trials(folder)}
    assert {name: trial["status"] for name, trial in found.items()} == dict.fromkeys(found, "ok")
    assert 80e6 < value(found["tcp"], "received_bps") < 100e6, "the class of the sender's addresses holds"
    (file,) = folder.rglob("*.pcapng")
    fields = ["tshark", "-r", str(file), "-T", "fields", "-e", "frame.protocols"]
    rows = Counter(subprocess.run(fields, capture_output=True, text=True, check=True).stdout.splitlines())
    wanted = "eth:ethertype:ipv6:" if seen == "6" else "eth:ethertype:ip:"
    count = sum(number for layers, number in rows.items() if layers.startswith(wanted))
    assert count > 200
    assert sum(rows.values()) - count <= 4, "only requests for an Ethernet address, if any"
