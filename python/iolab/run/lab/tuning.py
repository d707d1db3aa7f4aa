"""Tuning of a host while its lab exists: processors, interrupts of its NICs, and NAPI threads.

The kernel names the NAPI thread of an interface napi/INTERFACE-NUMBER. Interfaces in different namespaces may have the
same name, so a thread is recognised because it appears when threaded NAPI is enabled. A missing thread is not an error:
the trial gets a warning.
"""

from collections.abc import Iterable, Mapping

from iolab.agent.answers import CommandResult
from iolab.agent.client import Agent, Pending, Refused
from iolab.agent.decoding import decode
from iolab.agent.messages import SettingOriginal, SettingValue
from iolab.errors import LabError
from iolab.lab.actions import Command, PinNapi, ProcessorState, SpreadInterrupts, TuneProcessors, TypedCommand
from iolab.lab.commands import Found, commands_of, file_words, threads_path
from iolab.lab.hosts.tuning import BOOST, CONTRARY, FILES, NO_TURBO
from iolab.lab.kernels import HERE
from iolab.lab.resources import Resource
from iolab.locale import Phrase
from iolab.messages.failures import Difference, NothingReadBack, ReadBack
from iolab.run.agents import Agents
from iolab.trial.lab_access import ArrivalThread

Card = tuple[str, str]
"""Kernel and interface."""
LIST = ("ps", "-e", "-o", "pid=,comm=")
TIMEOUT_MS = 10_000
ALLOWED = "Cpus_allowed_list"
"""Line of /proc/PID/status with the CPUs on which a thread may run."""


class NapiThreads:
    """The NAPI threads of the current lab."""

    def __init__(self, agents: Agents) -> None:
        self._agents = agents
        self._found: dict[tuple[str, str | None, str], ArrivalThread] = {}

    def forget(self) -> None:
        """Forget all threads, because their interfaces are gone."""
        self._found.clear()

    def at(self, netns: str | None, interface: str, kernel: str = HERE) -> ArrivalThread | None:
        """Return the thread of an interface; None if the interface has no thread."""
        return self._found.get((kernel, netns, interface))

    def pin(self, wanted: PinNapi, kernel: str = HERE) -> tuple[tuple[TypedCommand, ...], Pending]:
        """Enable threaded NAPI on an interface unless it is enabled, and begin to pin its thread.

        Return the commands; the last one is in progress.
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
        """Read back the CPU affinities of threads on their kernels; return the differences from the applied ones.

        Threads that could not be created or pinned cause a warning in the trial.
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


class Interrupts:
    """The NIC interrupts of the current lab."""

    def __init__(self, agents: Agents) -> None:
        self._agents = agents
        self._found: dict[Card, tuple[str, ...]] = {}

    def spread(self, wanted: SpreadInterrupts, kernel: str) -> tuple[tuple[TypedCommand, ...], "Writes"]:
        """Begin to set the CPUs that handle a NIC's interrupts.

        Raises:
            LabError: the NIC has no separate interrupts.
        """
        agent = self._agents.of(kernel)
        paths = tuple(_affinity(number) for number in _numbers(agent, wanted.interface))
        if not paths:
            raise LabError(Phrase("run.card-without-interrupts", interface=wanted.interface))
        known = self._found.get((kernel, wanted.interface), ())
        self._found[kernel, wanted.interface] = tuple(dict.fromkeys((*known, *paths)))
        return commands_of(wanted, Found(paths=paths)), Writes(agent, file_words(wanted, paths))

    def undo_keys(self, resource: Resource) -> list[str]:
        """Return the journal keys of the original values of a resource's settings, and forget these keys."""
        cards = [
            (resource.kernel, action.interface)
            for action in resource.actions
            if isinstance(action, SpreadInterrupts)
        ]
        return [f"setting::{path}" for card in cards for path in self._found.pop(card, ())]

    def forget(self) -> None:
        """Forget all keys, because everything is undone."""
        self._found.clear()

    def state(self, kernel: str, interface: str) -> "Affinities":
        """Begin to read the CPUs that handle a NIC's interrupts."""
        agent = self._agents.of(kernel)
        numbers = _numbers(agent, interface)
        return Affinities([agent.begin("setting.read", {"path": _affinity(number)}) for number in numbers])


class Writes:
    """Settings that are being written; the first error is raised."""

    def __init__(self, agent: Agent, words: Mapping[str, str]) -> None:
        self._pending = {
            path: agent.begin("setting.write", {"path": path, "value": word}) for path, word in words.items()
        }

    def result(self, deadline_s: float) -> dict[str, str]:
        """Wait until all files are written; return the original content of each file."""
        return {path: one.read(SettingOriginal, deadline_s).original for path, one in self._pending.items()}


class Affinities:
    """A pending reading of the CPU affinities of interrupts."""

    def __init__(self, pending: Iterable[Pending]) -> None:
        self._pending = list(pending)

    def result(self, deadline_s: float) -> str:
        """Return the distinct CPU lists; only one if all interrupts have the same list."""
        lists = [one.read(SettingValue, deadline_s).value for one in self._pending]
        return " ".join(dict.fromkeys(lists))


