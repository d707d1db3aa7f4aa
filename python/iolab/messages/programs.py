"""Statements about programs and round trips: limits, failures and warnings. Types only."""

from typing import Literal

from iolab.messages.evidence import Evidence
from iolab.messages.failures import Failure
from iolab.messages.statement import Name, Quoted
from iolab.messages.warnings import TrialWarning


class OfProgram(Evidence, kind=True):
    """CPU use of a program."""

    program: Name
    machine: Name


class OwnThreadRan(OfProgram):
    """Ratios of the time in which the busiest thread of a program ran, and in which it waited for a CPU."""

    busy_ratio: float
    wait_ratio: float


class OwnProgramRan(OfProgram):
    """CPU time of a program and its child processes per second; above 1 if several ran in parallel."""

    cpus_ratio: float


class OwnCpusFull(OfProgram):
    """The CPUs allowed for a program were fully used."""

    cpus: tuple[int, ...]
    busy_ratio: float


class NothingFull(Evidence):
    """No thread, CPU or link of known rate reached its limit."""


PROGRAM_CODES = frozenset({OwnThreadRan.code, OwnProgramRan.code, OwnCpusFull.code, NothingFull.code})
"""Codes of the first clause in verdicts on user-defined programs."""


class ProgramNotReady(Failure):
    """A server was not ready in time."""

    program: Name
    machine: Name
    waited_ns: int
    said: Quoted
    """The server's output."""


class ProgramEndedEarly(Failure):
    """A server exited before it was stopped."""

    program: Name
    machine: Name
    ended: Name
    """End of the program: status N or signal N."""
    said: Quoted
    """The server's output."""


class ProgramTooLong(Failure):
    """A program exceeded its time limit and was killed."""

    program: Name
    machine: Name
    limit_ns: int
    said: Quoted
    """The program's output."""


class DiskStandsStill(Failure):
    """A disk completed no request while a program used it; the program was stopped."""

    program: Name
    machine: Name
    still_ns: int
    """Time without a completion."""
    in_flight: int
    """Number of requests in flight."""


class ProgramEndedBadly(Failure):
    """A program exited with an unexpected status."""

    program: Name
    machine: Name
    ended: Name
    """End of the program: status N or signal N."""
    expected: int
    """Expected exit status."""
    said: Quoted
    """The program's output."""


class ProgramsForkedAway(Failure):
    """Child processes of a trial's programs were still running after the programs had exited, and were killed."""

    programs: tuple[Name, ...]
    left: int


class OutputTooLong(Failure):
    """A program's output exceeds the size limit, so its figures cannot be read."""

    program: Name
    machine: Name
    kept_bytes: int
    dropped_bytes: int


class FigureAbsent(Failure):
    """A figure is not in the output."""

    figure: Name
    said: Quoted
    """The end of the output."""


class FigureAbsentErrors(Failure):
    """A figure is not in the output, and the program wrote to its standard error."""

    figure: Name
    said: Quoted
    """The end of the output."""
    errors: Quoted
    """The last part of the standard error output."""


class FigureCut(Failure):
    """The pattern of a figure matches only a part of a number."""

    figure: Name
    seen: Quoted
    """The matched part."""
    whole: Quoted
    """The text around the match."""


class FigureUnread(Failure):
    """The output is malformed or ambiguous, or the matched text is not a number."""

    code: Literal["output-malformed", "figure-unread"]
    figure: Name
    seen: Quoted
    """The start of the output."""
    said: Quoted
    """Description of the problem."""


class FigureAmbiguous(Failure):
    """A figure occurs several times in the output."""

    figure: Name
    found: int


class FigureOfOtherUnit(Failure):
    """The unit in the output differs from the figure's unit."""

    figure: Name
    seen: Quoted
    """The number and its unit."""
    unit: Name
    """Unit of the figure."""


class SearchTooLong(Failure):
    """Matching a regular expression took too long."""

    figure: Name
    limit_ns: int


class TransactionsReached(Evidence):
    """The intended transaction rate was reached."""

    done_per_s: float
    intended_per_s: float


class OneRequestEach(Evidence):
    """Each connection waited for a response before its next request."""

    connections: int
    mean_ns: float


class RoundTripParts(Evidence):
    """Parts of the median round-trip time: the constant delays of emulated links, and the rest."""

    rtt_ns: float
    delay_ns: int
    rest_ns: float


class RequestsUnsent(TrialWarning):
    """Intended requests were not sent: the requesting end stalled, or its connections were still waiting."""

    machine: Name
    unsent: int
    intended: int


class RequestsRefused(TrialWarning):
    """The kernel of the requesting end rejected requests."""

    machine: Name
    refused: int
    intended: int


class RequestsLate(TrialWarning):
    """Requests were sent late, so their intervals are uneven."""

    machine: Name
    late_p99_ns: int
    interval_ns: int


class AnswersUnstamped(TrialWarning):
    """The kernel did not timestamp responses, so round-trip times include the wake-up time of the program."""

    machine: Name
