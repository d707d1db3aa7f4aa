"""Actions and readings with which an agent builds and reads back a lab, as values; each change has an undo."""

from dataclasses import field
from typing import Literal

from iolab.experiment.model.impairments import Impairments
from iolab.experiment.model.targets import SecretSource
from iolab.frozen import frozen
from iolab.lab.guests.guest import Guest
from iolab.lab.links.pacer import Pacing
from iolab.lab.readback.values import How, value_shown
from iolab.messages.commands import CommandNote


@frozen
class Command:
    """A program to run, without a shell."""

    argv: tuple[str, ...]
    """Program and arguments."""
    netns: str | None = None
    """Network namespace in which the command runs; None: the agent's namespace."""


@frozen
class Setting:
    """A kernel setting: a file below /proc/sys or /sys, or the CPU affinity of an interrupt."""

    path: str
    """The file."""
    netns: str | None = None
    """Network namespace in which the file is opened; None: the agent's namespace."""


@frozen
class DeviceState:
    """The state of a reference device that the agent runs."""

    device: str
    """ID of the device."""


@frozen
class WireState:
    """The state of an emulated link that the agent runs."""

    wire: str
    """ID of the emulated link."""


@frozen
class GuestState:
    """The state of a running guest, from its hypervisor and its threads' affinities (JSON, see `GuestThreads`)."""

    guest: str
    """Name of the machine."""


@frozen
class InterruptState:
    """The CPU affinity of a NIC's interrupts: "0-3"; several lists if the interrupts differ."""

    interface: str
    """The NIC, in the kernel's initial namespace."""


@frozen
class ProcessorState:
    """The processor settings of a kernel: the governors of its CPUs, or whether turbo is on."""

    what: Literal["governor", "turbo"]
    """The setting: governor or turbo."""


Source = Command | Setting | DeviceState | WireState | GuestState | InterruptState | ProcessorState
"""The source of a reading."""


@frozen
class Reading:
    """A value to read on a host. Equal sources are read only once."""

    source: Source
    """Source of the text: the output of a command, the value of a setting, the counters of a device, a guest, ..."""
    how: How
    """The value to extract from the text."""


@frozen
class Expectation:
    """A reading, and the value that it must return."""

    reading: Reading
    """The reading that returns the value."""
    expected: str
    """The expected text."""
    what: str
    """Description for messages: "mtu of near.eth0"."""
    tolerance: int = 0
    """For whole numbers: maximum difference from `expected` (tc rounds rates and bursts)."""
    patience_ns: int = 0
    """Maximum time after a change until the value is as expected, if it is longer than the default [ns]."""


def extract(reading: Reading, text: str) -> str | None:
    """Return the value in `text`, the output of the source; None if the text does not contain the value."""
    return value_shown(reading.how, text)


def holds(expectation: Expectation, value: str | None) -> bool:
    """Whether a value that was read meets the expectation."""
    if value is None or not expectation.tolerance:
        return value == expectation.expected
    try:
        return abs(int(value) - int(expectation.expected)) <= expectation.tolerance
    except ValueError:
        return False


ORIGINAL = "{original}"
"""Placeholder in an undo's argv for the words that `Run.original` read before the change."""
FOUND = "{found}"
"""Placeholder in a change's argv for the words that `Run.find` read before the change."""


@frozen
class TypedCommand:
    """A command as typed in a shell, and its undo."""

    do: Command
    """The change."""
    undo: Command | None = None
    """The undo; None: no undo is needed, or the undo of a different command reverts the change."""
    notes: tuple[CommandNote, ...] = ()
    """Explanations of the numbers in the command: open file descriptors and thread IDs."""


@frozen
class CreateNetns:
    """Create a network namespace with its loopback interface up; the undo removes the namespace."""

    name: str
    """Name of the namespace, as in `ip netns`."""


@frozen
class Run:
    """Run a command after its undo is written to the journal."""

    do: Command
    """The change."""
    undo: Command | None = None
    """The undo, which is harmless if the change was not made; None: the undo of a resource that this one needs
    reverts the change."""
    original: Reading | None = None
    """Value to read before the change; its words replace "{original}" in the undo."""
    find: Reading | None = None
    """Value to read before the change; its words replace "{found}" in the change."""
    secret: SecretSource | None = None
    """Place of a secret that the command reads from its standard input; None: its standard input is empty."""


@frozen
class Write:
    """Write a kernel setting; the undo restores the original value."""

    path: str
    """The file."""
    netns: str | None
    """Network namespace in which the file is opened; None: the agent's namespace."""
    value: str
    """The new value."""
    absent_ok: bool = False
    """True: the action is skipped if the kernel has no such file."""


@frozen
class Tell:
    """Trigger an action of the kernel by writing a word to a file below /sys; the file keeps no value.

    The action has no separate undo; the undo of a resource that this one needs reverts the action.
    """

    path: str
    """The file."""
    word: str
    """The word; "{found}" stands for the value that `find` reads."""
    find: Reading | None = None
    """Value to read before the action."""


