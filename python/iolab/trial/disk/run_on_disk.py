"""A program that works on a disk, run to its end, or until it is clear that it will not come: the disk stands still.

The watchdog of all protocols. It counts what the disk completes (/sys/block/DISK/stat). Where that stands still, the
servers behind the disk are asked whether they still answer (`servers`): one that does not fails the trial. A disk whose
servers answer may be slow.
"""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Protocol

from iolab.agent.answers import CommandResult
from iolab.agent.client import Agent, AgentLost, Pending, Refused
from iolab.agent.messages import Json, Pong, ProcessEnded, Walls
from iolab.errors import AgentError
from iolab.experiment.model.machines import Disk
from iolab.lab.kernels import HERE, kernel_of
from iolab.lab.volumes.places import node_of
from iolab.messages.disks import (
    DiskServer,
    DiskServerFailed,
    DiskServerSilent,
    ProcessGone,
    ProcessStopped,
)
from iolab.messages.programs import DiskStandsStill, ProgramTooLong
from iolab.trial.disk.causes import check_attached
from iolab.trial.disk.layers import FIND_STATISTICS
from iolab.trial.disk.ran import CAPTURE_BYTES, PATIENCE, ConfinedResult, Patience
from iolab.trial.disk.servers import Server, Silent, ask, end, servers_of
from iolab.trial.lab_access import Site
from iolab.trial.measurement import Failed, LabUnusable
from iolab.units import NS_PER_MS, NS_PER_S

PROCESS = "disk-program"
END_GRACE_MS = 1_000
END_LIMIT_S = 8.0
"""For a program to end: its grace, and what a killed one may take."""
HUNG_LIMIT_S = 2.0
"""The same where the servers of its disk were killed; its guest was powered off then."""
ANSWER_S = 30.0
"""For the reply of a host's agent, which does not hang with a disk; busy hosts stand still for seconds."""
COMPLETED, IN_FLIGHT = (2, 6, 13, 15), 8
"""Columns: sectors read, written and discarded, and flushes done; requests in flight. A request that NVMe takes back
from a path that is lost counts as done, though none of its sectors are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaches:
    """What a disk program may reach; the fields are those of the protocol (contract, process.start)."""

    devices: tuple[str, ...] = ()
    """Block devices that it reads and writes."""
    folders: tuple[str, ...] = ()
    """Folders in which it makes files."""
    files: tuple[str, ...] = ()
    """Files that it reads."""
    cgroup: str | None = None
    """The control group that limits its memory."""


NOTHING = Reaches()


class Servers(Protocol):
    """The servers behind a disk."""

    def ask(self, timeout_ms: int) -> Sequence[Silent]:
        """Return those that do not answer."""

    def end(self, silent: Server) -> None:
        """Kill their processes, because of the one that does not answer."""

    def check_attached(self) -> None:
        """Look that the disk is what it should be. Raises LabUnusable, AgentError."""


@dataclass(frozen=True, slots=True)
class ServersOfDisk:
    """The servers behind a disk of a standing lab."""

    site: Site
    machine: str
    disk: Disk

    def ask(self, timeout_ms: int) -> tuple[Silent, ...]:
        """Return those that do not answer."""
        return ask(self.site, servers_of(self.site, self.machine, self.disk), timeout_ms)

    def end(self, silent: Server) -> None:
        """Kill their processes, because of the one that does not answer."""
        end(self.site, self.machine, servers_of(self.site, self.machine, self.disk), silent)

    def check_attached(self) -> None:
        """Look that a loop device is attached to its volume. Raises LabUnusable, AgentError."""
        check_attached(self.site, self.machine, self.disk)


@dataclass(frozen=True, slots=True)
class WorkedOn:
    """The disk that a program works on."""

    machine: str
    """Whose it is."""
    node: str
    """Where its kernel has it."""
    servers: Servers
    """Behind it."""
    guest: str | None = None
    """Kernel of a guest, which can be powered off; None: it is a host's."""


@dataclass(frozen=True, slots=True)
class DiskProgress:
    """How far a disk has come."""

    completed: tuple[int, ...]
    """Sectors and flushes done, of each kind."""
    in_flight: int
    """Requests that it has not answered."""


