"""What an agent does and reads to make a part of a lab, as values; each change knows its undo, or the agent does."""

from dataclasses import field
from typing import Literal

from iolab.experiment.model.impairments import Impairments
from iolab.frozen import frozen
from iolab.lab.guests.guest import Guest
from iolab.lab.links.pacer import Pacing
from iolab.lab.readback.values import How, value_shown
from iolab.messages.commands import CommandNote


@frozen
class Command:
    """A program to run; never given to a shell."""

    argv: tuple[str, ...]
    """Program and arguments."""
    netns: str | None = None
    """Network namespace to run in; None: the agent's own."""


@frozen
class Setting:
    """A kernel setting: a file below /proc/sys or /sys, or the CPUs of an interrupt."""

    path: str
    """The file."""
    netns: str | None = None
    """Network namespace to see it from; None: the agent's own."""


@frozen
class DeviceState:
    """A reference device that the agent runs."""

    device: str
    """Its id."""


@frozen
class WireState:
    """A wire that the agent runs."""

    wire: str
    """Its id."""


@frozen
class GuestState:
    """A running guest, as its hypervisor and its threads' affinities tell of it (JSON, see `GuestThreads`)."""

    guest: str
    """The machine's name."""


@frozen
class InterruptState:
    """Which CPUs take the interrupts of a card: "0-3", and more such lists where its interrupts differ."""

    interface: str
    """The card, in the kernel's own namespace."""


@frozen
class ProcessorState:
    """How the processors of a kernel run: the governors of its CPUs, or whether turbo is on."""

    what: Literal["governor", "turbo"]
    """Which of it."""


Source = Command | Setting | DeviceState | WireState | GuestState | InterruptState | ProcessorState
"""What something is read from."""


@frozen
class Reading:
    """What to read on a host, and what to look for in it. Equal `source`s are read only once."""

    source: Source
    """What gives the text: the output of a command, the value of a setting, a device's counters, a guest, ..."""
    how: How
    """What to take from the text."""


@frozen
class Expectation:
    """What reading back must show."""

    reading: Reading
    """Where to look."""
    expected: str
    """The text that must be seen."""
    what: str
    """In words, for messages: "mtu of near.eth0"."""
    tolerance: int = 0
    """For whole numbers: how far the value read may lie from `expected` (tc rounds rates and bursts)."""
    patience_ns: int = 0
    """How long it may take after a change until it holds, where that is longer than for others [ns]."""


def extract(reading: Reading, text: str) -> str | None:
    """Return the value that `text`, as its source gave it, shows; None where it shows nothing of it."""
    return value_shown(reading.how, text)


def holds(expectation: Expectation, value: str | None) -> bool:
    """Tell whether a value that was read meets the expectation."""
    if value is None or not expectation.tolerance:
        return value == expectation.expected
    try:
        return abs(int(value) - int(expectation.expected)) <= expectation.tolerance
    except ValueError:
        return False


ORIGINAL = "{original}"
"""Stands in an undo's argv for the words that `Run.original` read before the change."""
FOUND = "{found}"
"""Stands in a change's argv for the words that `Run.find` read before it."""


@frozen
class TypedCommand:
    """A command as a person would type it, and its undo."""

    do: Command
    """The change."""
    undo: Command | None = None
    """Takes it back; None: there is nothing to take back, or undoing another one does it."""
    notes: tuple[CommandNote, ...] = ()
    """What its words leave open: files that are open for it, and whose thread a number is."""


@frozen
class CreateNetns:
    """Make a network namespace with its loopback up; undone by removing it."""

    name: str
    """As `ip netns` shows it."""


@frozen
class Run:
    """Run a command; its undo is journalled first."""

    do: Command
    """The change."""
    undo: Command | None = None
    """Takes it back, harmless where the change did not happen; None: undoing what it needs takes it away."""
    original: Reading | None = None
    """What to read before the change; its words replace "{original}" in the undo."""
    find: Reading | None = None
    """What to read before the change; its words replace "{found}" in it."""


@frozen
class Write:
    """Write a kernel setting; undone by writing the original back."""

    path: str
    """The file."""
    netns: str | None
    """Network namespace to see it from; None: the agent's own."""
    value: str
    """What to write."""
    absent_ok: bool = False
    """True: where this kernel has no such file, there is nothing to do."""