@frozen
class PinNapi:
    """Let a kernel thread on one CPU receive the frames of an interface (threaded NAPI).

    The kernel removes the setting with the interface. If the kernel has no NAPI threads, or does not let an ordinary
    user pin them, the trial gets a warning and does not fail.
    """

    interface: str
    """The interface."""
    netns: str | None
    """Network namespace of the interface."""
    cpu: int
    """CPU of the thread."""
    priority: int | None = None
    """SCHED_FIFO priority; None: normal scheduling."""
    queues: int = 1
    """Number of receive queues of the interface: each has a thread."""


@frozen
class StartDevice:
    """Let the agent forward frames from one interface to another; the undo stops the device."""

    device: str
    """ID of the device."""
    netns: str | None
    """Network namespace of both interfaces."""
    interface: str
    """Interface that receives the frames."""
    towards: str
    """Interface that sends the frames."""
    impairments: Impairments = field(default_factory=Impairments)
    """Impairments of the frames."""
    cpu: int | None = None
    """CPU of the forwarding thread; None: any CPU, or no thread is needed."""
    priority: int | None = None
    """SCHED_FIFO priority of the thread; None: normal scheduling."""


@frozen
class CarriedPort:
    """A port of a host whose frames an emulated link carries; addresses, routes and sockets stay on the port."""

    interface: str
    """Name of the interface."""
    networks: tuple[str, ...]
    """Networks of the carried packets: both addresses of a packet are in one of them."""
    vlan: int | None = None
    """VLAN ID of the carried frames; None: untagged frames."""


@frozen
class StartWire:
    """Let the agent create two interfaces and carry frames between them; the undo stops the emulated link."""

    wire: str
    """ID of the emulated link."""
    ends: tuple[tuple[str | None, str], tuple[str | None, str]]
    """Network namespace and name of each interface."""
    super_frames: bool = True
    """False: GSO super-frames are segmented into frames."""
    veth_frame_bytes: int | None = None  # without FCS
    """Maximum frame size, if the ends are to be veth pairs; None: taps."""
    priority: int | None = None
    """SCHED_FIFO priority of the thread, if the agent may set it; None: normal scheduling."""
    apart: bool = False
    """Whether the thread keeps one CPU and the receivers of its frames use other CPUs, if there are any."""
    on_port: CarriedPort | None = None
    """Port whose frames the two interfaces carry; None: the interfaces are the ports."""


@frozen
class ImpairWire:
    """Set the impairments of an emulated link in both directions while it runs; stopping the link is the undo."""

    wire: str
    """ID of the emulated link."""
    ways: tuple[Impairments, Impairments]
    """Impairments of the frames that the first end sends, and of those that the second end sends."""
    memory_bytes: tuple[int, int]
    """Maximum memory for the frames of each direction."""
    pacing: tuple[Pacing | None, Pacing | None] = (None, None)
    """Pacer of each direction, which frames pass through before the impairments."""


@frozen
class StartGuest:
    """Start a virtual machine and wait until its agent answers; the undo stops the virtual machine.

    The parent's agent must have created the backends of the guest's NICs. Afterwards, resources with this guest as
    their `kernel` can be created.
    """

    guest: Guest
    """The guest."""
    nested: bool = False
    """Whether the parent is itself a guest of the lab."""


@frozen
class PinGuest:
    """Pin the virtual CPUs of a running guest, and the threads that carry its frames, to CPUs of its parent.

    Pinning needs neither a restart nor an undo: the threads end with the guest.
    """

    guest: str
    """Name of the machine."""
    vcpus: tuple[int, ...]
    """The parent's CPU for each virtual CPU; empty: any."""
    carriers: tuple[int, ...] = ()
    """The parent's CPUs for vhost threads and the hypervisor's own threads; empty: any."""


@frozen
class SpreadInterrupts:
    """Set the CPUs that handle the interrupts of a NIC; the undo restores the affinity of each interrupt.

    The number of interrupts is determined when the action runs.
    """

    interface: str
    """The NIC, in the kernel's initial namespace."""
    cpus: tuple[int, ...]
    """The CPUs."""
    queues: int | None = None
    """Number of queues; a NIC with a new number of queues resets its affinities, so the action must be repeated."""


@frozen
class TuneProcessors:
    """Set the governor or turbo of all processors of a kernel; the undo restores the original value of each file.

    The files depend on the driver and are determined when the action runs.
    """

    what: Literal["governor", "turbo"]
    """The setting: governor or turbo."""
    value: str
    """The governor, or the state of turbo: on or off."""


Action = (
    CreateNetns | Run | Write | Tell | PinNapi | StartDevice | StartWire | ImpairWire | StartGuest | PinGuest
    | SpreadInterrupts | TuneProcessors
)  # fmt: skip


def filled(command: Command, words: str, place: str = ORIGINAL) -> Command:
    """Return the command with `words` in place of "{original}" or of the given placeholder."""
    argv: list[str] = []
    for word in command.argv:
        argv.extend(words.split() if word == place else [word])
    return Command(tuple(argv), command.netns)
