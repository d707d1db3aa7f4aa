"""Reasons for frame loss at a place. Types only."""

from typing import Literal

from iolab.messages.statement import Name, Statement


class DropReason(Statement, kind=True):
    """A reason for frame loss."""


class NoRoom(DropReason):
    """A queue or buffer on the receiving side was full.

    The receive ring, the receive buffers, the backlog of a CPU or the socket of the receiving program had no room.
    """

    code: Literal["ring-full", "no-buffer", "in-backlog", "socket-full"]


class Discarded(DropReason):
    """A reference device's rule, a filter or a queueing discipline dropped the frames."""

    code: Literal["by-rule", "by-filter", "in-qdisc"]


class LostOnWire(DropReason):
    """An emulated link lost the frames for a reason other than its impairments.

    The link had no memory or did not read its interface in time, its far end was down, or the frames were in transit at
    the end of the trial.
    """

    code: Literal["wire-full", "wire-behind", "far-end-down", "still-under-way"]


class Unusable(DropReason):
    """The frames arrived corrupted, or after the end of the trial."""

    code: Literal["damaged", "late"]


class ByImpairment(DropReason, kind=True):
    """An impairment of an emulated link dropped the frames as configured."""


class ByChance(ByImpairment):
    """An impairment dropped the frames: random loss, burst loss (Gilbert-Elliott), a pattern, or corruption.

    The receiver does not recognise a frame with an inverted bit.
    """

    code: Literal["by-loss", "by-loss-bursts", "by-loss-pattern", "corrupted"]


class QueueLimit(ByImpairment):
    """The queue of a bottleneck or of a pacer's class was full, or CoDel dropped the frames."""

    code: Literal["in-line-queue", "in-pacer-queue", "by-codel"]


class CountedAs(DropReason):
    """A drop counter of the interface."""

    counter: Name
    """Name of the counter: rx_dropped, tx_errors and others."""


class NeverRead(DropReason):
    """A hypervisor did not read the frames from the queue of its guest's tap."""

    sender: Name
    """The port that sent the frames."""


class LostBetween(DropReason):
    """The frames were sent on one kernel and did not arrive on the next."""

    sender: Name
    receiver: Name


class NotPassedOn(DropReason):
    """The frames entered a machine and did not leave it through the next port."""

    out: Name


class KernelDropped(DropReason):
    """The kernel dropped the frames for this reason."""

    reason: Name
    """The kernel's name of the reason."""


class NotPassedOnFor(DropReason):
    """The kernel dropped the frames for this reason, and they did not leave a machine through the next port."""

    reason: Name
    """The kernel's name of the reason."""
    out: Name


class LongerThanMtu(DropReason):
    """The frames exceed the MTU of the next port: a bridge drops them silently, and no router answers."""

    out: Name
    mtu_bytes: int
    """MTU of the next port."""
    sent_mtu_bytes: int
    """MTU of the sender's port."""


class CountedReason(Statement):
    """A reason with the number of lost frames."""

    reason: DropReason
    frames: int


class SeveralReasons(DropReason):
    """Several reasons at one place, none of which accounts for most of the loss."""

    reasons: tuple[CountedReason, ...]
    """Reasons, the most frequent first."""