class Processors:
    """The processor settings of the current lab."""

    def __init__(self, agents: Agents) -> None:
        self._agents = agents
        self._found: dict[tuple[str, str], tuple[str, ...]] = {}

    def tune(self, wanted: TuneProcessors, kernel: str) -> tuple[tuple[TypedCommand, ...], Writes]:
        """Begin to set all processors of a kernel.

        Raises:
            LabError: the kernel does not have the setting.
        """
        agent = self._agents.of(kernel)
        paths = _paths(agent, wanted.what)
        if not paths:
            raise LabError(Phrase("run.kernel-lacks-setting", what=wanted.what, value=wanted.value))
        self._found[kernel, wanted.what] = paths
        return commands_of(wanted, Found(paths=paths)), Writes(agent, file_words(wanted, paths))

    def undo_keys(self, resource: Resource) -> list[str]:
        """Return the journal keys of the original values of a resource's settings, and forget these keys."""
        tuned = [action for action in resource.actions if isinstance(action, TuneProcessors)]
        paths = [path for action in tuned for path in self._found.pop((resource.kernel, action.what), ())]
        return [f"setting::{path}" for path in paths]

    def forget(self) -> None:
        """Forget all keys, because everything is undone."""
        self._found.clear()

    def state(self, kernel: str, what: ProcessorState) -> "States":
        """Begin to read the processor settings of a kernel."""
        agent = self._agents.of(kernel)
        paths = _paths(agent, what.what)
        return States(paths, [agent.begin("setting.read", {"path": path}) for path in paths])


class States:
    """A pending reading of processor settings from files."""

    def __init__(self, paths: Iterable[str], pending: Iterable[Pending]) -> None:
        self._pending = dict(zip(paths, pending, strict=True))

    def result(self, deadline_s: float) -> str:
        """Return the distinct values of the setting; only one if all processors have the same value."""
        words = [
            _shown(path, one.read(SettingValue, deadline_s).value) for path, one in self._pending.items()
        ]
        return " ".join(dict.fromkeys(words))


def _shown(path: str, value: str) -> str:
    """Return the content of a kernel file, as a value of the setting."""
    if path.endswith("scaling_governor"):
        return value
    words = CONTRARY if path == NO_TURBO else BOOST
    return next((word for word, written in words.items() if written == value.strip()), value)


def _paths(agent: Agent, what: str) -> tuple[str, ...]:
    """Return the files of a setting on a kernel: all governors, or the turbo file of its driver."""
    found = agent.run(("sh", "-c", f"ls -d {FILES[what]} 2>/dev/null || true")).stdout.split()
    return tuple(found) if what == "governor" else tuple(sorted(found, key=lambda path: path != NO_TURBO)[:1])


def _affinity(number: int) -> str:
    return f"/proc/irq/{number}/smp_affinity_list"


def _numbers(agent: Agent, interface: str) -> list[int]:
    """Return the message-signalled interrupts of a NIC, or its only interrupt line.

    For a virtio NIC, return the interrupts of its PCI parent.
    """
    found = agent.run(("readlink", "-f", f"/sys/class/net/{interface}/device"))
    device = found.stdout.strip()
    if not found.succeeded or not device.startswith("/sys/devices/"):
        return []
    above, _, name = device.rpartition("/")
    device = above if name.startswith("virtio") else device
    words = agent.run(("ls", f"{device}/msi_irqs")).stdout.split()
    words = words or agent.run(("cat", f"{device}/irq")).stdout.split()
    return sorted(int(word) for word in words if word.isdecimal() and int(word))


def _reading(agent: Agent, pid: int) -> Pending:
    """Begin to read the CPUs on which a thread may run."""
    params = {"argv": ["grep", "-s", ALLOWED, f"/proc/{pid}/status"], "timeout_ms": TIMEOUT_MS}
    return agent.begin("command.run", params)


def _allowed(pending: Pending) -> str:
    """Return the CPUs of a thread as a list in kernel syntax; empty if the thread has exited."""
    try:
        shown = decode(
            CommandResult, pending.result(TIMEOUT_MS / 1000), Phrase("agent.result-of", method="command.run")
        )
    except (Refused, TimeoutError):
        return ""
    return shown.stdout.partition(":")[2].strip()


def _make(
    agent: Agent, interface: str, netns: str | None, alive: Mapping[int, str], *, again: bool
) -> tuple[int, ...]:
    """Create a thread for each receive queue of an interface.

    `again` is set if the interface had threads for a different number of queues.
    """
    try:
        for value in ("0", "1") if again else ("1",):
            agent.call("setting.write", {"path": threads_path(interface), "netns": netns, "value": value})
    except Refused:
        return ()
    return tuple(pid for pid in sorted(_threads(agent)) if pid not in alive)


def _threads(agent: Agent) -> dict[int, str]:
    """Return the names of the existing NAPI threads, by process ID."""
    rows = (line.split() for line in agent.run(LIST).stdout.splitlines())
    return {
        int(row[0]): row[1]
        for row in rows
        if len(row) == 2 and row[0].isdecimal() and row[1].startswith("napi/")
    }
