"""Link types on this kernel: read back, reachable, and the path of frames."""

import json
import os
import subprocess

import pytest
from tests.netns.computer import PREFIX, TAG, Computer, computer, lab_of, namespaces, tunnelled

from iolab.experiment.experiment import Lab
from iolab.lab.actions import Command
from iolab.lab.compose import compose
from iolab.lab.leases import tagged
from iolab.lab.topology import make_topology

__all__ = ["computer"]

pytestmark = [pytest.mark.netns, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]
ECHOES = 20
ETHERNET = 14


def pair(**link: object) -> Lab:
    """Return two namespaces on one link."""
    return lab_of({"a": {}, "b": {}}, {"lan": {"ends": ["a.eth0", "b.eth0"], **link}})


def answered(computer: Computer, lab: Lab, source: str, target: str) -> bool:
    """Return whether one machine answers all echo requests of another."""
    address = make_topology(tagged(lab, TAG)).endpoint(target, source).address
    argv = [
        "ip",
        "netns",
        "exec",
        f"{PREFIX}{source}",
        "ping",
        "-q",
        "-c",
        str(ECHOES),
        "-i",
        "0.01",
        address,
    ]
    return " 0% packet loss" in subprocess.run(argv, capture_output=True, text=True, check=False).stdout


def sent(computer: Computer, netns: str, interface: str, what: str = "packets") -> int:
    """Return the number of frames, or bytes, sent by an interface."""
    (row,) = json.loads(
        computer.run(Command(("ip", "-j", "-s", "link", "show", "dev", interface), f"{PREFIX}{netns}"))
    )
    return int(row["stats64"]["tx"][what])


def keep_neighbours(computer: Computer) -> None:
    """Make the known neighbours of both machines permanent, so that no ARP frame is counted as a frame of the test."""
    for netns in (f"{PREFIX}a", f"{PREFIX}b"):
        for line in computer.run(Command(("ip", "-4", "neigh", "show"), netns)).splitlines():
            address, _, device, _, layer_2, *_ = line.split()
            known = ("to", address, "dev", device, "lladdr", layer_2, "nud", "permanent")
            computer.run(Command(("ip", "neigh", "replace", *known), netns))


def test_macvlans_exchange_frames_without_the_lower_interface(computer: Computer) -> None:
    """Count echoes below the broadcast ARP requests; use no bridge."""
    lab = pair(join="macvlan")
    computer.build(lab)
    assert answered(computer, lab, "a", "b")
    assert sent(computer, "a", "eth0") >= ECHOES
    assert sent(computer, "link-lan", "shared0") < ECHOES / 2
    assert "bridge" not in computer.run(Command(("ip", "-d", "link", "show"), f"{PREFIX}link-lan"))
    computer.become(())
    assert namespaces() == [f"{PREFIX}computer"]


def test_bridge_link_with_two_ends_carries_every_echo(computer: Computer) -> None:
    """Create a bridge instead of a veth pair."""
    lab = pair(join="bridge")
    computer.build(lab)
    assert answered(computer, lab, "a", "b")
    assert sent(computer, "link-lan", "p1") >= ECHOES


def test_every_link_type_changes_into_every_other_with_different_mtus(computer: Computer) -> None:
    """Read back each change; raise the lower MTU before, and lower it after."""
    for join in ("veth", "macvlan", "bridge", "macvlan", None):
        for mtu in (9000, 1400):
            computer.become(compose(tagged(pair(join=join, mtu=mtu), TAG)))
            assert computer.misses() == [], (join, mtu)


@pytest.mark.full
def test_macvlans_on_the_parents_port_reach_each_other_and_external_machines(computer: Computer) -> None:
    """Expect the parent to be unreachable, as planned."""
    lab = lab_of(
        {"outside": {}, "pc": {}, "a": {"on": "pc"}, "b": {"on": "pc"}},
        {
            "cable": {"ends": ["outside.eth0", "pc.eth0"]},
            "pods": {"ends": ["pc.eth0", "a.eth0", "b.eth0"], "join": "macvlan"},
        },
    )
    computer.build(lab)
    assert answered(computer, lab, "a", "b")
    assert answered(computer, lab, "a", "outside")
    assert not answered(computer, lab, "a", "pc")


