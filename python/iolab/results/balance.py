"""The balance sheet of one direction: offered = forwarded + drops + unexplained."""

from dataclasses import dataclass

from iolab.messages.caveats import Caveat
from iolab.messages.drop_reasons import DropReason
from iolab.messages.places import Place
from iolab.messages.statement import Name


@dataclass(frozen=True, slots=True)
class Drop:
    """Frames lost at one place for one reason."""

    place: Place
    """Where."""
    reason: DropReason
    """Why."""
    frames: int
    """How many."""
    cause: Name = ""
    """The kernel's own name of the reason, where it tells one."""
    doubt: Caveat | None = None
    """Why that reason is not certain; None: it is, or there is none."""


@dataclass(frozen=True, slots=True)
class Balance:
    """One direction's balance."""

    direction: Name
    """From->to."""
    offered_frames: int
    """Frames that left the sender."""
    forwarded_frames: int
    """First copies that arrived whole."""
    drops: tuple[Drop, ...]
    """Named losses, in the order of the way."""
    unexplained_frames: int
    """What no counter tells of; below zero: counters tell of more than is missing."""
