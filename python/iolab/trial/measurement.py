"""Define the result of a measurement, and its failure for a stated reason."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from iolab.agent.answers import Reading
from iolab.agent.messages import Json
from iolab.errors import TrialFailed
from iolab.lab.kernels import HERE
from iolab.locale import Phrase
from iolab.messages.failures import Failure, OtherFailure
from iolab.messages.warnings import TrialWarning
from iolab.results.metric import Metrics
from iolab.results.packets import PacketTrial
from iolab.results.trial import CommandRecord
from iolab.results.verdict import Verdict


class Failed(TrialFailed):
    """Failure of a trial, recorded as a statement."""

    def __init__(self, failure: Failure) -> None:
        parameters = ", ".join(f"{name}={value}" for name, value in failure.parameters.items())
        super().__init__(f"{failure.code}: {parameters}" if parameters else failure.code)
        self.failure = failure
        """Reason of the failure."""


class LabUnusable(Failed):
    """Failure after which the lab is unusable: the lab is removed without being read back."""

    def __init__(self, failure: Failure, hung: frozenset[str] = frozenset()) -> None:
        super().__init__(failure)
        self.hung = hung
        """Kernels of guests in which processes wait indefinitely: they are powered off, without undoing changes."""


if TYPE_CHECKING:
    from pydantic import ValidationError

    from iolab.results.series import Series  # loads numpy


__all__ = ["Measured", "TrialFailed"]
Readings = Mapping[str, Sequence[Reading]]
"""Counter readings over the time of a trial, by kernel; kernels that were not sampled are missing."""


def begin_of(readings: Sequence[Reading]) -> int:
    """Return the time of the first counter reading of a kernel, on its clock [ns]."""
    return readings[0].observations[0].begin_ns


def after_begin_ns(readings: Readings, kernel: str, at_ns: int) -> int:
    """Return the time from the first counter reading of a kernel to an instant, at least 0 [ns].

    A kernel without readings is assumed to have the local kernel's clock; without any readings the result is 0.
    """
    own = readings.get(kernel) or readings.get(HERE)
    return max(0, at_ns - begin_of(own)) if own else 0


@dataclass(frozen=True, slots=True)
class Measured:
    """Result of one measurement."""

    metrics: Metrics
    """Metrics."""
    warnings: tuple[TrialWarning, ...]
    """Warnings about the metrics."""
    measured_ns: int
    """Time in which frames were sent or programs ran [ns]."""
    commands: tuple[CommandRecord, ...]
    """Commands of the measuring programs."""
    raw: Json
    """Complete output of programs and agents, stored as evidence that no report reads."""
    packets: PacketTrial | None = None
    """Load trials behind the metrics; None: iolab sent no frames."""
    series: "tuple[Series, ...]" = ()
    """Metrics over time."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Files for the samples folder, by file name suffix."""
    verdict: Verdict | None = None
    """Limit of the trial; None: unknown, or each of its load trials has a separate verdict."""
    in_effect: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Settings that were read back at the end of the measurement, by place."""


def invalid_field(program: str, error: "ValidationError") -> Phrase:
    """Return the first invalid field of a program's report."""
    first = error.errors()[0]
    place = ".".join(map(str, first["loc"]))
    return Phrase("trial.field-of-report-invalid", program=program, place=place, reason=first["msg"])


def failure_of(error: Exception) -> Failure:
    """Return the failure of a trial: the error's statement if it has one, otherwise its message."""
    return error.failure if isinstance(error, Failed) else OtherFailure(said=str(error))
