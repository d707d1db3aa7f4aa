"""What a verdict is made of: what can limit a trial, and what CPUs and threads did meanwhile. Types only."""

from dataclasses import dataclass
from enum import StrEnum

from iolab.messages.caveats import Caveat
from iolab.messages.evidence import Evidence
from iolab.messages.places import Place
from iolab.messages.statement import Name

BUSY_RATIO = 0.95
"""A thread, or a CPU, that ran so much of the time had no time left: 5 % are sleeps too short to be used."""
GUEST = "guest"
"""Role of a virtual machine's threads; their place is the machine."""
SENDERS = ""
"""The kernel that frames are sent on, whatever machine has it."""
KERNEL = "kernel"
"""Role of threads that work for whoever comes; they have no place."""


class Limit(StrEnum):
    """What limited a trial."""

    NONE = "none"
    """Nothing was lost beyond the goal."""
    HOST = "host"
    """The host was disturbed."""
    GENERATOR = "generator"
    """The sender could not send more."""
    RECEIVER = "receiver"
    """The receiving port itself lost the frames."""
    THREAD = "thread"
    """A thread of the system under test had no time left."""
    CPU = "cpu"
    """The CPU of a thread of the system under test had no time left; others used it too."""
    SHAPER = "shaper"
    """A shaper let its rate through, and no more."""
    RULE = "rule"
    """A rule or setting dropped most of the frames, at any load."""
    DAMAGE = "damage"
    """Frames arrived damaged: a device on the way changed them."""
    FLOWS = "flows"
    """Single flows lost all of their frames."""
    WINDOW = "window"
    """TCP's window, or the socket buffer behind it, held the sender back."""
    PATH = "path"
    """TCP's congestion control held the sender back: the path loses, or delays."""
    THROTTLE = "throttle"
    """A disk's throttle let its rate through, and no more."""
    WORKER = "worker"
    """A disk program's own thread, or one that a disk's bytes pass, had no time left."""
    DEPTH = "depth"
    """Too few reads and writes were under way: more of them did more."""
    WAITING = "waiting"
    """Each connection waited for its response: more of them would have done more."""
    LINE = "line"
    """A link of known rate was full."""
    RATE = "rate"
    """The intended rate was reached, as asked."""
    HOP = "hop"
    """Most frames were lost at one place."""
    UNEXPLAINED = "unexplained"
    """Frames were lost, and no figure says why."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What limited a trial, and what shows it."""

    limit: Limit
    """What."""
    seen: tuple[Evidence, ...] = ()
    """What shows it, the cause first."""
    place: Place | None = None
    """Where; None: nowhere in particular."""
    doubt: Caveat | None = None
    """Why it is not certain; None: it is."""


@dataclass(frozen=True, slots=True)
class CpuUse:
    """One CPU during a trial."""

    cpu: int
    """Its number."""
    busy_ratio: float
    """Time that it was not idle, of all."""
    softirq_ratio: float
    """Time in soft interrupts."""
    steal_ratio: float
    """Time that the hypervisor took."""
    kernel: Name = SENDERS
    """The machine whose kernel has it."""


@dataclass(frozen=True, slots=True)
class Thread:
    """One thread during a trial."""

    name: Name
    """As the kernel calls it; of ours: generator, receiver."""
    role: Name
    """device, guest, kernel, generator, receiver or napi (taking frames in for the receiver)."""
    place: Name
    """The port it works for; of a guest's threads the machine."""
    cpu: int | None
    """The CPU it is kept on, or was on before and after the trial; None: on several."""
    busy_ratio: float
    """Time that it ran, of one CPU."""
    wait_ratio: float | None = 0.0
    """Time that it was ready, and had no CPU; None: an old record does not say."""
    polls: Name = ""
    """The guest's card (machine.port) at which it looks for frames all the time, so that it is always busy; empty: it
    sleeps where there are none."""
    kernel: Name = SENDERS
    """The machine whose kernel, and CPUs, it is on."""

    @property
    def waited(self) -> float:
        """Return the time that it waited, as far as that is known."""
        return self.wait_ratio or 0.0
