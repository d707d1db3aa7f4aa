"""Run a program on a disk until the program ends, or until its disk is found to be hung.

The module is the watchdog for all protocols. The watchdog reads the disk's completed requests (/sys/block/DISK/stat).
If no request completes, the watchdog checks whether the servers behind the disk still answer (`servers`): a server that
does not answer fails the trial. A disk whose servers answer may be slow.
"""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Protocol

from iolab.agent.answers import CommandResult
from iolab.agent.client import Agent, AgentLost, Pending, Refused
from iolab.agent.messages import Json, Pong, ProcessEnded, Walls
from iolab.errors import AgentError
from iolab.experiment.model.machines import Disk
from iolab.lab.kernels import HERE, kernel_of
from iolab.lab.volumes.places import node_of, record_of
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
RECORDED_FD = 9
"""File descriptor number through which a program accesses an existing device."""
END_GRACE_MS = 1_000
END_LIMIT_S = 8.0
"""Time limit for stopping a program [s]: its grace period, and the time that a killed program may take to end."""
HUNG_LIMIT_S = 2.0
"""Time limit for stopping a program after the disk's servers were killed and its guest was powered off [s]."""
ANSWER_S = 30.0
"""Time limit for the reply of a host's agent [s]: agents do not hang with a disk, but busy hosts pause for seconds."""
COMPLETED, IN_FLIGHT = (2, 6, 13, 15), 8
"""Columns of /sys/block/DISK/stat: sectors read, written and discarded, and flushes done; requests in flight.

A request that NVMe withdraws from a lost path counts as completed, but adds no sectors.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaches:
    """Objects that a confined program can access; fields as in the protocol (contract, process.start)."""

    devices: tuple[str, ...] = ()
    """Block devices that the program may read and write."""
    folders: tuple[str, ...] = ()
    """Folders in which the program may create files."""
    files: tuple[str, ...] = ()
    """Files for reading."""
    cgroup: str | None = None
    """Control group that limits the program's memory."""
    opened: tuple[Mapping[str, Json], ...] = ()
    """Device nodes that the agent makes for the descriptors that it passes."""


NOTHING = Reaches()


class Servers(Protocol):
    """Servers behind a disk."""

    def ask(self, timeout_ms: int) -> Sequence[Silent]:
        """Return the servers behind the disk that do not answer."""

    def end(self, silent: Server) -> None:
        """Kill the processes of all servers, because the given server does not answer."""

    def check_attached(self) -> None:
        """Check that the disk is attached to its volume. Raises LabUnusable, AgentError."""


@dataclass(frozen=True, slots=True)
class ServersOfDisk:
    """Servers behind a disk in a lab."""

    site: Site
    machine: str
    disk: Disk

    def ask(self, timeout_ms: int) -> tuple[Silent, ...]:
        """Return the servers behind the disk that do not answer."""
        return ask(self.site, servers_of(self.site, self.machine, self.disk), timeout_ms)

    def end(self, silent: Server) -> None:
        """Kill the processes of all servers, because the given server does not answer."""
        end(self.site, self.machine, servers_of(self.site, self.machine, self.disk), silent)

    def check_attached(self) -> None:
        """Check that a loop device is attached to its volume. Raises LabUnusable, AgentError."""
        check_attached(self.site, self.machine, self.disk)


@dataclass(frozen=True, slots=True)
class WorkedOn:
    """Disk on which a program works."""

    machine: str
    """Machine of the disk."""
    node: str
    """Device node."""
    servers: Servers
    """Servers behind the disk."""
    guest: str | None = None
    """Kernel of a guest, which can be powered off; None: the disk is on a host."""
    record: str | None = None
    """Record that identifies an existing device when the agent opens it; None: the lab made the disk."""


@dataclass(frozen=True, slots=True)
class DiskProgress:
    """Progress of a disk."""

    completed: tuple[int, ...]
    """Number of completed sectors and flushes, by kind."""
    in_flight: int
    """Requests in flight."""


@dataclass
class Watchdog:
    """Decide at each check whether a disk is hung, without a clock: each call has the time as an argument."""

    patience: Patience
    moved_ns: int
    """Time of the last progress [ns]."""
    progress: DiskProgress | None = None
    """Progress at the last check."""
    asked_ns: int = 0
    """Time of the last server check [ns]."""
    silent: frozenset[DiskServer] = field(default_factory=frozenset)
    """Servers that did not answer in the last check."""

    def look(self, now_ns: int, progress: DiskProgress | None) -> None:
        """Record the progress of the disk; None: the progress is unknown."""
        if progress is None:
            return
        if self.progress is None or progress.completed != self.progress.completed:
            self.moved_ns, self.silent = now_ns, frozenset()
        self.progress = progress

    def is_to_ask(self, now_ns: int) -> bool:
        """Whether a check of the servers is due: periodically, and when the disk has been idle for `still_ns`."""
        due = now_ns - max(self.moved_ns, self.asked_ns) >= self.patience.ask_ns
        due |= self.asked_ns < self.moved_ns + self.patience.still_ns <= now_ns
        self.asked_ns = now_ns if due else self.asked_ns
        return due

    def answered(self, now_ns: int, silent: Sequence[Silent]) -> Silent | None:
        """Record which servers did not answer; return the server that caused the hang, or None.

        An exited process never answers again; a stopped process may be continued. A connection without an answer is
        tried a second time, because the host may be busy.
        """
        before, self.silent = self.silent, frozenset(one.server.about for one in silent)
        still = now_ns - self.moved_ns >= self.patience.still_ns
        for one in silent:
            sure = isinstance(one.condition, ProcessStopped) or one.server.about in before
            if isinstance(one.condition, ProcessGone) or (still and sure):
                return one
        return None

    def is_stuck(self, now_ns: int) -> bool:
        """Whether requests have been in flight for so long that even a slow disk would have completed one."""
        waits = self.progress is not None and self.progress.in_flight > 0
        return waits and now_ns - self.moved_ns >= self.patience.slow_ns


