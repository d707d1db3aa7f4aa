"""What is said of round trips: what limited them, and what to know about their figures. Types only."""

from iolab.messages.evidence import Evidence
from iolab.messages.statement import Name
from iolab.messages.warnings import TrialWarning


class TransactionsReached(Evidence):
    """The intended number of transactions was done."""

    done_per_s: float
    intended_per_s: float


class OneRequestEach(Evidence):
    """Each connection waited for its response before it asked again."""

    connections: int
    mean_ns: float


class RoundTripParts(Evidence):
    """What the median round trip is made of: the constant delays of emulated paths, and all else."""

    rtt_ns: float
    delay_ns: int
    rest_ns: float


class RequestsUnsent(TrialWarning):
    """Intended requests did not leave: the asking end was held up, or its connections still waited."""

    machine: Name
    unsent: int
    intended: int


class RequestsRefused(TrialWarning):
    """The kernel of the asking end did not take requests."""

    machine: Name
    refused: int
    intended: int


class RequestsLate(TrialWarning):
    """Requests left later than they were meant to: they are not evenly spaced."""

    machine: Name
    late_p99_ns: int
    interval_ns: int


class AnswersUnstamped(TrialWarning):
    """The kernel did not say when answers arrived: round-trip times hold the program's own waking."""

    machine: Name
