"""Simulated guests: a parent's host with consoles, agents and monitors at its sockets."""

import json
import queue
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.fake_agent.agent import FakeAgent, FakeHost, Outcome

from iolab.agent.client import Agent
from iolab.agent.transport import Transport
from iolab.image.emulator import Emulator
from iolab.lab.guests.guest import Guest
from iolab.lab.guests.qemu import Boot
from iolab.run.agents import Agents
from iolab.run.guests.boot import Source
from iolab.run.guests.guests import Guests
from iolab.run.guests.hypervisors import Hypervisors

BOOT = Boot("vmlinux", "initrd", "root", "modules")
QEMU_PID, FIRST_VCPU, VHOST = 1001, 1010, 1030


class Line:
    """A simulated line with given content."""

    notice_s = 0.0

    def __init__(self, *said: str | None) -> None:
        self._lines: queue.Queue[str | None] = queue.Queue()
        self.say(*said)

    def say(self, *lines: str | None) -> None:
        """Send lines; None: cut the line."""
        for line in lines:
            self._lines.put(line)

    def send(self, line: str) -> None:
        """Ignore the message."""

    def receive(self) -> str | None:
        """Return the next line."""
        return self._lines.get()

    def close(self, deadline_s: float) -> str:
        """Cut the line."""
        self._lines.put(None)
        return ""

    def last_words(self) -> str:
        """Return nothing."""
        return ""


class Monitor(Line):
    """A simulated QEMU monitor of a running guest."""

    def __init__(self, cpus: int = 2) -> None:
        self._cpus = cpus
        version = {"qemu": {"major": 7, "minor": 2, "micro": 22}, "package": ""}
        super().__init__(json.dumps({"QMP": {"version": version, "capabilities": []}}))

    def send(self, line: str) -> None:
        """Answer a request."""
        asked = json.loads(line)
        answers: dict[str, object] = {
            "query-status": {"status": "running", "running": True},
            "query-cpus-fast": [{"cpu-index": n, "thread-id": FIRST_VCPU + n} for n in range(self._cpus)],
            "query-kvm": {"enabled": False, "present": True},
            "query-version": {"qemu": {"major": 7, "minor": 2, "micro": 22}, "package": ""},
        }
        answer = {"return": answers.get(asked["execute"], {})}
        self.say(json.dumps(answer | ({"id": asked["id"]} if "id" in asked else {})))


class Threads:
    """Programs of a parent: ps shows the threads of its guest, taskset moves them and shows their CPUs."""

    def __init__(self) -> None:
        self.cpus: dict[int, str] = {}

    def __call__(self, argv: tuple[str, ...], _netns: str | None) -> Outcome:
        """Run one."""
        if argv[0] == "ps":
            rows = [(QEMU_PID, QEMU_PID, "qemu-system-x86"), (QEMU_PID, FIRST_VCPU, "CPU 0/TCG")]
            rows += [
                (QEMU_PID, FIRST_VCPU + 1, "CPU 1/TCG"),
                (VHOST, VHOST, f"vhost-{QEMU_PID}"),
                (7, 7, "bash"),
            ]
            return Outcome(stdout="".join(f"{pid} {tid} {name}\n" for pid, tid, name in rows))
        if argv[:3] == ("taskset", "-c", "-p"):
            thread = int(argv[-1])
            if len(argv) == 5:
                self.cpus[thread] = "0-3" if argv[3] == "0-1023" else argv[3]
            return Outcome(stdout=f"pid {thread}'s current affinity list: {self.cpus.get(thread, '0-3')}\n")
        return Outcome()


def guest(name: str = "dut", **keys: Any) -> Guest:
    """Return a guest without NICs."""
    usual: dict[str, Any] = {
        "engine": "qemu",
        "image": "linux",
        "memory_bytes": 512 << 20,
        "cpus": 2,
        "accel": "tcg",
        "nics": (),
    }
    return Guest(name=name, **(usual | keys))


def parent(
    *,
    name: str = "dut",
    console: Callable[[], Transport] = Line,
    agent: Callable[[], Transport] | None = None,
    programs: Callable[[tuple[str, ...], str | None], Outcome | None] | None = None,
    deadline_s: float = 60.0,
) -> tuple[Guests, Agents, FakeHost]:
    """Return the guests of a simulated computer on which one of that name can be started."""
    folder = f"/run/iolab/f/{name}"
    inner = FakeHost()
    behind: dict[str, Callable[[], Transport]] = {
        f"{folder}/console": console,
        f"{folder}/agent": agent or (lambda: FakeAgent(inner, machine=True)),
        f"{folder}/monitor": Monitor,
    }
    host = FakeHost(behind=behind)
    agents = Agents(Agent(FakeAgent(host, programs or Threads())))
    hypervisors = Hypervisors(
        agents, find=lambda _: Source(BOOT, "digest"), emulator=lambda _: Emulator(Path("qemu"), (7, 2))
    )
    return Guests(agents, hypervisors, boot_deadline_s=deadline_s), agents, host