def test_vxlan_adds_50_bytes_to_each_frame(computer: Computer) -> None:
    """Compare counters of both interfaces, and tshark's view of the underlay."""
    lab = tunnelled()
    computer.build(lab)
    assert answered(computer, lab, "a", "b")
    keep_neighbours(computer)
    before = [sent(computer, "a", name, what) for name in ("eth0", "t0") for what in ("bytes", "packets")]
    address = make_topology(tagged(lab, TAG)).endpoint("b.t0", "a.t0").address
    dissect = ["tshark", "-q", "-i", "eth0", "-f", "udp port 4789", "-c", "10", "-T", "fields"]
    fields = [word for name in ("vxlan.vni", "frame.len", "icmp.type") for word in ("-e", name)]
    seen = subprocess.Popen(
        ["ip", "netns", "exec", f"{PREFIX}b", *dissect, *fields, "-l"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert seen.stderr is not None
    next(line for line in seen.stderr if "Capturing" in line)
    ping = ("ping", "-q", "-c", "40", "-i", "0.05", "-s", "1000", address)
    computer.run(Command(ping, f"{PREFIX}a"))
    shown, _ = seen.communicate(timeout=60)
    after = [sent(computer, "a", name, what) for name in ("eth0", "t0") for what in ("bytes", "packets")]
    outer_bytes, outer, inner_bytes, inner = (now - then for now, then in zip(after, before, strict=True))
    assert outer == inner >= 40
    assert outer_bytes - inner_bytes == (50 + ETHERNET) * inner, (
        "a vxlan counts packets without their own header"
    )
    frames = [line.split("\t") for line in shown.splitlines()]
    assert {(vni, length) for vni, length, _ in frames} == {("2", str(14 + 20 + 8 + 1000 + 50))}


def test_tunnel_follows_mtu_and_type_changes_of_its_underlay(computer: Computer) -> None:
    """Check larger, smaller, removed and recreated ones."""
    for lab in (tunnelled(9000), tunnelled(1500), tunnelled(9000, mtu=1300), tunnelled(9000, id=9), pair()):
        computer.build(lab)
    computer.become(())
    assert namespaces() == [f"{PREFIX}computer"]


def test_three_ends_of_a_vxlan_reach_each_other(computer: Computer) -> None:
    """Include bridged containers behind two of them."""
    lab = lab_of(
        {"n1": {}, "n2": {}, "n3": {}, "a": {"on": "n1"}, "b": {"on": "n2"}},
        {
            "lan": {"ends": ["n1.eth0", "n2.eth0", "n3.eth0"]},
            "tun": {"ends": ["n1.t0", "n2.t0", "n3.t0"], "over": "lan", "tunnel": "vxlan"},
            "in1": {"ends": ["n1.t0", "a.eth0"], "mtu": 1450},
            "in2": {"ends": ["n2.t0", "b.eth0"], "mtu": 1450},
        },
    )
    computer.build(lab)
    assert answered(computer, lab, "a", "b")
    assert answered(computer, lab, "a", "n3")


def test_packets_between_the_routers_of_a_tunnel_are_always_encapsulated(computer: Computer) -> None:
    """Check two sites, two gateways, and a router between them."""
    lab = lab_of(
        {name: {"forward": how} for name, how in
         {"x": "none", "a": "route", "mid": "route", "b": "route", "y": "none"}.items()},
        {
            "home": {"ends": ["x.eth0", "a.eth0"]},
            "west": {"ends": ["a.eth1", "mid.eth0"]},
            "east": {"ends": ["mid.eth1", "b.eth1"]},
            "away": {"ends": ["b.eth0", "y.eth0"]},
            "tun": {"ends": ["a.t0", "b.t0"], "over": ["west", "east"], "tunnel": "vxlan"},
        },
    )  # fmt: skip
    computer.build(lab)
    begun = sent(computer, "a", "t0")
    assert answered(computer, lab, "x", "y")
    assert sent(computer, "a", "t0") - begun >= ECHOES
