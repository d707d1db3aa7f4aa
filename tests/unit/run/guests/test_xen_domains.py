"""Xen domains on the fake agent: created, pinned, read back, destroyed; and errors of impossible ones."""

import json
from collections.abc import Callable

import pytest
from tests.fake_agent.agent import FakeAgent, FakeHost, Outcome
from tests.unit.run.guests.fake_guests import BOOT, Line, guest

from iolab.agent.client import Agent, AgentLost
from iolab.agent.messages import PROTOCOL
from iolab.agent.transport import Transport
from iolab.errors import LabError
from iolab.lab.actions import PinGuest
from iolab.lab.guests.guest import Guest
from iolab.run.agents import Agents
from iolab.run.guests.boot import Source
from iolab.run.guests.guests import Guests
from iolab.run.guests.hypervisors import Hypervisors

PATIENCE_S = 60.0
CONSOLE = "/dev/pts/3"
VCPUS = """Name                                ID  VCPU   CPU State   Time(s) Affinity (Hard / Soft)
dom1                                 1     0    1   -b-       3.1  {0} / all
dom1                                 1     1    0   r--       2.0  {1} / all
"""

SPOKEN = ".".join(map(str, PROTOCOL))


class Toolstack:
    """Programs of a Dom0; `refused` maps a word of a failing command to its error message."""

    def __init__(self, refused: dict[str, str] | None = None) -> None:
        self.refused = refused or {}
        self.pinned = {"0": "all", "1": "all"}
        self.domains: set[str] = set()

    def __call__(self, argv: tuple[str, ...], _netns: str | None) -> Outcome:
        """Run one."""
        for word, said in self.refused.items():
            if any(word in part for part in argv):
                return Outcome(stderr=said, exit_status=1)
        match argv:
            case ("xl", "info", "xen_version"):
                return Outcome(stdout="4.17.7\n")
            case ("xl", "info", "nr_cpus"):
                return Outcome(stdout="2\n")
            case ("xl", "create", *_):
                self.domains.add("dom1")
            case ("xl", "domid", name):
                return Outcome(stdout="1\n") if name in self.domains else Outcome(exit_status=1)
            case ("xl", "vcpu-pin", _, vcpu, cpus):
                self.pinned[vcpu] = cpus
            case ("xl", "vcpu-list", _):
                return Outcome(stdout=VCPUS.format(*self.pinned.values()))
            case ("xenstore-read", "/local/domain/1/console/tty"):
                return Outcome(stdout=f"{CONSOLE}\n")
        return Outcome()


def dom0(
    toolstack: Toolstack, agent: Callable[[], Transport] | None = None
) -> tuple[Guests, Agents, FakeHost]:
    """Return the guests of a simulated computer with a guest that is Dom0."""
    host = FakeHost(behind={CONSOLE: agent or (lambda: FakeAgent(machine=True))})
    agents = Agents(Agent(FakeAgent(FakeHost())))
    agents.add("pc6", Agent(FakeAgent(host, toolstack, machine=True), name="pc6"))
    return Guests(agents, boot_deadline_s=0.2), agents, host


def domain() -> Guest:
    """Return a domain with two virtual CPUs."""
    return guest("dom1", engine="xen")


def test_created_xen_domain_becomes_a_kernel_of_the_lab() -> None:
    """Reach its agent through the console; journal and run its undo."""
    guests, agents, host = dom0(Toolstack())
    *before, record = guests.start(domain(), "pc6").result(PATIENCE_S)
    assert [one.argv[0] for one in before] == ["modprobe", "flock", "mkdir", "mount", "sh", "sh", "sh"]
    assert before[4].argv[3:] == (record.argv[-1], "".join(before[4].argv[4:]))
    assert 'name = "dom1"' in before[4].argv[4]
    assert {one.kernel for one in (*before, record)} == {"pc6"}
    assert record.argv == ("xl", "create", "-q", "/run/iolab/f/dom1/domain.cfg")
    assert agents.of("dom1").run(("true",)).succeeded
    use = guests.use("dom1")
    assert use is not None
    assert (use.on, use.accel, use.hypervisor) == ("pc6", "xen", "4.17.7")
    guests.stop(["dom1"])
    assert any("xl destroy" in part for argv, _ in host.ran[-2:] for part in argv)
    assert host.folders == set()
    with pytest.raises(AgentLost, match="dom1"):
        agents.of("dom1")