@frozen
class Tell:
    """Write a word into a file below /sys that tells the kernel to do something, and keeps no value.

    Nothing takes it back but undoing what it needs.
    """

    path: str
    """The file."""
    word: str
    """What to write; "{found}" stands for what `find` reads."""
    find: Reading | None = None
    """What to read before."""


@frozen
class PinNapi:
    """Let a kernel thread of its own take in the frames of an interface, on one CPU (threaded NAPI).

    Undone with the interface. Where the kernel has no such threads, or an ordinary user may not move them, the trial
    says so: it is no failure.
    """

    interface: str
    """The interface."""
    netns: str | None
    """Network namespace it lives in."""
    cpu: int
    """Where the thread runs."""
    priority: int | None = None
    """SCHED_FIFO priority; None: as other threads."""
    queues: int = 1
    """Receive queues of the interface: each has a thread."""


@frozen
class StartDevice:
    """Have the agent send what comes in at an interface out of another one; undone by stopping it."""

    device: str
    """Its id."""
    netns: str | None
    """Network namespace of both interfaces."""
    interface: str
    """Where frames come in."""
    towards: str
    """The interface they leave by."""
    impairments: Impairments = field(default_factory=Impairments)
    """What it does to frames."""
    cpu: int | None = None
    """Of the thread that does it; None: it may run anywhere, or no thread is needed."""
    priority: int | None = None
    """SCHED_FIFO priority of that thread; None: as other threads."""


@frozen
class StartWire:
    """Have the agent make two interfaces and carry frames between them; undone by stopping it."""

    wire: str
    """Its id."""
    ends: tuple[tuple[str | None, str], tuple[str | None, str]]
    """Network namespace and name of each interface."""
    super_frames: bool = True
    """False: every frame comes apart."""
    veth_frame_bytes: int | None = None  # without FCS
    """The longest frame, where its ends are to be veth pairs; None: taps."""
    priority: int | None = None
    """SCHED_FIFO priority of its thread, where its agent may give one; None: as other threads."""
    apart: bool = False
    """Whether its thread keeps one CPU, and others handle the frames that it gives, where there are others."""


@frozen
class ImpairWire:
    """Have a wire do something to the frames of both directions; it runs on, and stopping it is all the undo."""

    wire: str
    """Its id."""
    ways: tuple[Impairments, Impairments]
    """What it does to the frames that its first end sends, and to those of the second."""
    memory_bytes: tuple[int, int]
    """What the frames of each direction may take."""
    pacing: tuple[Pacing | None, Pacing | None] = (None, None)
    """What spaces the frames of each direction before."""


@frozen
class StartGuest:
    """Start a virtual machine and wait until its agent answers; undone by ending it.

    What its parent's agent must have made before: the backends of its cards. After it, resources whose `kernel` is
    this guest's name can be made.
    """

    guest: Guest
    """The guest."""
    nested: bool = False
    """Its parent is itself a guest of the lab."""


@frozen
class PinGuest:
    """Keep the virtual CPUs of a running guest, and the threads that carry its frames, on CPUs of its parent.

    It needs no restart, and no undo: a guest that ends takes its threads along.
    """

    guest: str
    """The machine's name."""
    vcpus: tuple[int, ...]
    """The parent's CPU of each virtual CPU; empty: any."""
    carriers: tuple[int, ...] = ()
    """The parent's CPUs of vhost threads and of the hypervisor's own threads; empty: any."""


@frozen
class SpreadInterrupts:
    """Let some CPUs take the interrupts of a card; undone by writing back which took each before.

    How many interrupts a card has is found when it is done.
    """

    interface: str
    """The card, in the kernel's own namespace."""
    cpus: tuple[int, ...]
    """The CPUs."""
    queues: int | None = None
    """With how many queues; a card that gets others moves its interrupts itself, so it must be done again."""


@frozen
class TuneProcessors:
    """Let all processors of a kernel run in some way; undone by writing back what each had before.

    Which files say so depends on the driver, and is found when it is done.
    """

    what: Literal["governor", "turbo"]
    """Which of it."""
    value: str
    """The governor; on or off."""


Action = (
    CreateNetns | Run | Write | Tell | PinNapi | StartDevice | StartWire | ImpairWire | StartGuest | PinGuest
    | SpreadInterrupts | TuneProcessors
)  # fmt: skip


def filled(command: Command, words: str, place: str = ORIGINAL) -> Command:
    """Return the command with `words` in place of "{original}", or of `place`."""
    argv: list[str] = []
    for word in command.argv:
        argv.extend(words.split() if word == place else [word])
    return Command(tuple(argv), command.netns)
