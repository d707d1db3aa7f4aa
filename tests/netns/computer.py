"""An isolated computer for tests, an empty namespace, on which plain commands create a composed lab."""

import ctypes
import json
import os
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from pydantic import TypeAdapter
from tests.netns.runs import PATIENCE_S

from iolab.experiment.experiment import Lab
from iolab.experiment.model.links import Link
from iolab.experiment.model.machines import Machine
from iolab.lab.actions import (
    Command,
    CreateNetns,
    Expectation,
    Run,
    Setting,
    Source,
    Write,
    extract,
    filled,
    holds,
)
from iolab.lab.compose import compose
from iolab.lab.leases import tagged
from iolab.lab.resources import Resource, difference

TAG = f"t{os.getpid()}"
PREFIX = f"{TAG}-"
OUTER = f"{PREFIX}computer"
"""Namespace that acts as the computer's root namespace, so that tests do not change the real root namespace."""


@dataclass
class Computer:
    """Applies resources by plain commands; keeps the undo of each."""

    standing: tuple[Resource, ...] = ()
    undos: dict[str, list[Command | Write]] = field(default_factory=dict)
    commands: int = 0

    def run(self, command: Command, *, stdin: str = "") -> str:
        """Run a command in its namespace; fail the test if it fails."""
        namespace = command.argv[:2] == ("ip", "netns")  # its mounts must be created here, not inside another
        argv = [*(() if namespace else ("ip", "netns", "exec", command.netns or OUTER)), *command.argv]
        done = subprocess.run(
            argv, input=stdin, capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
        assert done.returncode == 0, f"{' '.join(argv)}: {done.stderr}"
        self.commands += 1
        return done.stdout

    def become(self, wanted: tuple[Resource, ...]) -> None:
        """Change the current lab into another."""
        change = difference(self.standing, wanted)
        for resource in change.undo:
            self.undo(resource)
        for resource in change.do:
            self.do(resource, keep=resource.key in change.in_place)
        self.standing = wanted

    def build(self, lab: Lab) -> None:
        """Change the current lab into this one, of which every expectation must hold."""
        self.become(compose(tagged(lab, TAG)))
        assert self.misses() == []

    def do(self, resource: Resource, *, keep: bool) -> None:
        """Apply a resource; `keep` its undo."""
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
        """Undo a resource."""
        for undo in reversed(self.undos.pop(resource.key)):
            if isinstance(undo, Write):
                self.run(Command(("tee", undo.path), undo.netns), stdin=undo.value)
            else:
                self.run(undo)

    def read(self, source: Source) -> str:
        """Read the value of an expectation."""
        assert isinstance(source, Command | Setting), "the others need an agent"
        return self.run(
            Command(("cat", source.path), source.netns) if isinstance(source, Setting) else source
        )

    def misses(self) -> list[str]:
        """Return every failed expectation as text; each distinct command is run once."""
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
        """Return all expectations of the current lab."""
        return [expectation for resource in self.standing for expectation in resource.expect]

    def snapshot(self) -> dict[str, object]:
        """Return links, addresses, routes, qdiscs and forwarding of the computer's root namespace."""
        links = json.loads(self.run(Command(("ip", "-j", "addr", "show"))))
        return {
            "links": [(link["ifname"], link["mtu"], link["operstate"], link["addr_info"]) for link in links],
            "routes": self.run(Command(("ip", "route", "show", "table", "all"))),
            "qdiscs": self.run(Command(("tc", "qdisc", "show"))),
            "forward": self.run(Command(("cat", "/proc/sys/net/ipv4/ip_forward"))),
        }


@pytest.fixture
def computer() -> Iterator[Computer]:
    """Provide an isolated computer: an empty namespace."""
    subprocess.run(["ip", "netns", "add", OUTER], check=True)
    yield Computer()
    for name in namespaces():
        subprocess.run(["ip", "netns", "del", name], check=True)


def namespaces() -> list[str]:
    """Return the existing namespaces of this file."""
    shown = json.loads(
        subprocess.run(["ip", "-j", "netns"], capture_output=True, text=True, check=True).stdout or "[]"
    )
    return [row["name"] for row in shown if row["name"].startswith(PREFIX)]


def socket_in(netns: str | None) -> socket.socket:
    """Return a datagram socket in a namespace."""
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
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, 0x40000000):  # CLONE_NEWNET
        raise OSError(ctypes.get_errno(), "setns")


def lab_of(machines: Mapping[str, Mapping[str, object]], links: Mapping[str, Mapping[str, object]]) -> Lab:
    """Return a lab of namespaces."""
    machine = TypeAdapter[Machine](Machine)
    return Lab(
        {name: machine.validate_python({"kind": "netns"} | dict(given)) for name, given in machines.items()},
        {name: Link.model_validate(given) for name, given in links.items()},
        {},
    )


def tunnelled(below: int = 1500, **tun: object) -> Lab:
    """Return two namespaces with a tunnel over their link."""
    links = {
        "lan": {"ends": ["a.eth0", "b.eth0"], "mtu": below},
        "tun": {"ends": ["a.t0", "b.t0"], "over": "lan", "tunnel": "vxlan", **tun},
    }
    return lab_of({"a": {}, "b": {}}, links)