@dataclass
class Watchdog:
    """Decides, from one look to the next, whether a disk stands still for good. Time is an argument."""

    patience: Patience
    moved_ns: int
    """When the disk last completed something [ns]."""
    progress: DiskProgress | None = None
    """At the last look."""
    asked_ns: int = 0
    """When servers were last asked [ns]."""
    silent: frozenset[DiskServer] = field(default_factory=frozenset)
    """Those that did not answer then."""

    def look(self, now_ns: int, progress: DiskProgress | None) -> None:
        """Take what a disk has completed by now; None: nothing says it."""
        if progress is None:
            return
        if self.progress is None or progress.completed != self.progress.completed:
            self.moved_ns, self.silent = now_ns, frozenset()
        self.progress = progress

    def is_to_ask(self, now_ns: int) -> bool:
        """Whether the servers are to be asked now: every so often, and when the disk has stood still long enough."""
        due = now_ns - max(self.moved_ns, self.asked_ns) >= self.patience.ask_ns
        due |= self.asked_ns < self.moved_ns + self.patience.still_ns <= now_ns
        self.asked_ns = now_ns if due else self.asked_ns
        return due

    def answered(self, now_ns: int, silent: Sequence[Silent]) -> Silent | None:
        """Take which servers did not answer; return the one for which the disk stands still.

        One that has ended never answers again, one that is stopped may be continued. A connection that was not
        answered is tried a second time: the host may have been busy.
        """
        before, self.silent = self.silent, frozenset(one.server.about for one in silent)
        still = now_ns - self.moved_ns >= self.patience.still_ns
        for one in silent:
            sure = isinstance(one.condition, ProcessStopped) or one.server.about in before
            if isinstance(one.condition, ProcessGone) or (still and sure):
                return one
        return None

    def is_stuck(self, now_ns: int) -> bool:
        """Whether requests have waited so long that even a slow disk would have completed one."""
        waits = self.progress is not None and self.progress.in_flight > 0
        return waits and now_ns - self.moved_ns >= self.patience.slow_ns


def worked_on(site: Site, machine: str, disk: Disk) -> WorkedOn:
    """Return the disk of a machine, with the servers behind it."""
    kernel = kernel_of(site.lab, machine)
    guest = kernel if kernel != HERE and site.lab.machines[kernel].kind == "vm" else None
    return WorkedOn(
        machine, node_of(disk.volume, site.topology.prefix), ServersOfDisk(site, machine, disk), guest
    )


def run_on_disk(
    agent: Agent,
    disk: WorkedOn,
    argv: tuple[str, ...],
    request: str = "",
    patience: Patience = PATIENCE,
    reaches: Reaches | None = NOTHING,
    passed: Sequence[Json] = (),
    *,
    writes: bool = True,
) -> ConfinedResult:
    """Run a program that works on a disk, with `request` as its input, to its end.

    It reaches nothing of its machine but `reaches`, and `passed`, files that the agent opens for it (process.start).
    None: it is a command of iolab's own, and has the rights of the agent. The disk of one that `writes` is looked at.

    Raises:
        LabUnusable: a server behind the disk, or the guest that has the disk, does not answer, and was ended, so that
            nothing waits for it; or the disk is not attached to its volume any more.
        Failed: the disk completes nothing any more, or the program does not end.
        AgentError: the agent refused it, or is gone.
    """
    if writes:
        disk.servers.check_attached()
    confined = None if reaches is None else asdict(reaches)
    try:
        started = agent.start(
            PROCESS, argv, stdin=request, capture_bytes=CAPTURE_BYTES, confined=confined, files=passed
        )
    except AgentLost as error:
        raise _lost(disk, argv[0], patience, error) from error
    try:
        return _result(_awaited(_Asking(agent, disk, argv[0], patience), started.begin_ns), started.walls)
    except LabUnusable:
        _stop(agent, 0, HUNG_LIMIT_S)
        raise
    except AgentLost as error:
        raise _lost(disk, argv[0], patience, error) from error
    except BaseException:  # also where the run is interrupted: its lab could not be taken down beside it
        # One that waits for the disk cannot even be killed: its end is the disk's business then.
        _stop(agent, END_GRACE_MS, END_LIMIT_S)
        raise


def _lost(disk: WorkedOn, program: str, patience: Patience, error: AgentLost) -> Failed | AgentLost:
    """Return why the agent beside a disk is gone: its guest has ended; a host's is lost for reasons of its own."""
    silent = disk.servers.ask(patience.ask_ms) if disk.guest is not None else ()
    if not silent:
        return error
    first = silent[0]
    disk.servers.end(first.server)
    failure = DiskServerFailed(
        program=program,
        machine=disk.machine,
        server=first.server.about,
        condition=first.condition,
        output=str(error),
    )
    return LabUnusable(failure, _guests(disk))


def _guests(disk: WorkedOn) -> frozenset[str]:
    """Return the guest on which something waits for a disk for ever."""
    return frozenset() if disk.guest is None else frozenset({disk.guest})


def _stop(agent: Agent, grace_ms: int, limit_s: float) -> None:
    with contextlib.suppress(AgentError):
        asked = {"id": PROCESS, "signal": "TERM" if grace_ms else "KILL", "grace_ms": grace_ms}
        agent.begin("process.stop", asked).settled_within(limit_s)


