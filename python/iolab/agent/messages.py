"""The messages of contract/agent-v1.md as frozen types, decoded once at the edge."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, TypeAlias

from iolab.agent.counters import DropCounters, InterfaceCounters, QdiscCounters, SocketCounters
from iolab.agent.decoding import Count, decode
from iolab.frozen import frozen

Json: TypeAlias = Any
"""A JSON value; does not leave this package undecoded, except as raw samples for the store."""

PROTOCOL = (1, 5)
"""Major and minor version of the protocol that this client speaks."""


@frozen
class Predecessor:
    """The journal of a dead agent."""

    journal: str
    """Its id."""
    pid: int
    """Of the dead agent."""
    started_ns: int
    """When that agent began [ns, monotonic]."""
    entries: int
    """Changes not undone."""


@frozen(kw_only=True)
class Hello:
    """The agent's first message."""

    protocol: str
    """Version, major.minor."""
    version: str
    """Of the agent."""
    build: str
    """Content hash of the binary."""
    pid: int
    """Process id."""
    uid: int
    """User it runs as."""
    rootless: bool
    """It lives in user, network and mount namespaces of its own."""
    state_dir: str
    """Where its journal lies."""
    capabilities: tuple[str, ...]
    """Groups of methods it has."""
    busy_pid: int | None = None
    """Another agent that holds this host."""
    predecessors: tuple[Predecessor, ...] = ()
    """Journals of dead agents."""
    limits: tuple[str, ...] = ()
    """What it cannot do here, and why."""


@frozen
class Refusal:
    """An answer that is an error."""

    code: int = 0
    """Which."""
    message: str = ""
    """In words."""
    data: Json = None
    """What a program may want to know."""


@frozen
class Pong:
    """The answer to agent.ping."""

    now_ns: int
    """The agent's time [ns, monotonic]."""


@frozen
class FolderMade:
    """The answer to folder.create."""

    path: str
    """Where it is."""


@frozen
class SettingRead:
    """The answer to setting.read."""

    value: str
    """What the setting is."""


@frozen
class SettingWritten:
    """The answer to setting.write."""

    original: str
    """What the setting was."""


@frozen(kw_only=True)
class CommandResult:
    """A program that ran to its end."""

    exit_status: int | None
    """None when a signal ended it."""
    signal: int | None
    """The signal that ended it."""
    timed_out: bool
    """It was killed at the deadline."""
    stdout: str
    """First part of its output."""
    stderr: str
    """First part of its error output."""
    stdout_dropped_bytes: int
    """Output beyond the capture limit [bytes]."""
    stderr_dropped_bytes: int
    """Error output beyond the capture limit [bytes]."""
    begin_ns: int
    """Start [ns, monotonic]."""
    end_ns: int
    """End [ns, monotonic]."""

    @property
    def succeeded(self) -> bool:
        """Whether it ended with status 0 in time."""
        return self.exit_status == 0 and not self.timed_out

    @property
    def complaint(self) -> str:
        """What it said of its failure; of one that said nothing, how it ended."""
        by_signal = f"signal {self.signal}" if self.signal else f"status {self.exit_status}"
        ended = "it did not end in time" if self.timed_out else by_signal
        return (self.stderr or self.stdout).strip()[:500] or ended


@frozen(kw_only=True)
class Walls:
    """The walls around a confined program that not every kernel has, as its kernel granted them."""

    user: int | None
    """The user that it became; None: its user namespace has no other."""
    landlock_abi: int | None
    """Version of Landlock's interface."""
    seccomp: bool
    """Whether a filter limits its system calls."""


@frozen(kw_only=True)
class ProcessStarted:
    """A supervised process that is ready."""

    pid: int
    """Process id."""
    begin_ns: int
    """Start [ns, monotonic]."""
    ready_ns: int
    """When it was ready [ns, monotonic]."""
    walls: Walls | None = None
    """None: the program is not confined."""


@frozen(kw_only=True)
class ProcessEnded:
    """A supervised process that ended and was collected."""

    exit_status: int | None
    """None when a signal ended it."""
    signal: int | None
    """The signal that ended it."""
    stdout: str
    """First part of its output."""
    stderr: str
    """First part of its error output."""
    stdout_dropped_bytes: int
    """Output beyond the capture limit [bytes]."""
    stderr_dropped_bytes: int
    """Error output beyond the capture limit [bytes]."""
    begin_ns: int
    """Start [ns, monotonic]."""
    end_ns: int
    """End [ns, monotonic]."""
    cpu_user_ns: int
    """CPU time in user mode [ns]."""
    cpu_system_ns: int
    """CPU time in the kernel [ns]."""


