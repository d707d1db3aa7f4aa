"""The virtual machines that run: started by their parents' agents, watched on their consoles, pinned, ended.

What a guest is, is decided in lab/; where image and hypervisor lie, in hypervisor.py. The channel to a guest's agent,
its console and its monitor are relays of the parent's agent, so a guest in a guest is a guest as any other.
"""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from iolab.agent.client import REPLY_SLACK_S, Agent, AgentLost, Pending, Refused
from iolab.agent.messages import Json
from iolab.agent.relayed import RelayedTransport, at_socket, at_terminal
from iolab.errors import AgentError, IolabError, LabError, UnsupportedError
from iolab.lab.guest import Guest
from iolab.lab.resources import PinGuest
from iolab.run.agents import Agents
from iolab.run.domains import console_of, create_domain, destroy_domain
from iolab.run.hypervisor import Hypervisors, Launch
from iolab.run.running import RunningGuest, pin_threads, process_id, read_state
from iolab.run.switches import start_switches, stop_switches
from iolab.store.folder import packages_digest
from iolab.trial.result import CommandRecord, GuestUse

BOOT_DEADLINE_S = 120.0
"""An emulated guest takes 3 s on a calm host, and 10 with four others on two CPUs; on a busy one many times as long."""
NESTED_BOOT_DEADLINE_S = 240.0
"""Emulation inside emulation takes a minute; so does Dom0 on a busy host, emulated."""
SOCKET_TIMEOUT_MS = 500
"""QEMU makes its sockets within 100 ms; after each wait it is asked whether QEMU still runs."""
SOCKET_TRIES = 40
END_DEADLINE_S = 10.0
TOGETHER = 16
"""Guests that are started at the same time."""
MOST_IN_VAIN = 3
"""How often the same guest is started in a row without coming up; each time may take a minute."""


