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
