"""Why frames were lost at a place. Types only."""

from iolab.statements.statement import Name, Statement


class DropReason(Statement):
    """Why frames were lost."""


class RingFull(DropReason):
    """The receive ring had no room."""

    code = "ring-full"


class NoBuffer(DropReason):
    """There was no buffer to receive into."""

    code = "no-buffer"


class ByRule(DropReason):
    """A reference device's rule dropped them."""

    code = "by-rule"


class ByImpairment(DropReason):
    """An emulated path lost them, as it was asked to."""


class ByLoss(ByImpairment):
    """Each by chance."""

    code = "by-loss"


class ByLossBursts(ByImpairment):
    """In bursts (Gilbert and Elliott)."""

    code = "by-loss-bursts"


class ByLossPattern(ByImpairment):
    """By a pattern, or every so many."""

    code = "by-loss-pattern"


class InLineQueue(ByImpairment):
    """The queue before its line had no room."""

    code = "in-line-queue"


class InPacerQueue(ByImpairment):
    """The queue of a pacer's class had no room."""

    code = "in-pacer-queue"


class ByCodel(ByImpairment):
    """CoDel kept its queue short, or the queue had no room."""

    code = "by-codel"


class Corrupted(ByImpairment):
    """A bit was inverted, and nobody knew them any more."""

    code = "corrupted"


class WireFull(DropReason):
    """An emulated path had no memory left for them."""

    code = "wire-full"


class WireBehind(DropReason):
    """An emulated path did not read its interface in time."""

    code = "wire-behind"


class FarEndDown(DropReason):
    """The interface at the far end of an emulated path did not take them."""

    code = "far-end-down"


class StillUnderWay(DropReason):
    """They were still on an emulated path when the trial ended."""

    code = "still-under-way"


class InQdisc(DropReason):
    """A queueing discipline dropped them."""

    code = "in-qdisc"


class InBacklog(DropReason):
    """The backlog of a CPU had no room."""

    code = "in-backlog"


class ByFilter(DropReason):
    """A filter dropped them."""

    code = "by-filter"


class Damaged(DropReason):
    """They arrived with other contents than they were sent with."""

    code = "damaged"


class Late(DropReason):
    """They arrived after the end of the trial."""

    code = "late"


class SocketFull(DropReason):
    """The receiving program did not read its socket in time."""

    code = "socket-full"


class CountedAs(DropReason):
    """An interface's counter of its own."""

    code = "counted-as"
    counter: Name
    """rx_dropped, tx_errors and the like."""


class NeverRead(DropReason):
    """A hypervisor left them in the queue of its guest's tap."""

    code = "never-read"
    sender: Name
    """The port that sent them."""


class LostBetween(DropReason):
    """Sent on one kernel, and not received on the next."""

    code = "lost-between"
    sender: Name
    receiver: Name


class NotPassedOn(DropReason):
    """They entered a machine and did not leave it by the next port."""

    code = "not-passed-on"
    out: Name


class KernelDropped(DropReason):
    """The kernel gave this reason."""

    code = "kernel-dropped"
    reason: Name
    """The kernel's own name of it."""


class NotPassedOnFor(DropReason):
    """They did not leave a machine by the next port, and the kernel gave this reason."""

    code = "not-passed-on-for"
    reason: Name
    """The kernel's own name of it."""
    out: Name


class LongerThanMtu(DropReason):
    """They were longer than the next port takes: a bridge drops them without a word, and no router answers."""

    code = "longer-than-mtu"
    out: Name
    mtu_bytes: int
    """Largest packet that this port takes."""
    sent_mtu_bytes: int
    """Largest packet that the sender's port sends."""


class CountedReason(Statement):
    """A reason, and how many frames were lost for it."""

    code = "counted-reason"
    reason: DropReason
    frames: int


class SeveralReasons(DropReason):
    """Several reasons at one place, none of which has most of the loss."""

    code = "several-reasons"
    reasons: tuple[CountedReason, ...]
    """Most frames first."""
