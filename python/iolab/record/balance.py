"""The balance sheet of one direction: offered = forwarded + drops + unexplained."""

from dataclasses import dataclass

from iolab.statements.doubts import Doubt


@dataclass(frozen=True, slots=True)
class Drop:
    """Frames lost at one place for one reason."""

    place: str
    """machine.port, cpuN, device machine.port, kernel (somewhere in it), on the way (anywhere), or receiver."""
    reason: str
    """Why, in one or two words."""
    frames: int
    """How many."""
    cause: str = ""
    """The kernel's own name of the reason, where it tells one."""
    doubt: Doubt | None = None
    """Why that reason is not certain; None: it is, or there is none."""


@dataclass(frozen=True, slots=True)
class Balance:
    """One direction's balance."""

    direction: str
    """From->to."""
    offered_frames: int
    """Frames that left the sender."""
    forwarded_frames: int
    """First copies that arrived whole."""
    drops: tuple[Drop, ...]
    """Named losses, in the order of the way."""
    unexplained_frames: int
    """What no counter tells of; below zero: counters tell of more than is missing."""
