"""Why a trial failed, or is invalid. Types only."""

from typing import Literal

from iolab.messages.places import PortOn
from iolab.messages.statement import Failure as Failure  # noqa: PLC0414  # its kinds are below
from iolab.messages.statement import Name, Quoted, Statement


class OtherFailure(Failure):
    """What no other code is for: the words of the error."""

    said: Quoted


class SeveralFailures(Failure):
    """Several things went wrong, the last of which ended the trial."""

    failures: tuple[Failure, ...]


class OneAtOnceFailed(Failure):
    """A measure that is taken at once with this one failed: its figures would be of something else."""

    measure: Name


class MachineLost(Failure):
    """The agent of a machine was lost, or a host could not be reached."""

    code: Literal["agent-was-lost", "host-unreached"]
    machine: Name
    said: Quoted


class Difference(Statement, kind=True):
    """Something that was not as applied."""


class ReadBack(Difference):
    """A level was read back as another than was applied."""

    what: Name
    """As the plan calls it."""
    read: Name
    applied: Name


class NothingReadBack(Difference):
    """A level could not be read back."""

    what: Name
    applied: Name


class LabWasLost(Difference):
    """The lab could not be read back: an agent was lost meanwhile."""

    said: Quoted


class LabDiffered(Failure):
    """The lab was not as applied."""

    code: Literal[
        "lab-differs",  # The lab was not as applied when the trial ended badly
        "lab-differed-before",  # The lab was not as applied before the trial
        "lab-differed-after",  # The lab was not as applied after the trial
    ]
    found: tuple[Difference, ...]


class FiguresRefused(Failure):
    """Figures are no finite numbers, or two parts gave one of the same name and dimensions."""

    code: Literal["figures-not-finite", "figures-twice"]
    figures: tuple[Name, ...]


class FilesTwice(Failure):
    """Two parts gave a file of the same name."""

    files: tuple[Name, ...]


class PartBroke(Failure):
    """A measure or an instrument of another package raised what is no error of iolab."""

    part: Name
    """The kind; of an instrument with its number, from the second on."""
    function: Name
    """Of its row, or of the instrument."""
    package: Name
    """That brings it."""
    error: Name
    """Its class."""
    at: Name
    """File and line."""
    said: Quoted


class OwnDefect(Failure):
    """A measure or an instrument of iolab's own raised what it should not."""

    part: Name
    """The kind; of an instrument with its number, from the second on."""
    function: Name
    """Of its row, or of the instrument."""
    error: Name
    """Its class."""
    at: Name
    """File and line."""
    said: Quoted


class NotMeasured(Failure):
    """What measures gave back something else than a measurement."""

    kind: Name
    returned: Name


class ResultProblem(Statement, kind=True):
    """What is wrong with the result of a measure."""


class WrongType(ResultProblem):
    """A field of the result has a wrong type."""

    field: Name
    returned: Name
    """Name of the type."""
    allowed: Name


class NoFigures(ResultProblem):
    """The result has no metric."""


class FieldRefused(ResultProblem):
    """A time is negative or too long, or a name is empty, too long, or has wrong characters."""

    code: Literal["time-impossible", "name-refused"]
    field: Name
    returned: Name
    """As it was returned, its beginning at least [ns]."""


class UnitContradicts(ResultProblem):
    """The unit of a metric is not the one that its name says."""

    metric: Name
    unit: Name
    allowed: Name


class TooMany(ResultProblem):
    """A field of a result has more than iolab stores."""

    field: Name
    count: int
    largest: int


class RawNotJson(ResultProblem):
    """The raw output cannot be stored as JSON."""

    said: Quoted


class ResultRefused(Failure):
    """A measure of another package returned what cannot be recorded."""

    kind: Name
    package: Name
    problems: tuple[ResultProblem, ...]


class KindUnbuilt(Failure):
    """The kind of measure or instrument is not built yet."""

    kind: Name


class PlainFailure(Failure):
    """The lab was not arranged for frames, or nothing was forwarded at any load."""

    code: Literal["unarranged", "nothing-forwarded"]


class SendingFailed(Failure):
    """A load could not be sent."""

    load_fps: float
    said: Quoted


class FramesStillCame(Failure):
    """Frames still arrived seconds after the last was sent."""

    load_fps: float


class CountersWentBack(Failure):
    """Counters of interfaces went back."""

    load_fps: float
    ports: tuple[Name, ...]


class AddressUnknown(Failure):
    """The MAC address of a port could not be found."""

    port: Name
    said: Quoted


class AddressNotShown(Failure):
    """The MAC address of a port is not shown."""

    port: Name


class TwoClocks(Failure):
    """Frames would be stamped by the clock of one kernel and read by another's."""

    ports: tuple[PortOn, ...]


class ProgramKilled(Failure):
    """A signal ended a program that measures, before its report."""

    program: Name
    role: Name
    """client or server."""
    signal: int
    said: Quoted
    """What reading its report gave, and what it wrote as errors."""


class ProgramFailed(Failure):
    """A program that measures ended without a report."""

    program: Name
    role: Name
    """client or server."""
    status: int
    said: Quoted
    """What reading its report gave, and what it wrote as errors."""


class ReceiverNotReached(Failure):
    """The sender of a stream has no connection to its receiver, as its program says."""

    sender: Name
    receiver: Name
    address: Name
    """The receiver's."""
    tcp_port: int
    said: Quoted


class ReceiverSilent(Failure):
    """The sender of a stream never had a connection to its receiver, and was stopped while it tried."""

    sender: Name
    receiver: Name
    address: Name
    """The receiver's."""
    tcp_port: int
    waited_ns: int
    """How long it tried [ns]."""


class ProgramFault(Failure):
    """A program's report cannot be understood, or the program could not be started."""

    code: Literal["report-unreadable", "program-not-started"]
    program: Name
    machine: Name
    said: Quoted


class NothingAnswered(Failure):
    """No request was answered."""

    machine: Name
    address: Name
    sent: int


class ReportsUnreadable(Failure):
    """What a pair of programs reported cannot be understood."""

    program: Name
    tcp_port: int
    said: Quoted


class WatchFailed(Failure):
    """A watch or a capture could not begin, or ended by itself."""

    code: Literal["watch-failed", "capture-failed"]
    at: Name
    said: Quoted