class Guests:
    """The guests of a lab."""

    def __init__(
        self,
        agents: Agents,
        hypervisors: Hypervisors | None = None,
        *,
        boot_deadline_s: float = BOOT_DEADLINE_S,
    ) -> None:
        self._agents = agents
        self._hypervisors = hypervisors or Hypervisors(agents)
        self._boot_deadline_s = boot_deadline_s
        self._running: dict[str, RunningGuest] = {}
        self._in_vain: dict[Guest, int] = {}
        self._workers = ThreadPoolExecutor(TOGETHER, "guest")

    @property
    def running(self) -> tuple[str, ...]:
        """Names of the guests that were started, each after its parent."""
        return tuple(self._running)

    def use(self, name: str) -> GuestUse | None:
        """Return what a guest was started with; None: it does not run."""
        found = self._running.get(name)
        return None if found is None else found.use

    def started(self, name: str) -> RunningGuest | None:
        """Return a guest that was started."""
        return self._running.get(name)

    # Beginning and end ------------------------------------------------------------------------------------

    def start(self, guest: Guest, parent: str) -> "Future[CommandRecord]":
        """Begin to start a guest; the result comes when its agent answers.

        The result raises LabError where it does not: what the hypervisor or the console said.
        """
        return self._workers.submit(self._try, guest, parent)

    def stop(self, names: Iterable[str]) -> None:
        """End guests, and those that run on them."""
        ending = set(names)
        for name, running in self._running.items():  # each after its parent
            if running.parent in ending:
                ending.add(name)
        chosen = [self._running[name] for name in reversed(self._running) if name in ending]
        for running in chosen:
            self._agents.drop(running.guest.name)
        self._end([running for running in chosen if running.parent not in ending])
        for running in chosen:
            del self._running[running.guest.name]

    def _try(self, guest: Guest, parent: str) -> CommandRecord:
        """Start a guest, unless it was seen often enough that this one does not come up."""
        times = self._in_vain.get(guest, 0)
        if times == MOST_IN_VAIN:
            raise LabError(
                f"starting guest {guest.name}: not tried again, it did not come up {times} times in a row"
            )
        try:
            record = self._start(guest, parent)
        except LabError:
            self._in_vain[guest] = times + 1
            raise
        self._in_vain.pop(guest, None)
        return record

    def _start(self, guest: Guest, parent: str) -> CommandRecord:
        agent = self._agents.of(parent)
        try:
            launch = self._hypervisors.prepare(guest, parent)
        except (Refused, AgentError, IolabError) as error:
            raise LabError(f"starting guest {guest.name}: {error}") from error
        running = self._launch(agent, guest, parent, launch)
        self._running[guest.name] = running
        begin_ns = agent.ping()
        try:
            child = self._connect(agent, running)
        except (Refused, AgentError, LabError, UnsupportedError) as error:
            why = self._autopsy(agent, running, error)
            self._running.pop(guest.name, None)
            raise LabError(f"starting guest {guest.name}: {why}") from error
        running.use = self._use(running, agent.ping() - begin_ns)
        self._agents.add(guest.name, child)
        return CommandRecord(
            machine=guest.name,
            netns=None,
            argv=launch.argv,
            undo=None,
            exit_status=0,
            duration_ns=running.use.boot_ns,
        )

    def _launch(self, agent: Agent, guest: Guest, parent: str, launch: Launch) -> RunningGuest:
        """Start the hypervisor, or make the domain."""
        if guest.engine == "xen":
            running = RunningGuest(guest=guest, parent=parent, launch=launch, pid=0)
            try:
                create_domain(agent, guest.name, launch.argv, launch.configuration)
            except (Refused, UnsupportedError) as error:
                self._end([running])
                raise LabError(f"starting guest {guest.name}: {error}") from error
            return running
        try:
            switches = start_switches(agent, guest, launch.folder)
        except (LabError, Refused) as error:
            self._clear(agent, guest.name)
            raise LabError(f"starting guest {guest.name}: {error}") from error
        params = {
            "id": process_id(guest.name),
            "argv": list(launch.argv),
            "env": dict(launch.environment),
            "files": list(launch.files),
            "timeout_ms": START_TIMEOUT_MS,
        }
        try:
            started = agent.call("process.start", params, START_TIMEOUT_MS / 1000 + REPLY_SLACK_S)
        except Refused as error:
            stop_switches(agent, guest.name, switches)
            self._clear(agent, guest.name)
            raise LabError(f"starting guest {guest.name}: {error}") from error
        return RunningGuest(guest=guest, parent=parent, launch=launch, pid=started["pid"], switches=switches)

    def _connect(self, agent: Agent, running: RunningGuest) -> Agent:
        """Open the console and the channel, and wait for the agent's greeting."""
        name, launch = running.guest.name, running.launch
        if running.guest.engine == "xen":
            at = at_terminal(console_of(agent, name))
            running.channel = RelayedTransport(
                agent, f"{name}:agent", at, watch=running.watch, words=running.words
            )
            running.console = running.channel
            return Agent(running.channel, name=name, hello_deadline_s=self._deadline_s(running))
        running.console = self._relay(agent, running, "console", launch.console, watch=running.watch)
        running.channel = self._relay(agent, running, "agent", launch.channel, words=running.words)
        if running.panic:
            running.channel.end(running.panic)
        return Agent(running.channel, name=name, hello_deadline_s=self._deadline_s(running))

    def _deadline_s(self, running: RunningGuest) -> float:
        long = running.launch.nested or "xen" in (running.guest.engine, running.guest.image)
        return NESTED_BOOT_DEADLINE_S if long else self._boot_deadline_s

    def _relay(
        self, agent: Agent, running: RunningGuest, role: str, path: str, **options: Json
    ) -> RelayedTransport:
        relay = f"{running.guest.name}:{role}"
        for _ in range(SOCKET_TRIES):
            try:
                return RelayedTransport(
                    agent, relay, at_socket(path), timeout_ms=SOCKET_TIMEOUT_MS, **options
                )
            except Refused:
                self._refuse_ended(agent, running)
        raise LabError(f"the hypervisor made no socket {path}")

    def _refuse_ended(self, agent: Agent, running: RunningGuest) -> None:
        """Raise LabError if the hypervisor has ended."""
        ended = _ended(agent, running.process, 1)
        if ended is not None:
            raise LabError(_told(ended))

    def _autopsy(self, agent: Agent, running: RunningGuest, error: Exception) -> str:
        """Clear a guest away that did not come up; return what is known of why."""
        said = str(error)
        if isinstance(error, AgentLost) and running.channel is not None:
            gone = running.channel.ended
            ended = _ended(agent, running.process, END_WAIT_MS) if gone else None
            waited = f"its agent said nothing for {self._deadline_s(running):.0f} s"
            said = running.panic or (_told(ended) if ended is not None else gone or waited)
            said = "; ".join((said, running.words() or "its console shows nothing"))
        for relay in (running.channel, running.console):
            if relay is not None:
                relay.close(END_DEADLINE_S)
        self._end([running])
        return said

    def _end(self, chosen: Sequence[RunningGuest]) -> None:
        """End hypervisors together and remove their scratch folders; what is gone already is passed over."""
        waiting: list[tuple[RunningGuest, Pending]] = []
        for running in chosen:
            if running.parent in self._agents and running.guest.engine == "xen":
                with contextlib.suppress(Refused, AgentLost):
                    destroy_domain(self._agents.of(running.parent), running.guest.name)
                    self._clear(self._agents.of(running.parent), running.guest.name)
            elif running.parent in self._agents:
                params = {"id": running.process, "grace_ms": 500}
                agent = self._agents.of(running.parent)
                waiting.append((running, agent.begin("process.stop", params)))
        for running, pending in waiting:
            with contextlib.suppress(Refused, AgentLost):  # it has ended, or its parent has
                pending.result(END_DEADLINE_S)
            stop_switches(self._agents.of(running.parent), running.guest.name, running.switches)
            self._clear(self._agents.of(running.parent), running.guest.name)

    def _clear(self, agent: Agent, name: str) -> None:
        try:
            agent.call("folder.delete", {"name": name})
        except (Refused, AgentLost):
            return  # there was none, or it goes with the parent

    def _use(self, running: RunningGuest, boot_ns: int) -> GuestUse:
        launch, above = running.launch, self.use(running.parent)
        return GuestUse(
            engine=running.guest.engine,
            on=running.parent,
            accel=launch.accel,
            hypervisor=launch.version,
            image=launch.image,
            packages=packages_digest(launch.packages),
            emulated=launch.accel == "tcg" or (above is not None and above.emulated),
            boot_ns=boot_ns,
            polling=tuple(running.switches),
        )

    # Threads ----------------------------------------------------------------------------------------------

    def state(self, name: str) -> "Future[str | None]":
        """Begin to read how a guest is and where its threads may run, as lab.shown.GuestThreads reads it."""
        return self._workers.submit(self._state, name)

    def pin(self, action: PinGuest) -> "Future[CommandRecord]":
        """Begin to put a guest's threads on CPUs of its parent."""
        return self._workers.submit(self._pin, action)

    def _state(self, name: str) -> str | None:
        running = self._running.get(name)
        return None if running is None else read_state(self._agents.of(running.parent), running)

    def _pin(self, action: PinGuest) -> CommandRecord:
        running = self._running[action.guest]
        return pin_threads(self._agents.of(running.parent), running, action)


def _ended(agent: Agent, process: str, timeout_ms: int) -> Mapping[str, Json] | None:
    """Return how a process ended, within a time; None: it runs."""
    try:
        ended: Mapping[str, Json] = agent.call("process.wait", {"id": process, "timeout_ms": timeout_ms})
    except Refused:
        return None
    return ended


def _told(ended: Mapping[str, Json]) -> str:
    """Return how a hypervisor ended, in words."""
    said = str(ended["stderr"]).strip()[-500:]
    how = f"signal {ended['signal']}" if ended.get("signal") is not None else f"status {ended['exit_status']}"
    advice = "; give it less memory, or end other guests" if "Cannot allocate memory" in said else ""
    return f"the hypervisor ended with {how}{f': {said}' if said else ''}{advice}"


START_TIMEOUT_MS = 10_000
END_WAIT_MS = 2_000
"""The hypervisor of a panicked guest ends within a second."""
