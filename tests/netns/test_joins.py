"""How the ends of a link meet, on this kernel: read back, reached, and where frames pass."""

import json
import os
import subprocess
from collections.abc import Mapping

import pytest
from pydantic import TypeAdapter
from tests.netns.computer import PREFIX, Computer, computer, namespaces

from iolab.experiment.experiment import Lab
from iolab.experiment.links import Link
from iolab.experiment.machines import Machine
from iolab.lab.compose import compose
from iolab.lab.resources import Command
from iolab.lab.topology import make_topology

__all__ = ["computer"]

pytestmark = [pytest.mark.netns, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]
ECHOES = 20


def lab_of(machines: Mapping[str, Mapping[str, object]], links: Mapping[str, Mapping[str, object]]) -> Lab:
    """Return a lab of namespaces."""
    machine = TypeAdapter[Machine](Machine)
    return Lab(
        {name: machine.validate_python({"kind": "netns"} | dict(given)) for name, given in machines.items()},
        {name: Link.model_validate(given) for name, given in links.items()},
        {},
    )


def pair(**link: object) -> Lab:
    """Return two namespaces on one link."""
    return lab_of({"a": {}, "b": {}}, {"lan": {"ends": ["a.eth0", "b.eth0"], **link}})


def answered(computer: Computer, lab: Lab, source: str, target: str) -> bool:
    """Tell whether one machine answers all echo requests of another."""
    address = make_topology(lab, prefix=PREFIX).endpoint(target, source).address
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


def sent(computer: Computer, netns: str, interface: str) -> int:
    """Return how many frames left by an interface."""
    (row,) = json.loads(
        computer.run(Command(("ip", "-j", "-s", "link", "show", "dev", interface), f"{PREFIX}{netns}"))
    )
    return int(row["stats64"]["tx"]["packets"])


def test_macvlans_pass_frames_to_each_other_and_none_by_the_interface_below(computer: Computer) -> None:
    """Requests for addresses are for all, and go out; the echoes do not. No bridge is anywhere."""
    lab = pair(join="macvlan")
    computer.become(compose(lab, prefix=PREFIX))
    assert computer.misses() == []
    assert answered(computer, lab, "a", "b")
    assert sent(computer, "a", "eth0") >= ECHOES
    assert sent(computer, "link-lan", "shared0") < ECHOES / 2
    assert "bridge" not in computer.run(Command(("ip", "-d", "link", "show"), f"{PREFIX}link-lan"))
    computer.become(())
    assert namespaces() == [f"{PREFIX}computer"]


def test_a_bridge_of_two_ends_carries_every_echo(computer: Computer) -> None:
    """What would be a veth pair is a bridge where one is asked for."""
    lab = pair(join="bridge")
    computer.become(compose(lab, prefix=PREFIX))
    assert computer.misses() == []
    assert answered(computer, lab, "a", "b")
    assert sent(computer, "link-lan", "p1") >= ECHOES


def test_every_join_becomes_every_other_with_other_mtus(computer: Computer) -> None:
    """Each change is read back, with the MTU of what is below raised before and lowered after."""
    for join in ("veth", "macvlan", "bridge", "macvlan", None):
        for mtu in (9000, 1400):
            computer.become(compose(pair(join=join, mtu=mtu), prefix=PREFIX))
            assert computer.misses() == [], (join, mtu)


def test_macvlans_on_the_parents_port_reach_each_other_and_what_is_outside(computer: Computer) -> None:
    """The parent itself is not reached, as planning says."""
    lab = lab_of(
        {"outside": {}, "pc": {}, "a": {"on": "pc"}, "b": {"on": "pc"}},
        {
            "cable": {"ends": ["outside.eth0", "pc.eth0"]},
            "pods": {"ends": ["pc.eth0", "a.eth0", "b.eth0"], "join": "macvlan"},
        },
    )
    computer.become(compose(lab, prefix=PREFIX))
    assert computer.misses() == []
    assert answered(computer, lab, "a", "b")
    assert answered(computer, lab, "a", "outside")
    assert not answered(computer, lab, "a", "pc")
