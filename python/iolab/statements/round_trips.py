"""What is said of round trips: what limited them, and what to know about their figures. Types only."""

from iolab.statements.clauses import Clause
from iolab.statements.statement import Name
from iolab.statements.warnings import Warning


class TransactionsReached(Clause):
    """The intended number of transactions was done."""

    done_per_s: float
    intended_per_s: float


class OneRequestEach(Clause):
    """Each connection waited for its response before it asked again."""

    connections: int
    mean_ns: float


class RoundTripParts(Clause):
    """What the median round trip is made of: the constant delays of emulated paths, and all else."""

    rtt_ns: float
    delay_ns: int
    rest_ns: float


class RequestsUnsent(Warning):
    """Intended requests did not leave: the asking end was held up, or its connections still waited."""

    machine: Name
    unsent: int
    intended: int


class RequestsRefused(Warning):
    """The kernel of the asking end did not take requests."""

    machine: Name
    refused: int
    intended: int


class RequestsLate(Warning):
    """Requests left later than they were meant to: they are not evenly spaced."""

    machine: Name
    late_p99_ns: int
    interval_ns: int


class AnswersUnstamped(Warning):
    """The kernel did not say when answers arrived: round-trip times hold the program's own waking."""

    machine: Name
