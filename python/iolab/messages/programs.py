"""What is stated of programs and of round trips: what limited them, how they failed, what to know. Types only."""

from typing import Literal

from iolab.messages.evidence import Evidence
from iolab.messages.failures import Failure
from iolab.messages.statement import Name, Quoted
from iolab.messages.warnings import TrialWarning


class OfProgram(Evidence, kind=True):
    """What a program did on its CPUs."""

    program: Name
    machine: Name


class OwnThreadRan(OfProgram):
    """How much of the time the busiest thread of a program ran, and waited for a CPU."""

    busy_ratio: float
    wait_ratio: float


class OwnProgramRan(OfProgram):
    """CPU time of a program and what it started, for each second: more than 1 where several ran at once."""

    cpus_ratio: float


class OwnCpusFull(OfProgram):
    """The only CPUs that a program may run on had no time left."""

    cpus: tuple[int, ...]
    busy_ratio: float


class NothingFull(Evidence):
    """No thread, no CPU and no link of known rate was seen at its limit."""


PROGRAM_CODES = frozenset({OwnThreadRan.code, OwnProgramRan.code, OwnCpusFull.code, NothingFull.code})
"""Of what a verdict on programs of the user's own says first."""


class ProgramNotReady(Failure):
    """A server was not ready in time."""

    program: Name
    machine: Name
    waited_ns: int
    said: Quoted
    """What it wrote."""


class ProgramEndedEarly(Failure):
    """A server ended before it was stopped."""

    program: Name
    machine: Name
    ended: Name
    """status N or signal N."""
    said: Quoted
    """What it wrote."""


class ProgramTooLong(Failure):
    """A program went on beyond its time and was killed."""

    program: Name
    machine: Name
    limit_ns: int
    said: Quoted
    """What it wrote."""


class DiskStandsStill(Failure):
    """A disk answered nothing while a program worked on it; the program was ended."""

    program: Name
    machine: Name
    still_ns: int
    """For so long."""
    in_flight: int
    """Requests that wait."""


class ProgramEndedBadly(Failure):
    """A program ended otherwise than it should."""

    program: Name
    machine: Name
    ended: Name
    """status N or signal N."""
    expected: int
    """Exit status."""
    said: Quoted
    """What it wrote."""


class ProgramsForkedAway(Failure):
    """Processes that a trial's programs had started went on after all had ended, and were killed."""

    programs: tuple[Name, ...]
    left: int


class OutputTooLong(Failure):
    """A program wrote more than is kept, so that its figures cannot be looked for."""

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
    """The end of its standard error."""


class FigureCut(Failure):
    """The pattern of a figure matches a part of a number."""

    figure: Name
    seen: Quoted
    """The part."""
    whole: Quoted
    """The text around it."""


class FigureUnread(Failure):
    """The output is malformed or ambiguous, or the text in the place of a figure is no number."""

    code: Literal["output-malformed", "figure-unread"]
    figure: Name
    seen: Quoted
    """The beginning of the output."""
    said: Quoted
    """What is wrong."""


class FigureAmbiguous(Failure):
    """A figure is in the output several times."""

    figure: Name
    found: int


class FigureOfOtherUnit(Failure):
    """A number in the output has another unit than its figure."""

    figure: Name
    seen: Quoted
    """The number and its unit."""
    unit: Name
    """Of the figure."""


class SearchTooLong(Failure):
    """A regular expression was looked for too long."""

    figure: Name
    limit_ns: int


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
