"""A composed lab, created with plain commands on this kernel: every expectation holds, and nothing is left."""

import os
import shutil
import time

import pytest
from pydantic import TypeAdapter
from tests.netns.computer import OUTER, PREFIX, TAG, Computer, computer, namespaces, socket_in
from tests.netns.runs import PATIENCE_S

from iolab.experiment.experiment import Lab
from iolab.experiment.model.links import Link
from iolab.experiment.model.machines import Machine
from iolab.lab.actions import Command
from iolab.lab.compose import compose
from iolab.lab.leases import tagged
from iolab.lab.topology import make_topology

__all__ = ["computer"]

pytestmark = [
    pytest.mark.netns,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(shutil.which("ethtool") is None, reason="needs ethtool"),
]

TRIES = 5

MACHINES: dict[str, object] = {
    "host": {"kind": "host"},
    "left": {"kind": "netns", "settings": {"net.ipv4.tcp_rmem": "4096 131072 16777216"}},
    "right": {"kind": "netns"},
    "switch": {"kind": "netns", "forward": "bridge"},
    "router": {"kind": "netns", "forward": "route"},
    "far": {"kind": "netns"},
}
CLASSES = {
    "fast": {
        "rate": "400Mbit",
        "ceil": "600Mbit",
        "burst": "100K",
        "cburst": "1M",
        "from": "left",
        "to": "far",
    },
    "slow": {"rate": "123456789", "from": "host"},
}
HTB = {
    "at": "switch.out",
    "qdisc": "htb",
    "rate": "600Mbit",
    "burst": "100K",
    "classes": CLASSES,
    "default": "slow",
}
TBF = {"at": "far.eth0", "qdisc": "tbf", "rate": "333333333", "burst": "150K", "latency": "20ms"}
LINKS: dict[str, dict[str, object]] = {
    "lan": {
        "ends": ["left.eth0", "right.eth0", "switch.lan0"],
        "mtu": 9000,
        "offload": {"tso": "off", "gro": "on"},
    },
    "up": {"ends": ["host.up0", "switch.up0"]},
    "out": {"ends": ["switch.out", "router.eth0"], "shape": HTB},
    "wan": {"ends": ["router.eth1", "far.eth0"], "shape": TBF, "offload": {"tx_checksum": "off"}},
}


def make_lab(**links: dict[str, object]) -> Lab:
    """Return the lab, with some links replaced."""
    machine = TypeAdapter[Machine](Machine)
    return Lab(
        {name: machine.validate_python(value) for name, value in MACHINES.items()},
        {name: Link.model_validate(value) for name, value in (LINKS | links).items()},
        {},
    )


def test_every_expectation_holds_and_undo_restores_the_kernel_state(computer: Computer) -> None:
    """Check bridge, veth, MTU 9000, offloads, htb, tbf, routes and settings."""
    before = computer.snapshot()
    computer.build(make_lab())
    assert len(computer.expectations()) > 60
    computer.become(())
    assert computer.snapshot() == before
    assert namespaces() == [OUTER]


def test_changed_value_is_detected_by_the_read_back(computer: Computer) -> None:
    """Report foreign changes in words."""
    computer.become(compose(tagged(make_lab(), TAG)))
    computer.run(Command(("ip", "link", "set", "dev", "eth0", "mtu", "1400"), f"{PREFIX}left"))
    computer.run(Command(("ethtool", "-K", "eth0", "tso", "on"), f"{PREFIX}left"))
    computer.run(
        Command(
            ("tc", "class", "change", "dev", "out", "classid", "1:10", "htb", "rate", "1mbit"),
            f"{PREFIX}switch",
        )
    )
    missed = "\n".join(computer.misses())
    assert "mtu of left.eth0: expected 9000, saw 1400" in missed
    assert "tso of left.eth0: expected tso off, saw tso on" in missed
    assert "rate_bps of class 1:10 at switch.out: expected 400000000, saw 1000000" in missed


def test_lab_can_be_changed_to_a_different_one_and_back(computer: Computer) -> None:
    """Apply or recreate other MTUs, offloads and shapes."""
    first = compose(tagged(make_lab(), TAG))
    small = {"ends": LINKS["lan"]["ends"], "mtu": 1500, "offload": {"tso": "on", "gro": "off"}}
    bare = {"ends": LINKS["out"]["ends"]}
    other = compose(tagged(make_lab(lan=small, out=bare, wan=LINKS["wan"] | {"shape": None}), TAG))
    computer.become(first)
    begun = computer.commands
    computer.become(other)
    assert computer.commands - begun < 20
    assert computer.misses() == []
    computer.become(first)
    assert computer.misses() == []
    computer.become(())
    assert namespaces() == [OUTER]


def test_packets_pass_bridge_and_router_immediately_after_set_up(computer: Computer) -> None:
    """Wait for no carrier."""
    lab = make_lab()
    topology = make_topology(tagged(lab, TAG))
    here, there = topology.endpoint("left", "far"), topology.endpoint("far", "left")

    def crossing_s() -> float:
        computer.become(compose(tagged(lab, TAG)))
        with socket_in(there.netns) as receiver, socket_in(here.netns) as sender:
            receiver.bind((there.address, 5000))
            receiver.settimeout(PATIENCE_S)
            began = time.monotonic()
            sender.sendto(b"frame", (there.address, 5000))
            data, source = receiver.recvfrom(64)
            took_s = time.monotonic() - began
        assert (data, source[0]) == (b"frame", here.address)
        computer.become(())
        return took_s

    # A busy host may delay one of them; waiting for a carrier delays each, by a second.
    assert any(crossing_s() < 0.5 for _ in range(TRIES))
