"""How a host is tuned while its lab is there: processors, interrupts of its cards, and threads of threaded NAPI.

The kernel names the thread that takes in the frames of an interface napi/INTERFACE-NUMBER. Interfaces of several
namespaces may have one name, so a thread is known by having appeared when its interface was set to have one. Nothing
fails for want of a thread: a trial says what runs where.
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


class Interrupts:
    """Those of the lab that stands."""

    def __init__(self, agents: Agents) -> None:
        self._agents = agents
        self._found: dict[Card, tuple[str, ...]] = {}

    def spread(self, wanted: SpreadInterrupts, kernel: str) -> tuple[tuple[TypedCommand, ...], "Writes"]:
        """Begin to let the CPUs that are wanted take the interrupts of a card.

        Raises:
            LabError: the card has no interrupts of its own.
        """
        agent = self._agents.of(kernel)
        paths = tuple(_affinity(number) for number in _numbers(agent, wanted.interface))
        if not paths:
            raise LabError(Phrase("run.card-without-interrupts", interface=wanted.interface))
        known = self._found.get((kernel, wanted.interface), ())
        self._found[kernel, wanted.interface] = tuple(dict.fromkeys((*known, *paths)))
        return commands_of(wanted, Found(paths=paths)), Writes(agent, file_words(wanted, paths))

    def undo_keys(self, resource: Resource) -> list[str]:
        """Return the journal keys of the originals that a resource changed; they are known no more."""
        cards = [
            (resource.kernel, action.interface)
            for action in resource.actions
            if isinstance(action, SpreadInterrupts)
        ]
        return [f"setting::{path}" for card in cards for path in self._found.pop(card, ())]

    def forget(self) -> None:
        """Know none any more: all is undone."""
        self._found.clear()

    def state(self, kernel: str, interface: str) -> "Affinities":
        """Begin to read which CPUs take the interrupts of a card."""
        agent = self._agents.of(kernel)
        numbers = _numbers(agent, interface)
        return Affinities([agent.begin("setting.read", {"path": _affinity(number)}) for number in numbers])


class Writes:
    """Settings that are being written; what fails first is raised."""

    def __init__(self, agent: Agent, words: Mapping[str, str]) -> None:
        self._pending = {
            path: agent.begin("setting.write", {"path": path, "value": word}) for path, word in words.items()
        }

    def result(self, deadline_s: float) -> dict[str, str]:
        """Wait for all; return what was in each file before."""
        return {path: one.read(SettingOriginal, deadline_s).original for path, one in self._pending.items()}


class Affinities:
    """CPUs of several interrupts that are being read."""

    def __init__(self, pending: Iterable[Pending]) -> None:
        self._pending = list(pending)

    def result(self, deadline_s: float) -> str:
        """Return the lists of CPUs that differ from each other; one, where all interrupts have the same."""
        lists = [one.read(SettingValue, deadline_s).value for one in self._pending]
        return " ".join(dict.fromkeys(lists))


class Processors:
    """Those of the lab that stands."""

    def __init__(self, agents: Agents) -> None:
        self._agents = agents
        self._found: dict[tuple[str, str], tuple[str, ...]] = {}

    def tune(self, wanted: TuneProcessors, kernel: str) -> tuple[tuple[TypedCommand, ...], Writes]:
        """Begin to let all processors of a kernel run as wanted.

        Raises:
            LabError: the kernel has no file for it.
        """
        agent = self._agents.of(kernel)
        paths = _paths(agent, wanted.what)
        if not paths:
            raise LabError(Phrase("run.kernel-lacks-setting", what=wanted.what, value=wanted.value))
        self._found[kernel, wanted.what] = paths
        return commands_of(wanted, Found(paths=paths)), Writes(agent, file_words(wanted, paths))

    def undo_keys(self, resource: Resource) -> list[str]:
        """Return the journal keys of the originals that a resource changed; they are known no more."""
        tuned = [action for action in resource.actions if isinstance(action, TuneProcessors)]
        paths = [path for action in tuned for path in self._found.pop((resource.kernel, action.what), ())]
        return [f"setting::{path}" for path in paths]

    def forget(self) -> None:
        """Know none any more: all is undone."""
        self._found.clear()

    def state(self, kernel: str, what: ProcessorState) -> "States":
        """Begin to read how the processors of a kernel run."""
        agent = self._agents.of(kernel)
        paths = _paths(agent, what.what)
        return States(paths, [agent.begin("setting.read", {"path": path}) for path in paths])


class States:
    """Files that are being read."""

    def __init__(self, paths: Iterable[str], pending: Iterable[Pending]) -> None:
        self._pending = dict(zip(paths, pending, strict=True))

    def result(self, deadline_s: float) -> str:
        """Return the words that differ from each other; one, where all processors run in the same way."""
        words = [
            _shown(path, one.read(SettingValue, deadline_s).value) for path, one in self._pending.items()
        ]
        return " ".join(dict.fromkeys(words))


def _shown(path: str, value: str) -> str:
    """Return what a file says, in the words that set it."""
    if path.endswith("scaling_governor"):
        return value
    words = CONTRARY if path == NO_TURBO else BOOST
    return next((word for word, written in words.items() if written == value.strip()), value)


def _paths(agent: Agent, what: str) -> tuple[str, ...]:
    """Return the files that say it on a kernel: all governors, or the one for turbo that its driver has."""
    found = agent.run(("sh", "-c", f"ls -d {FILES[what]} 2>/dev/null || true")).stdout.split()
    return tuple(found) if what == "governor" else tuple(sorted(found, key=lambda path: path != NO_TURBO)[:1])


def _affinity(number: int) -> str:
    return f"/proc/irq/{number}/smp_affinity_list"


def _numbers(agent: Agent, interface: str) -> list[int]:
    """Return the message-signalled interrupts of a card, or its one line; a virtio card's are its PCI parent's."""
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
    """Begin to read on which CPUs a thread may run."""
    params = {"argv": ["grep", "-s", ALLOWED, f"/proc/{pid}/status"], "timeout_ms": TIMEOUT_MS}
    return agent.begin("command.run", params)


def _allowed(pending: Pending) -> str:
    """Return the CPUs of a thread as the kernel lists them; nothing where it has ended."""
    try:
        shown = decode(
            CommandResult, pending.result(TIMEOUT_MS / 1000), Phrase("agent.result-of", method="command")
        )
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
