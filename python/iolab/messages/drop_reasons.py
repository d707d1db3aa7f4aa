"""Why frames were lost at a place. Types only."""

from typing import Literal

from iolab.messages.statement import Name, Statement


class DropReason(Statement, kind=True):
    """Why frames were lost."""


class NoRoom(DropReason):
    """The receive ring had no room, there was no buffer to receive into, the backlog of a CPU had no room, or the
    receiving program did not read its socket in time."""

    code: Literal["ring-full", "no-buffer", "in-backlog", "socket-full"]


class Discarded(DropReason):
    """A reference device's rule, a filter or a queueing discipline dropped them."""

    code: Literal["by-rule", "by-filter", "in-qdisc"]


class LostOnWire(DropReason):
    """An emulated path had no memory left for them, did not read its interface in time, the interface at its far end
    did not take them, or they were still on it when the trial ended."""

    code: Literal["wire-full", "wire-behind", "far-end-down", "still-under-way"]


class Unusable(DropReason):
    """They arrived with other contents than they were sent with, or after the end of the trial."""

    code: Literal["damaged", "late"]


class ByImpairment(DropReason, kind=True):
    """An emulated path lost them, as it was asked to."""


class ByChance(ByImpairment):
    """Each by chance, in bursts (Gilbert and Elliott), by a pattern or every so many; or a bit was inverted, and nobody
    knew them any more."""

    code: Literal["by-loss", "by-loss-bursts", "by-loss-pattern", "corrupted"]


class QueueLimit(ByImpairment):
    """The queue before its line or of a pacer's class had no room, or CoDel kept its queue short."""

    code: Literal["in-line-queue", "in-pacer-queue", "by-codel"]


class CountedAs(DropReason):
    """An interface's counter of its own."""

    counter: Name
    """rx_dropped, tx_errors and the like."""


class NeverRead(DropReason):
    """A hypervisor left them in the queue of its guest's tap."""

    sender: Name
    """The port that sent them."""


class LostBetween(DropReason):
    """Sent on one kernel, and not received on the next."""

    sender: Name
    receiver: Name


class NotPassedOn(DropReason):
    """They entered a machine and did not leave it by the next port."""

    out: Name


class KernelDropped(DropReason):
    """The kernel gave this reason."""

    reason: Name
    """The kernel's own name of it."""


class NotPassedOnFor(DropReason):
    """They did not leave a machine by the next port, and the kernel gave this reason."""

    reason: Name
    """The kernel's own name of it."""
    out: Name


class LongerThanMtu(DropReason):
    """They were longer than the next port takes: a bridge drops them without a word, and no router answers."""

    out: Name
    mtu_bytes: int
    """Largest packet that this port takes."""
    sent_mtu_bytes: int
    """Largest packet that the sender's port sends."""


class CountedReason(Statement):
    """A reason, and how many frames were lost for it."""

    reason: DropReason
    frames: int


class SeveralReasons(DropReason):
    """Several reasons at one place, none of which has most of the loss."""

    reasons: tuple[CountedReason, ...]
    """Most frames first."""
