"""Planned and executed commands agree: every command of the labs with guests, on simulated computers."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fake_agent.agent import FakeAgent, FakeHost, Outcome
from tests.planned import differences, executed, planned
from tests.unit.plan.conftest import facts
from tests.unit.run.guests.fake_guests import BOOT, Line, Monitor

from iolab.agent.client import Agent
from iolab.agent.transport import Transport
from iolab.experiment import load
from iolab.image.emulator import Emulator
from iolab.lab.actions import StartGuest
from iolab.lab.guests.guest import Guest
from iolab.lab.hosts.facts import Facts, ImageFact
from iolab.lab.resources import Resource
from iolab.plan.commands import Labs
from iolab.plan.plan_json import describe
from iolab.plan.planning import make_plan
from iolab.report.stated import stated
from iolab.results.trial import CommandRecord
from iolab.run.agents import Agents
from iolab.run.guests.boot import Source
from iolab.run.guests.guests import Guests
from iolab.run.guests.hypervisors import Hypervisors
from iolab.run.lab.standing_lab import StandingLab
from iolab.store.codec import encode_command

LABS = Path(__file__).parents[3] / "labs"
PROGRAMS = ("qemu-system-x86_64", "iperf3", "ip", "tc", "ethtool", "taskset", "ps")
STEPS = 12
"""Number of steps of each plan, from the first block."""
__all__ = ["facts"]


class Programs:
    """Programs of a simulated computer: they show threads, interrupts and domains, and accept all else."""

    def __init__(self) -> None:
        self.domains: list[str] = []
        self.napi = 0

    def __call__(self, argv: tuple[str, ...], _netns: str | None) -> Outcome:
        """Run one."""
        match argv:
            case ("ps", "-e", "-L", *_):
                rows = [f"{pid} {pid} qemu-system-x86" for pid in range(1000, 1100)]
                return Outcome(stdout="".join(f"{row}\n" for row in rows))
            case ("readlink", "-f", _):
                return Outcome(stdout="/sys/devices/pci0000:00/0000:00:02.0\n")
            case ("ls", path) if path.endswith("msi_irqs"):
                return Outcome(stdout="24 25\n")
            case (program, "--version") if program.startswith("qemu"):
                return Outcome(stdout="QEMU emulator version 8.2.1\n")
            case ("xl", "info", "xen_version"):
                return Outcome(stdout="4.17.7\n")
            case ("xl", "create", "-q", path):
                self.domains.append(path.split("/")[-2])
            case ("xl", "domid", name):
                known = name in self.domains
                return Outcome(stdout=f"{self.domains.index(name)}\n") if known else Outcome(exit_status=1)
            case ("xenstore-read", path):
                return Outcome(stdout=f"/dev/pts/{path.split('/')[3]}\n")
        return Outcome()


class Sockets(dict[str, Callable[[], Transport]]):
    """Peers at the paths of a simulated computer: agents, consoles and monitors of any guest."""

    def __init__(self, cpus: dict[str, int]) -> None:
        super().__init__()
        self._cpus = cpus

    def __contains__(self, path: object) -> bool:
        return True

    def get(self, path: str, default: object = None) -> Callable[[], Transport]:
        """Return the peer of a path."""
        return self[path]

    def __getitem__(self, path: str) -> Callable[[], Transport]:
        if path.endswith("/console"):
            return Line
        if path.endswith("/monitor"):
            return lambda: Monitor(self._cpus[path.split("/")[-2]])
        return lambda: FakeAgent(FakeHost(behind=self), Programs(), machine=True)


@pytest.fixture
def able(facts: Facts) -> Facts:
    """Return a host of eight CPUs that has every image and program that the labs need."""
    images = tuple(ImageFact(flavour=name) for name in ("linux", "nested", "xen"))
    programs = {**dict.fromkeys(PROGRAMS, "1"), "qemu 8": "10.0"}
    return replace(facts, cpus=8, images=images, programs=programs, memory_bytes=64 << 30)


@pytest.mark.parametrize("name", ["kvm-forwarding", "nested", "sr-iov", "two-hosts", "xen-vlan"])
def test_guest_labs_are_created_with_exactly_the_planned_commands(
    name: str, able: Facts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compare guests, switches, domains, pins and their contents, on every kernel, and the teardown."""
    monkeypatch.setattr("iolab.run.lab.actions.extract", lambda *_: "{original}")
    experiment = load(LABS / f"{name}.yaml")
    whole = make_plan(experiment, able, blocks=1)
    plan = replace(whole, steps=whole.steps[:STEPS])
    labs, log = Labs(experiment, plan), list[CommandRecord]()
    cpus: dict[str, int] = {}
    agents = Agents(Agent(FakeAgent(FakeHost(behind=Sockets(cpus)), Programs())))
    standing = StandingLab(agents, log.extend, guests_of(agents), pause=lambda _: None)
    assert plan.steps, whole.unsupported
    for step in plan.steps:
        wanted = labs.of(step).resources
        cpus.update(cpus_of_guests(wanted))
        standing.change_to(wanted)
    standing.take_down()
    document = json.loads(json.dumps(describe(Labs(experiment, plan), stated)))
    assert list(differences(planned(document), executed([encode_command(one) for one in log]))) == []


def guests_of(agents: Agents) -> Guests:
    """Return guests that start at once."""
    emulator = Emulator(Path("qemu-system-x86_64"), (8, 2))
    hypervisors = Hypervisors(agents, find=source, emulator=lambda _: emulator, probe=False)
    return Guests(agents, hypervisors, boot_deadline_s=60.0)


def source(guest: Guest) -> Source:
    """Return the boot source of a guest: a Dom0 has its hypervisor below."""
    return Source(replace(BOOT, xen="xen") if guest.image == "xen" else BOOT, "digest")


def cpus_of_guests(resources: tuple[Resource, ...]) -> dict[str, int]:
    """Return the number of virtual CPUs that QEMU gives each guest."""
    starts = (one for resource in resources for one in resource.actions if isinstance(one, StartGuest))
    return {start.guest.name: start.guest.cpus + start.guest.domains_cpus for start in starts}
