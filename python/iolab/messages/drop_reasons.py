"""Why frames were lost at a place. Types only."""

from iolab.messages.statement import Name, Statement


class DropReason(Statement, kind=True):
    """Why frames were lost."""


class RingFull(DropReason):
    """The receive ring had no room."""


class NoBuffer(DropReason):
    """There was no buffer to receive into."""


class ByRule(DropReason):
    """A reference device's rule dropped them."""


class ByImpairment(DropReason, kind=True):
    """An emulated path lost them, as it was asked to."""


class ByLoss(ByImpairment):
    """Each by chance."""


class ByLossBursts(ByImpairment):
    """In bursts (Gilbert and Elliott)."""


class ByLossPattern(ByImpairment):
    """By a pattern, or every so many."""


class InLineQueue(ByImpairment):
    """The queue before its line had no room."""


class InPacerQueue(ByImpairment):
    """The queue of a pacer's class had no room."""


class ByCodel(ByImpairment):
    """CoDel kept its queue short, or the queue had no room."""


class Corrupted(ByImpairment):
    """A bit was inverted, and nobody knew them any more."""


class WireFull(DropReason):
    """An emulated path had no memory left for them."""


class WireBehind(DropReason):
    """An emulated path did not read its interface in time."""


class FarEndDown(DropReason):
    """The interface at the far end of an emulated path did not take them."""


class StillUnderWay(DropReason):
    """They were still on an emulated path when the trial ended."""


class InQdisc(DropReason):
    """A queueing discipline dropped them."""


class InBacklog(DropReason):
    """The backlog of a CPU had no room."""


class ByFilter(DropReason):
    """A filter dropped them."""


class Damaged(DropReason):
    """They arrived with other contents than they were sent with."""


class Late(DropReason):
    """They arrived after the end of the trial."""


class SocketFull(DropReason):
    """The receiving program did not read its socket in time."""


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