@frozen
class UndoFailure:
    """A journal entry that could not be undone."""

    sequence: int
    """Its number in the journal."""
    undo_key: str
    """Its key."""
    undo: dict[str, Json]
    """The undo as journalled."""
    reason: str
    """What went wrong."""


@frozen
class UndoReport:
    """What undoing did."""

    undone: int
    """Entries undone."""
    failed: tuple[UndoFailure, ...] = ()
    """Entries that stay in the journal."""


@frozen
class CpuTimes:
    """Time of one CPU by class [ns]."""

    cpu: Count
    """Number of the CPU."""
    user_ns: Count
    """User mode."""
    nice_ns: Count
    """User mode, niced."""
    system_ns: Count
    """Kernel."""
    idle_ns: Count
    """Idle."""
    iowait_ns: Count
    """Idle with I/O outstanding."""
    irq_ns: Count
    """Interrupts."""
    softirq_ns: Count
    """Soft interrupts."""
    steal_ns: Count
    """Taken by the hypervisor."""
    guest_ns: Count = 0
    """Running guests; also counted in user."""
    guest_nice_ns: Count = 0
    """Running niced guests; also counted in nice."""


@frozen
class SettingValues:
    """What is in effect at one place."""

    place: str
    """stack, interface or processors."""
    name: str
    """Which one: an interface's name, a list of CPUs; empty where there is one only."""
    values: dict[str, str]
    """What is set, and to what, as the kernel shows it."""


@frozen(kw_only=True)
class ThreadTimes:
    """Time of one thread of a supervised process, or of a kernel's thread that works for it."""

    process: str | None = None
    """Id of the process; None: the kernel's own."""
    pid: Count
    """Process id."""
    tid: Count
    """Thread id."""
    name: str
    """As the kernel calls it."""
    run_ns: Count
    """Time that it ran [ns]."""
    last_cpu: Count
    """Where it ran last."""
    wait_ns: Count = 0
    """Time that it was ready, and had no CPU [ns]."""
    user_ns: Count = 0
    """Time in user mode, in ticks [ns]."""
    system_ns: Count = 0
    """Time in the kernel, soft interrupts that came meanwhile included, in ticks [ns]."""
    state: str = ""
    """As proc_pid_stat(5) writes it: R, S, T and the like; empty: not known."""
    allowed_cpus: str = ""
    """The CPUs that it may run on, as a list such as 0-3,6; empty: not known."""


@frozen(kw_only=True)
class Observation:
    """What one sampler read; only the fields that this side uses are typed, the raw reading is stored whole."""

    sampler: str
    """Which sampler."""
    netns: str | None = None
    """Namespace it read."""
    begin_ns: Count
    """Start of reading [ns, monotonic]."""
    end_ns: Count
    """End of reading [ns, monotonic]."""
    cpus: tuple[dict[str, int], ...] = ()
    """Rows of `cpu` and `softnet`."""
    interfaces: tuple[InterfaceCounters, ...] = ()
    """Rows of `interfaces`."""
    qdiscs: tuple[QdiscCounters, ...] = ()
    """Rows of `qdiscs`."""
    drops: tuple[DropCounters, ...] = ()
    """Rows of `drops`."""
    threads: tuple[ThreadTimes, ...] = ()
    """Rows of `threads`."""
    sockets: tuple[SocketCounters, ...] = ()
    """Rows of `sockets`."""
    settings: tuple[SettingValues, ...] = ()
    """Rows of `settings` and `processors`."""


@frozen
class Reading:
    """What was read together."""

    observations: tuple[Observation, ...]
    """One per sampler and namespace."""
    raw: Json = field(default=None, compare=False)
    """The same, as received."""
    agent: str = ""
    """The machine whose agent read it; empty: this computer."""

    def cpu_times(self) -> tuple[CpuTimes, ...]:
        """Return the time of every CPU."""
        rows = [row for seen in self.observations if seen.sampler == "cpu" for row in seen.cpus]
        return tuple(decode(CpuTimes, row, "cpu times", agent=self.agent) for row in rows)

    def threads(self) -> tuple[ThreadTimes, ...]:
        """Return the time of every thread."""
        return tuple(row for seen in self.observations for row in seen.threads)

    def setting(self, netns: str | None, place: str, name: str = "") -> Mapping[str, str]:
        """Return what is in effect at a place; empty where it was not read."""
        for seen in self.observations:
            if seen.sampler == "settings" and seen.netns == netns:
                for row in seen.settings:
                    if (row.place, row.name) == (place, name):
                        return row.values
        return {}

    def interface(self, netns: str | None, name: str) -> InterfaceCounters | None:
        """Return the counters of one interface, or None where it was not read."""
        for seen in self.observations:
            if seen.sampler == "interfaces" and seen.netns == netns:
                return next((row for row in seen.interfaces if row.name == name), None)
        return None
