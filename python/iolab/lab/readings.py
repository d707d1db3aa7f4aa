"""What is read on a host, where, and what it must show, as values."""

from typing import Literal

from iolab.frozen import frozen
from iolab.lab.readback.values import How, value_shown


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
