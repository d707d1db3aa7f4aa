"""Reasons why a trial failed or is invalid. Types only."""

from typing import Literal

from iolab.messages.places import PortOn
from iolab.messages.statement import Failure as Failure  # noqa: PLC0414  # its kinds are below
from iolab.messages.statement import Name, Quoted, Statement


class OtherFailure(Failure):
    """A failure without a specific code, with the error message."""

    said: Quoted


class SeveralFailures(Failure):
    """Several failures, the last of which ended the trial."""

    failures: tuple[Failure, ...]


class OneAtOnceFailed(Failure):
    """A parallel measure failed, so this measure's figures would describe different conditions."""

    measure: Name


class MachineLost(Failure):
    """The agent of a machine was lost, or a host could not be reached."""

    code: Literal["agent-was-lost", "host-unreached"]
    machine: Name
    said: Quoted


class Difference(Statement, kind=True):
    """A difference between the lab and its applied settings."""


class ReadBack(Difference):
    """The value that was read back differs from the applied level."""

    what: Name
    """Description of the setting in the plan."""
    read: Name
    applied: Name


class NothingReadBack(Difference):
    """A level could not be read back."""

    what: Name
    applied: Name


class LabWasLost(Difference):
    """The lab could not be read back because an agent was lost."""

    said: Quoted


class LabDiffered(Failure):
    """The lab differed from its applied settings."""

    code: Literal[
        "lab-differs",  # The lab differed when the trial failed
        "lab-differed-before",  # The lab differed before the trial
        "lab-differed-after",  # The lab differed after the trial
    ]
    found: tuple[Difference, ...]


class FiguresRefused(Failure):
    """Figures are not finite numbers, or two parts returned figures with the same name and dimensions."""

    code: Literal["figures-not-finite", "figures-twice"]
    figures: tuple[Name, ...]


class FilesTwice(Failure):
    """Two parts returned files with the same name."""

    files: tuple[Name, ...]


class PartBroke(Failure):
    """A measure or an instrument of a different package raised an exception that is not an iolab error."""

    part: Name
    """Name of the kind; the second and later instruments of a kind have a number, too."""
    function: Name
    """Function of the row, or of the instrument."""
    package: Name
    """The package that provides the kind."""
    error: Name
    """Class of the exception."""
    at: Name
    """File and line."""
    said: Quoted


class OwnDefect(Failure):
    """A measure or an instrument of iolab raised an unexpected exception."""

    part: Name
    """Name of the kind; the second and later instruments of a kind have a number, too."""
    function: Name
    """Function of the row, or of the instrument."""
    error: Name
    """Class of the exception."""
    at: Name
    """File and line."""
    said: Quoted


class NotMeasured(Failure):
    """A measure returned an object that is not a measurement."""

    kind: Name
    returned: Name


class ResultProblem(Statement, kind=True):
    """A problem in the result of a measure."""


class WrongType(ResultProblem):
    """A field of the result has the wrong type."""

    field: Name
    returned: Name
    """Name of the returned type."""
    allowed: Name


class NoFigures(ResultProblem):
    """The result has no metric."""


class FieldRefused(ResultProblem):
    """A time is negative or too long, or a name is empty, too long or has invalid characters."""

    code: Literal["time-impossible", "name-refused"]
    field: Name
    returned: Name
    """The returned value, possibly truncated [ns]."""


class UnitContradicts(ResultProblem):
    """The unit of a metric differs from the unit in its name."""

    metric: Name
    unit: Name
    allowed: Name


class TooMany(ResultProblem):
    """A field of the result has more entries than iolab stores."""

    field: Name
    count: int
    largest: int


class RawNotJson(ResultProblem):
    """The raw output cannot be stored as JSON."""

    said: Quoted


class ResultRefused(Failure):
    """A measure of a different package returned a result that cannot be recorded."""

    kind: Name
    package: Name
    problems: tuple[ResultProblem, ...]


class KindUnbuilt(Failure):
    """The kind of measure or instrument is not supported yet."""

    kind: Name


class PlainFailure(Failure):
    """A failure without parameters: the lab was not prepared for frames, or nothing was forwarded at any load."""

    code: Literal["unarranged", "nothing-forwarded"]


class SendingFailed(Failure):
    """A load could not be sent."""

    load_fps: float
    said: Quoted


class FramesStillCame(Failure):
    """Frames still arrived seconds after the last frame was sent."""

    load_fps: float


class CountersWentBack(Failure):
    """Interface counters decreased."""

    load_fps: float
    ports: tuple[Name, ...]


class AddressUnknown(Failure):
    """The MAC address of a port could not be read."""

    port: Name
    said: Quoted


class AddressNotShown(Failure):
    """A port has no MAC address."""

    port: Name


class TwoClocks(Failure):
    """The kernels that send and receive frames have different clocks, so transit times would be meaningless."""

    ports: tuple[PortOn, ...]


class ProgramKilled(Failure):
    """A signal killed a measurement program before it reported."""

    program: Name
    role: Name
    """client or server."""
    signal: int
    said: Quoted
    """The error in its report, and its error output."""


class ProgramFailed(Failure):
    """A measurement program exited without a report."""

    program: Name
    role: Name
    """client or server."""
    status: int
    said: Quoted
    """The error in its report, and its error output."""


class ReceiverNotReached(Failure):
    """A stream's sender could not connect to its receiver, according to the program."""

    sender: Name
    receiver: Name
    address: Name
    """Address of the receiver."""
    tcp_port: int
    said: Quoted


class ReceiverSilent(Failure):
    """A stream's sender was stopped because it never connected to its receiver."""

    sender: Name
    receiver: Name
    address: Name
    """Address of the receiver."""
    tcp_port: int
    waited_ns: int
    """Duration of the connection attempt [ns]."""


class ProgramFault(Failure):
    """A program's report is unreadable, or the program could not be started."""

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
    """The reports of a program pair are unreadable."""

    program: Name
    tcp_port: int
    said: Quoted


class WatchFailed(Failure):
    """A watch or a capture could not start, or stopped on its own."""

    code: Literal["watch-failed", "capture-failed"]
    at: Name
    said: Quoted
