"""Types of verdicts: the limits of a trial, and the use of CPUs and threads during the trial."""

from dataclasses import dataclass
from enum import StrEnum

from iolab.messages.caveats import Caveat
from iolab.messages.evidence import Evidence
from iolab.messages.places import Place
from iolab.messages.statement import Name

BUSY_RATIO = 0.95
"""Minimum busy ratio of a thread or CPU without spare time: the remaining 5 % are sleeps too short to be used."""
GUEST = "guest"
"""Role of the threads of a virtual machine; the place of such a thread is the machine."""
SENDERS = ""
"""Placeholder for the kernel that sends the frames, whichever machine that kernel belongs to."""
KERNEL = "kernel"
"""Role of kernel threads that serve no specific user; such threads have no place."""


class Limit(StrEnum):
    """The limit of a trial."""

    NONE = "none"
    """The loss did not exceed the goal."""
    HOST = "host"
    """The host was disturbed."""
    GENERATOR = "generator"
    """The sender reached its maximum rate."""
    RECEIVER = "receiver"
    """The receiving port itself lost the frames."""
    THREAD = "thread"
    """A thread of the system under test was busy all the time."""
    CPU = "cpu"
    """The CPU of a thread of the system under test was busy all the time; other threads used the CPU, too."""
    SHAPER = "shaper"
    """A shaper limited the traffic to its rate."""
    RULE = "rule"
    """A rule or setting dropped most of the lost frames; it would drop them at any load."""
    DAMAGE = "damage"
    """Frames arrived corrupted: a device on the path changed them."""
    FLOWS = "flows"
    """Individual flows lost all of their frames."""
    WINDOW = "window"
    """TCP's window, or the socket buffer behind it, limited the sender."""
    PATH = "path"
    """TCP's congestion control limited the sender, because of loss or delay on the path."""
    THROTTLE = "throttle"
    """A disk's throttle limited the I/O to its rate."""
    WORKER = "worker"
    """A disk program's own thread, or a thread in its I/O path, was busy all the time."""
    DEPTH = "depth"
    """The queue depth was too low: a higher queue depth gave a higher rate."""
    WAITING = "waiting"
    """Each connection waited for its response: more connections would have given a higher rate."""
    LINE = "line"
    """A link of known rate was full."""
    RATE = "rate"
    """The intended rate was reached."""
    HOP = "hop"
    """Most of the lost frames were lost at one place."""
    UNEXPLAINED = "unexplained"
    """Frames were lost, and no figure shows the reason."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The limit of a trial, with its evidence."""

    limit: Limit
    """The limit."""
    seen: tuple[Evidence, ...] = ()
    """Evidence for the limit, the cause first."""
    place: Place | None = None
    """Place of the limit; None: no specific place."""
    doubt: Caveat | None = None
    """Reason why the verdict is uncertain; None: the verdict is certain."""


@dataclass(frozen=True, slots=True)
class CpuUse:
    """The use of one CPU during a trial."""

    cpu: int
    """Number of the CPU in its kernel."""
    busy_ratio: float
    """Share of the time in which the CPU was not idle."""
    softirq_ratio: float
    """Share of the time in which the CPU ran soft interrupts."""
    steal_ratio: float
    """Share of the time that was steal time."""
    kernel: Name = SENDERS
    """Machine whose kernel has the CPU."""


@dataclass(frozen=True, slots=True)
class Thread:
    """The activity of one thread during a trial."""

    name: Name
    """Name of the thread in the kernel; for iolab's threads: generator, receiver."""
    role: Name
    """device, guest, kernel, generator, receiver or napi (the receiver's NAPI thread)."""
    place: Name
    """Port for which the thread works; for a guest's thread, the machine."""
    cpu: int | None
    """CPU to which the thread is pinned, or on which it ran before and after the trial; None: it ran on several
    CPUs."""
    busy_ratio: float
    """Share of the time in which the thread ran."""
    wait_ratio: float | None = 0.0
    """Share of the time in which the thread was runnable without a CPU; None: an old record without this value."""
    polls: Name = ""
    """NIC of a guest (machine.port) that the thread busy-polls, so the thread is always busy; empty: the thread sleeps
    when there is no traffic."""
    kernel: Name = SENDERS
    """Machine whose kernel and CPUs run the thread."""

    @property
    def waited(self) -> float:
        """Return the wait ratio; 0 if it is unknown."""
        return self.wait_ratio or 0.0