@dataclass(frozen=True, slots=True)
class _Asking:
    """An agent beside a disk: where its guest may hang, no request to it is waited for longer than for the disk."""

    agent: Agent
    disk: WorkedOn
    program: str
    patience: Patience

    def ask(self, method: str, params: Mapping[str, Json]) -> Pending:
        """Send a request, and to a guest wait for its reply.

        Raises:
            LabUnusable: the agent does not answer, for it is in a guest that hangs.
        """
        pending = self.agent.begin(method, params)
        step_ns, waited_ns = 2 * self.patience.look_ms * NS_PER_MS, 0
        while self.disk.guest is not None and not pending.settled_within(step_ns / NS_PER_S):
            waited_ns += step_ns
            if waited_ns < self.patience.still_ns:
                continue
            silent = self.disk.servers.ask(self.patience.ask_ms)
            if silent:
                raise _silent(self.disk, self.program, silent[0], waited_ns, None)
            if waited_ns > 2 * self.patience.still_ns:
                break
        return pending

    def now_ns(self) -> int:
        """Return the agent's monotonic time [ns]."""
        return self.ask("agent.ping", {}).read(Pong, ANSWER_S).now_ns

    def ended(self) -> ProcessEnded | None:
        """Wait until the next look at the disk; None: the program goes on."""
        pending = self.ask("process.wait", {"id": PROCESS, "timeout_ms": self.patience.look_ms})
        try:
            return pending.read(ProcessEnded, ANSWER_S)
        except Refused as error:
            if not error.is_deadline:
                raise
            return None

    def path(self) -> str:
        """Return where the disk's statistics are; empty: nowhere."""
        argv = ["sh", "-c", FIND_STATISTICS, self.disk.node]
        return self.ask("command.run", {"argv": argv}).read(CommandResult, ANSWER_S).stdout.strip()

    def progress(self, path: str) -> DiskProgress | None:
        """Return what a disk has completed; None: it is gone, or nothing counts it."""
        try:
            return (
                progress_of(self.ask("setting.read", {"path": path}).result(ANSWER_S)["value"])
                if path
                else None
            )
        except Refused:
            return None


def _awaited(asking: _Asking, begin_ns: int) -> ProcessEnded:
    """Wait for the program's end. Raises LabUnusable, Failed, AgentError."""
    disk, program, patience = asking.disk, asking.program, asking.patience
    watchdog, path = Watchdog(patience, begin_ns), ""
    while True:
        ended = asking.ended()
        if ended is not None:
            return ended
        path = path or asking.path()
        now_ns = asking.now_ns()
        watchdog.look(now_ns, asking.progress(path))
        if watchdog.is_to_ask(now_ns):
            silent = disk.servers.ask(patience.ask_ms)
            now_ns = asking.now_ns()
            watchdog.look(now_ns, asking.progress(path))  # it may have completed something meanwhile
            found = watchdog.answered(now_ns, silent)
            if found is not None:
                raise _silent(disk, program, found, now_ns - watchdog.moved_ns, watchdog.progress)
        if watchdog.is_stuck(now_ns) and watchdog.progress is not None:
            still_ns, in_flight = now_ns - watchdog.moved_ns, watchdog.progress.in_flight
            stuck = DiskStandsStill(
                program=program, machine=disk.machine, still_ns=still_ns, in_flight=in_flight
            )
            raise Failed(stuck)
        if now_ns - begin_ns >= patience.longest_ns:
            limit_ns = patience.longest_ns
            raise Failed(ProgramTooLong(program=program, machine=disk.machine, limit_ns=limit_ns, said=""))


def _silent(
    disk: WorkedOn, program: str, found: Silent, still_ns: int, progress: DiskProgress | None
) -> LabUnusable:
    """End the servers behind a disk; return why."""
    disk.servers.end(found.server)
    failure = DiskServerSilent(
        program=program,
        machine=disk.machine,
        server=found.server.about,
        condition=found.condition,
        still_ns=still_ns,
        in_flight=progress.in_flight if progress is not None else 0,
    )
    return LabUnusable(failure, _guests(disk))


def progress_of(text: str) -> DiskProgress | None:
    """Return what a disk's statistics say; None: they are not to be understood."""
    words = text.split()
    if len(words) <= IN_FLIGHT or not all(word.isdecimal() for word in words):
        return None
    numbers = [int(word) for word in words]
    return DiskProgress(tuple(numbers[at] for at in COMPLETED if at < len(numbers)), numbers[IN_FLIGHT])


def _result(ended: ProcessEnded, walls: Walls | None) -> ConfinedResult:
    return ConfinedResult(
        exit_status=ended.exit_status,
        signal=ended.signal,
        timed_out=False,
        stdout=ended.stdout,
        stderr=ended.stderr,
        stdout_dropped_bytes=ended.stdout_dropped_bytes,
        stderr_dropped_bytes=ended.stderr_dropped_bytes,
        begin_ns=ended.begin_ns,
        end_ns=ended.end_ns,
        walls=walls,
    )
