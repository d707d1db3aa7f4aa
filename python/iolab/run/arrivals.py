"""The kernel's threads that take in the frames of interfaces (threaded NAPI): made, found, and kept on a CPU.

The kernel names such a thread napi/INTERFACE-NUMBER. Interfaces of several namespaces may have one name, so a thread is
known by having appeared when its interface was told to have one. Nothing here fails: a trial says what runs where.
"""

from collections.abc import Mapping

from iolab.agent.client import Agent, Pending, Refused
from iolab.lab.kernels import HERE
from iolab.lab.resources import PinArrivals, scheduled
from iolab.run.agents import Agents
from iolab.trial.result import CommandRecord
from iolab.trial.site import ArrivalThread

LIST = ("ps", "-e", "-o", "pid=,comm=")
TIMEOUT_MS = 10_000


class ArrivalThreads:
    """Those of the lab that stands."""

    def __init__(self, agents: Agents) -> None:
        self._agents = agents
        self._found: dict[tuple[str, str | None, str], ArrivalThread] = {}

    def forget(self) -> None:
        """Know none any more: their interfaces are gone."""
        self._found.clear()

    def at(self, netns: str | None, interface: str, kernel: str = HERE) -> ArrivalThread | None:
        """Return the thread of an interface; None where it has none."""
        return self._found.get((kernel, netns, interface))

    def pin(self, wanted: PinArrivals, kernel: str = HERE) -> tuple[CommandRecord, Pending]:
        """Give an interface its thread, unless it has one, and begin to put that where it is wanted."""
        agent = self._agents.of(kernel)
        interface, netns, cpu = wanted.interface, wanted.netns, wanted.cpu
        alive = _threads(agent)
        known = self._found.get((kernel, netns, interface))
        pid = known.pid if known is not None and known.pid in alive else _make(agent, interface, netns, alive)
        self._note(kernel, wanted, pid)
        argv = ("taskset", "-c", "-p", str(cpu), str(pid)) if pid is not None else ("true",)
        if pid is not None:
            agent.run(scheduled(wanted.priority, str(pid)))
        record = CommandRecord(machine="", netns=None, argv=argv, undo=None, exit_status=None, duration_ns=0)
        return record, agent.begin("command.run", {"argv": list(argv), "timeout_ms": TIMEOUT_MS})

    def _note(self, kernel: str, wanted: PinArrivals, pid: int | None) -> None:
        place = (kernel, wanted.netns, wanted.interface)
        self._found.pop(place, None)
        if pid is None:
            return
        agent = self._agents.of(kernel)
        name = _threads(agent).get(pid, f"napi/{wanted.interface}")
        cpu = None if agent.hello.rootless else wanted.cpu
        self._found[place] = ArrivalThread(pid, name, wanted.interface, wanted.netns, cpu)


def _make(agent: Agent, interface: str, netns: str | None, alive: Mapping[int, str]) -> int | None:
    path = f"/sys/class/net/{interface}/threaded"
    try:
        agent.call("setting.write", {"path": path, "netns": netns, "value": "1"})
    except Refused:
        return None
    return next((pid for pid in _threads(agent) if pid not in alive), None)


def _threads(agent: Agent) -> dict[int, str]:
    """Return the threads of this kind that there are, by process id."""
    rows = (line.split() for line in agent.run(LIST).stdout.splitlines())
    return {int(row[0]): row[1] for row in rows if len(row) == 2 and row[1].startswith("napi/")}
