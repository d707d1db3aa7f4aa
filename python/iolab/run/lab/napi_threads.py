"""The kernel's threads that take in the frames of interfaces (threaded NAPI): made, found, and kept on a CPU.

The kernel names such a thread napi/INTERFACE-NUMBER. Interfaces of several namespaces may have one name, so a thread is
known by having appeared when its interface was set to have one. Nothing here fails: a trial says what runs where.
"""

from collections.abc import Iterable, Mapping

from iolab.agent.client import Agent, Pending, Refused
from iolab.agent.decoding import decode
from iolab.agent.messages import CommandResult
from iolab.lab.actions import Command, PinNapi, TypedCommand
from iolab.lab.commands import Found, commands_of, threads_path
from iolab.lab.kernels import HERE
from iolab.messages.failures import Difference, NothingReadBack, ReadBack
from iolab.run.agents import Agents
from iolab.trial.lab_access import ArrivalThread

LIST = ("ps", "-e", "-o", "pid=,comm=")
TIMEOUT_MS = 10_000
ALLOWED = "Cpus_allowed_list"
"""The line of /proc/PID/status with the CPUs that a thread may run on."""


class NapiThreads:
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

    def pin(self, wanted: PinNapi, kernel: str = HERE) -> tuple[tuple[TypedCommand, ...], Pending]:
        """Give an interface its thread, unless it has one, and begin to put that where it is wanted.

        Return the commands that do it, the last of which is under way.
        """
        agent = self._agents.of(kernel)
        interface, netns = wanted.interface, wanted.netns
        alive = _threads(agent)
        known = self._found.get((kernel, netns, interface))
        kept = () if known is None else known.pids
        made = len(kept) != wanted.queues or not set(kept) <= set(alive)
        pids = _make(agent, interface, netns, alive, again=bool(kept)) if made else kept
        self._note(kernel, wanted, pids)
        commands = commands_of(wanted, Found(threads=tuple(map(str, pids))))
        last = commands[-1].do if pids else Command(("true",))
        for one in commands[1:-1]:
            agent.run(one.do.argv)
        return commands, agent.begin("command.run", {"argv": list(last.argv), "timeout_ms": TIMEOUT_MS})

    def moved(self, wanted: Iterable[tuple[str, PinNapi]]) -> list[Difference]:
        """Read back where threads may run, each with its kernel; return what is not as applied.

        Threads that could not be made or placed are named in the trial.
        """
        reading: list[tuple[ArrivalThread, Pending]] = []
        for kernel, pin in wanted:
            thread = self.at(pin.netns, pin.interface, kernel)
            if thread is not None and thread.cpu is not None:
                agent = self._agents.of(kernel)
                reading += [(thread, _reading(agent, pid)) for pid in thread.pids]
        found = ((thread, _allowed(pending)) for thread, pending in reading)
        return [
            ReadBack(what=f"cpu of {thread.name}", read=seen, applied=str(thread.cpu))
            if seen
            else NothingReadBack(what=f"cpu of {thread.name}", applied=str(thread.cpu))
            for thread, seen in found
            if seen != str(thread.cpu)
        ]

    def _note(self, kernel: str, wanted: PinNapi, pids: tuple[int, ...]) -> None:
        place = (kernel, wanted.netns, wanted.interface)
        self._found.pop(place, None)
        if not pids:
            return
        agent = self._agents.of(kernel)
        name = _threads(agent).get(pids[0], f"napi/{wanted.interface}")
        cpu = None if agent.hello.rootless else wanted.cpu
        self._found[place] = ArrivalThread(pids[0], name, wanted.interface, wanted.netns, cpu, pids[1:])


def _reading(agent: Agent, pid: int) -> Pending:
    """Begin to read on which CPUs a thread may run."""
    params = {"argv": ["grep", "-s", ALLOWED, f"/proc/{pid}/status"], "timeout_ms": TIMEOUT_MS}
    return agent.begin("command.run", params)


def _allowed(pending: Pending) -> str:
    """Return the CPUs of a thread as the kernel lists them; nothing where it has ended."""
    try:
        shown = decode(CommandResult, pending.result(TIMEOUT_MS / 1000), "command result")
    except (Refused, TimeoutError):
        return ""
    return shown.stdout.partition(":")[2].strip()


def _make(
    agent: Agent, interface: str, netns: str | None, alive: Mapping[int, str], *, again: bool
) -> tuple[int, ...]:
    """Give an interface a thread for each receive queue; `again`: it has had some, for other queues."""
    try:
        for value in ("0", "1") if again else ("1",):
            agent.call("setting.write", {"path": threads_path(interface), "netns": netns, "value": value})
    except Refused:
        return ()
    return tuple(pid for pid in sorted(_threads(agent)) if pid not in alive)


def _threads(agent: Agent) -> dict[int, str]:
    """Return the threads of this kind that there are, by process id."""
    rows = (line.split() for line in agent.run(LIST).stdout.splitlines())
    return {
        int(row[0]): row[1]
        for row in rows
        if len(row) == 2 and row[0].isdecimal() and row[1].startswith("napi/")
    }
