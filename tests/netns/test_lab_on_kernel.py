"""A composed lab, carried out with plain commands on this kernel: every expectation holds, and no trace stays."""

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest
from pydantic import TypeAdapter
from tests.netns.runs import PATIENCE_S

from iolab.experiment.experiment import Lab
from iolab.experiment.links import Link
from iolab.experiment.machines import Machine
from iolab.lab.compose import compose
from iolab.lab.difference import difference
from iolab.lab.resources import (
    Command,
    CreateNetns,
    Expectation,
    Resource,
    Run,
    Setting,
    Source,
    Write,
    extract,
    filled,
    holds,
)
from iolab.lab.topology import make_topology

pytestmark = [
    pytest.mark.netns,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(shutil.which("ethtool") is None, reason="needs ethtool"),
]

PREFIX = f"t{os.getpid()}-"
TRIES = 5
OUTER = f"{PREFIX}computer"
"""Stands for the computer's own namespace, so that this file touches nothing of the real one."""

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


@dataclass
class Computer:
    """Carries out resources by plain commands; keeps the undo of each."""

    standing: tuple[Resource, ...] = ()
    undos: dict[str, list[Command | Write]] = field(default_factory=dict)
    commands: int = 0

    def run(self, command: Command, *, stdin: str = "") -> str:
        """Run a command in its namespace; fail the test where it fails."""
        namespace = command.argv[:2] == ("ip", "netns")  # its mounts must be made here, not inside another's
        argv = [*(() if namespace else ("ip", "netns", "exec", command.netns or OUTER)), *command.argv]
        done = subprocess.run(
            argv, input=stdin, capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
        assert done.returncode == 0, f"{' '.join(argv)}: {done.stderr}"
        self.commands += 1
        return done.stdout

    def become(self, wanted: tuple[Resource, ...]) -> None:
        """Change the lab that stands into another."""
        change = difference(self.standing, wanted)
        for resource in change.undo:
            self.undo(resource)
        for resource in change.do:
            self.do(resource, keep=resource.key in change.in_place)
        self.standing = wanted

    def do(self, resource: Resource, *, keep: bool) -> None:
        """Carry out a resource; `keep` the undo it has."""
        undos: list[Command | Write] = []
        for action in resource.actions:
            match action:
                case CreateNetns(name):
                    undos.append(Command(("ip", "netns", "del", name)))
                    self.run(Command(("ip", "netns", "add", name)))
                    self.run(Command(("ip", "link", "set", "dev", "lo", "up"), name))
                case Write(path, netns, value):
                    original = self.run(Command(("cat", path), netns)).strip()
                    undos.append(Write(path, netns, original))
                    self.run(Command(("tee", path), netns), stdin=value)
                case Run(do, undo, original):
                    if undo is not None:
                        text = self.read(original.source) if original and not keep else ""
                        undos.append(filled(undo, extract(original, text) or "" if original else ""))
                    self.run(do)
        if not keep:
            self.undos[resource.key] = undos

    def undo(self, resource: Resource) -> None:
        """Take a resource back."""
        for undo in reversed(self.undos.pop(resource.key)):
            if isinstance(undo, Write):
                self.run(Command(("tee", undo.path), undo.netns), stdin=undo.value)
            else:
                self.run(undo)

    def read(self, source: Source) -> str:
        """Read what an expectation looks at."""
        assert isinstance(source, Command | Setting), "the others need an agent"
        return self.run(
            Command(("cat", source.path), source.netns) if isinstance(source, Setting) else source
        )

    def misses(self) -> list[str]:
        """Return every expectation that does not hold, in words; each distinct command is run once."""
        texts: dict[Source, str] = {}
        found = []
        for expectation in self.expectations():
            source = expectation.reading.source
            if source not in texts:
                texts[source] = self.read(source)
            value = extract(expectation.reading, texts[source])
            if not holds(expectation, value):
                found.append(f"{expectation.what}: expected {expectation.expected}, saw {value}")
        return found

    def expectations(self) -> Sequence[Expectation]:
        """Return all expectations of the lab that stands."""
        return [expectation for resource in self.standing for expectation in resource.expect]

    def snapshot(self) -> dict[str, object]:
        """Return links, addresses, routes, qdiscs and forwarding of the computer's own namespace."""
        links = json.loads(self.run(Command(("ip", "-j", "addr", "show"))))
        return {
            "links": [(link["ifname"], link["mtu"], link["operstate"], link["addr_info"]) for link in links],
            "routes": self.run(Command(("ip", "route", "show", "table", "all"))),
            "qdiscs": self.run(Command(("tc", "qdisc", "show"))),
            "forward": self.run(Command(("cat", "/proc/sys/net/ipv4/ip_forward"))),
        }


@pytest.fixture
def computer() -> Iterator[Computer]:
    """Give a computer of our own: an empty namespace."""
    subprocess.run(["ip", "netns", "add", OUTER], check=True)
    yield Computer()
    for name in namespaces():
        subprocess.run(["ip", "netns", "del", name], check=True)


def namespaces() -> list[str]:
    """Return the namespaces that this file made and that still exist."""
    shown = json.loads(
        subprocess.run(["ip", "-j", "netns"], capture_output=True, text=True, check=True).stdout or "[]"
    )
    return [row["name"] for row in shown if row["name"].startswith(PREFIX)]


def test_every_expectation_holds_and_undo_leaves_no_trace(computer: Computer) -> None:
    """Bridge, veth, MTU 9000, offloads, htb, tbf, routes and settings read back as wanted; undoing restores all."""
    before = computer.snapshot()
    computer.become(compose(make_lab(), prefix=PREFIX))
    assert computer.misses() == []
    assert len(computer.expectations()) > 60
    computer.become(())
    assert computer.snapshot() == before
    assert namespaces() == [OUTER]


def test_a_wrong_value_is_noticed(computer: Computer) -> None:
    """A change behind our back shows in the read-back, in words."""
    computer.become(compose(make_lab(), prefix=PREFIX))
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


def test_changing_back_and_forth_ends_where_it_began(computer: Computer) -> None:
    """Other MTU, offloads and shapes are applied in place or rebuilt; the first lab comes back exactly."""
    first = compose(make_lab(), prefix=PREFIX)
    small = {"ends": LINKS["lan"]["ends"], "mtu": 1500, "offload": {"tso": "on", "gro": "off"}}
    bare = {"ends": LINKS["out"]["ends"]}
    other = compose(make_lab(lan=small, out=bare, wan=LINKS["wan"] | {"shape": None}), prefix=PREFIX)
    computer.become(first)
    begun = computer.commands
    computer.become(other)
    assert computer.commands - begun < 20
    assert computer.misses() == []
    computer.become(first)
    assert computer.misses() == []
    computer.become(())
    assert namespaces() == [OUTER]


def test_packets_pass_through_bridge_and_router_at_once(computer: Computer) -> None:
    """A datagram crosses link bridge, bridging machine and router right after set-up: no carrier is waited for."""
    lab = make_lab()
    topology = make_topology(lab, prefix=PREFIX)
    here, there = topology.endpoint("left", "far"), topology.endpoint("far", "left")

    def crossing_s() -> float:
        computer.become(compose(lab, prefix=PREFIX))
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

    # A busy host may hold up one of them; a carrier that is waited for holds up each, for a second.
    assert any(crossing_s() < 0.5 for _ in range(TRIES))


def socket_in(netns: str | None) -> socket.socket:
    """Return a datagram socket that lives in a namespace."""
    own = os.open("/proc/self/ns/net", os.O_RDONLY)
    other = os.open(f"/run/netns/{netns}", os.O_RDONLY)
    enter(other)
    try:
        return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    finally:
        enter(own)
        os.close(own)
        os.close(other)


def enter(descriptor: int) -> None:
    """Move this thread into a network namespace."""
    import ctypes

    if ctypes.CDLL(None, use_errno=True).setns(descriptor, 0x40000000):  # CLONE_NEWNET
        raise OSError(ctypes.get_errno(), "setns")