def test_domain_on_a_host_is_started_from_the_image_on_that_host() -> None:
    """Use files as kernel and disks, and leave Xen's services unchanged."""
    host = FakeHost(behind={CONSOLE: lambda: FakeAgent(machine=True)})
    agents = Agents(Agent(FakeAgent(host, Toolstack())))
    guests = Guests(agents, Hypervisors(agents, find=lambda _: Source(BOOT, "digest")))
    guests.start(domain(), "").result(PATIENCE_S)
    launch = guests.started("dom1")
    assert launch is not None
    assert 'kernel = "vmlinux"' in launch.launch.configuration
    assert "script=/run/iolab/f/dom1/disk,target=root" in launch.launch.configuration
    assert launch.launch.image == "digest"
    assert not any("xenstored" in part for argv, _ in host.ran for part in argv)
    guests.stop(["dom1"])
    assert [argv[0] for argv, _ in host.ran[-2:]] == ["sh", "umount"]


def test_existing_domain_is_not_touched() -> None:
    """Neither adopt nor destroy a foreign domain."""
    toolstack = Toolstack()
    toolstack.domains.add("dom1")
    guests, _, host = dom0(toolstack)
    with pytest.raises(
        LabError,
        match=r"the Xen domain dom1 because a domain outside this lab has the same name.*rename the machine",
    ):
        guests.start(domain(), "pc6").result(PATIENCE_S)
    assert not any("xl destroy" in part for argv, _ in host.ran for part in argv)
    assert host.folders == set()


def test_vcpus_of_a_domain_are_pinned_and_read_back() -> None:
    """List all CPUs of the machine for a domain without pins."""
    guests, _, _ = dom0(Toolstack())
    guests.start(domain(), "pc6").result(PATIENCE_S)
    anywhere = json.loads(guests.state("dom1").result(PATIENCE_S) or "")
    assert (anywhere["status"], anywhere["vcpus"]) == ("running", [[0, 1], [0, 1]])
    guests.pin(PinGuest("dom1", (1, 0))).result(PATIENCE_S)
    assert json.loads(guests.state("dom1").result(PATIENCE_S) or "")["vcpus"] == [[1], [0]]


@pytest.mark.parametrize(
    ("word", "said", "told"),
    [
        (
            "control_d",
            "it does not run Xen, or is not its Dom0",
            "it does not run Xen.*a VM with `image: xen`",
        ),
        ("control_d", "it has no xl, which is in the package xen-utils", "it has no xl"),
        (
            "xenstored",
            "xenstored: cannot open /proc/xen",
            "cannot open /proc/xen; Xen's services did not start",
        ),
        ("create", "libxl: not enough memory", "creating the Xen domain with `xl create .*not enough memory"),
        ("console/tty", "", "xenconsoled created no console for domain dom1"),
    ],
)
def test_domain_that_cannot_be_created_is_reported_and_leaves_nothing(
    word: str, said: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Name the domain, the action and the error."""
    monkeypatch.setattr("iolab.run.guests.xen_domains.TTY_PAUSE_S", 0)
    guests, agents, host = dom0(Toolstack({word: said}))
    with pytest.raises(LabError, match=f"(?s)starting guest dom1 failed: .*{told}"):
        guests.start(domain(), "pc6").result(PATIENCE_S)
    assert "dom1" not in agents
    assert host.folders == set()


def test_domain_that_never_answers_is_reported_with_its_last_console_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Use the console as the channel: lines that are no message are kernel output."""
    monkeypatch.setattr("iolab.run.guests.start.NESTED_BOOT_DEADLINE_S", 1.0)
    guests, _, host = dom0(Toolstack(), lambda: Line("XENBUS: Waiting for devices to initialise: 25s..."))
    with pytest.raises(LabError, match=r"(?s)the agent in the guest sent nothing for .*Waiting for devices"):
        guests.start(domain(), "pc6").result(PATIENCE_S)
    assert any("xl destroy" in part for argv, _ in host.ran for part in argv)


def test_destroyed_domain_is_reported_to_pending_requests() -> None:
    """Close its console, and name the domain."""
    hello = {"protocol": SPOKEN, "version": "0", "build": "x", "pid": 1, "uid": 0, "rootless": False}
    more = {"state_dir": "/run/iolab", "capabilities": ["machine"]}
    line = Line(json.dumps({"jsonrpc": "2.0", "method": "hello", "params": hello | more}))
    guests, agents, _ = dom0(Toolstack(), lambda: line)
    guests.start(domain(), "pc6").result(PATIENCE_S)
    pending = agents.of("dom1").begin("command.run", {"argv": ["sleep", "60"]})
    line.say(None)
    with pytest.raises(AgentLost) as caught:
        pending.result(PATIENCE_S)
    assert caught.value.name == "dom1"