def worked_on(site: Site, machine: str, disk: Disk) -> WorkedOn:
    """Return a machine's disk with its servers."""
    kernel = kernel_of(site.lab, machine)
    guest = kernel if kernel != HERE and site.lab.machines[kernel].kind == "vm" else None
    exists = site.lab.volumes[disk.volume].device is not None and site.lab.machines[machine].kind != "vm"
    record = record_of(disk.volume) if exists else None
    return WorkedOn(machine, node_of(disk.volume), ServersOfDisk(site, machine, disk), guest, record)


def opened_by_record(disk: WorkedOn, reaches: Reaches, *, alters: bool) -> tuple[Reaches, tuple[Json, ...]]:
    """Return the objects that a program on an existing device can access, and the file descriptor that is passed to it.

    The agent makes the program's device node from the descriptor, which is read-only unless the program `alters` the
    device.
    """
    if disk.record is None or disk.node not in reaches.devices:
        return reaches, ()
    opening: Json = {"kind": "existing", "record": disk.record, "writes": alters}
    opened = replace(reaches, devices=(), opened=({"fd": RECORDED_FD, "path": disk.node},))
    return opened, ({"fd": RECORDED_FD, "open": opening},)


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
    alters: bool = True,
) -> ConfinedResult:
    """Run a program on a disk to its end, with `request` as input.

    The program can access only the objects in `reaches`, and the files in `passed`, which the agent opens for it
    (process.start). If `reaches` is None, the program is an iolab command that has the agent's rights. With `writes`,
    the disk's attachment is checked first. With `alters`, the program may write to an existing device.

    Raises:
        LabUnusable: a server behind the disk, or the guest of the disk, did not answer and was killed, so that nothing
            waits for it; or the disk is no longer attached to its volume.
        Failed: the disk is hung, or the program does not end.
        AgentError: the agent refused the request, or is lost.
    """
    if writes:
        disk.servers.check_attached()
    confined: dict[str, Json] | None = None
    if reaches is not None:
        reaches, more = opened_by_record(disk, reaches, alters=alters)
        confined, passed = asdict(reaches), (*passed, *more)
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
    except BaseException:  # includes interrupts: the lab cannot be removed while the program runs
        # A program that waits for the disk cannot be killed; it ends only when the disk answers or fails.
        _stop(agent, END_GRACE_MS, END_LIMIT_S)
        raise


def _lost(disk: WorkedOn, program: str, patience: Patience, error: AgentLost) -> Failed | AgentLost:
    """Return the error to report for a lost agent: the server's error if its guest was powered off because of a server,
    and the original error for a host."""
    silent = disk.servers.ask(patience.ask_ms) if disk.guest is not None else ()
    if not silent:
        return error
    first = silent[0]
    disk.servers.end(first.server)
    about, condition = first.server.about, first.condition
    failure = DiskServerFailed(
        program=program, machine=disk.machine, server=about, condition=condition, output=str(error)
    )
    return LabUnusable(failure, _guests(disk))


def _guests(disk: WorkedOn) -> frozenset[str]:
    """Return the guest in which a process waits for a disk indefinitely."""
    return frozenset() if disk.guest is None else frozenset({disk.guest})


def _stop(agent: Agent, grace_ms: int, limit_s: float) -> None:
    with contextlib.suppress(AgentError):
        asked = {"id": PROCESS, "signal": "TERM" if grace_ms else "KILL", "grace_ms": grace_ms}
        agent.begin("process.stop", asked).settled_within(limit_s)


@dataclass(frozen=True, slots=True)
class _Asking:
    """The agent of a disk's machine: requests to a guest's agent wait no longer than the disk's time limit."""

    agent: Agent
    disk: WorkedOn
    program: str
    patience: Patience

    def ask(self, method: str, params: Mapping[str, Json]) -> Pending:
        """Send a request, and wait for its reply if the agent is in a guest.

        Raises:
            LabUnusable: the agent does not answer, because its guest hangs.
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
        """Wait until the next check of the disk; return the exited process, or None if the process still runs."""
        pending = self.ask("process.wait", {"id": PROCESS, "timeout_ms": self.patience.look_ms})
        try:
            return pending.read(ProcessEnded, ANSWER_S)
        except Refused as error:
            if not error.is_deadline:
                raise
            return None

    def path(self) -> str:
        """Return the path of the disk's statistics; empty if the disk has no statistics."""
        argv = ["sh", "-c", FIND_STATISTICS, self.disk.node]
        return self.ask("command.run", {"argv": argv}).read(CommandResult, ANSWER_S).stdout.strip()

    def progress(self, path: str) -> DiskProgress | None:
        """Return the disk's progress; None if the disk is gone or has no counters."""
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
            watchdog.look(now_ns, asking.progress(path))  # requests may have completed in the meantime
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
    """Kill the servers behind a disk; return the failure."""
    disk.servers.end(found.server)
    in_flight = progress.in_flight if progress is not None else 0
    failure = DiskServerSilent(
        program=program, machine=disk.machine, server=found.server.about, condition=found.condition,
        still_ns=still_ns, in_flight=in_flight,
    )  # fmt: skip
    return LabUnusable(failure, _guests(disk))


def progress_of(text: str) -> DiskProgress | None:
    """Parse a disk's statistics; return None if they are invalid."""
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
