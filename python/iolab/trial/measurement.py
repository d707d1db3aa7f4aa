"""What every measurement gives back, and how it fails, for a reason that is stated."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from iolab.agent.answers import Reading
from iolab.agent.messages import Json
from iolab.errors import TrialFailed
from iolab.lab.kernels import HERE
from iolab.messages.failures import Failure, OtherFailure
from iolab.messages.warnings import TrialWarning
from iolab.results.metric import Metrics
from iolab.results.packets import PacketTrial
from iolab.results.trial import CommandRecord
from iolab.results.verdict import Verdict


class Failed(TrialFailed):
    """The trial could not be carried out; what is recorded is a statement."""

    def __init__(self, failure: Failure) -> None:
        parameters = ", ".join(f"{name}={value}" for name, value in failure.parameters.items())
        super().__init__(f"{failure.code}: {parameters}" if parameters else failure.code)
        self.failure = failure
        """Why."""


class LabUnusable(Failed):
    """As `Failed`, and the lab cannot be measured on again: it is taken down as it is, without being read back."""

    def __init__(self, failure: Failure, hung: frozenset[str] = frozenset()) -> None:
        super().__init__(failure)
        self.hung = hung
        """Kernels of guests on which something waits for ever: nothing is undone there, they are powered off."""


if TYPE_CHECKING:
    from iolab.results.series import Series  # loads numpy


__all__ = ["Measured", "TrialFailed"]
Readings = Mapping[str, Sequence[Reading]]
"""The kernels' counters over the time of a trial, by kernel; one that was not read over time is not there."""


def begin_of(readings: Sequence[Reading]) -> int:
    """Return when the counters of a kernel were first read, on its clock [ns]."""
    return readings[0].observations[0].begin_ns


def after_begin_ns(readings: Readings, kernel: str, at_ns: int) -> int:
    """Return how long after the first reading of a kernel's counters an instant was, at least 0 [ns].

    A kernel that was not read has the local kernel's clock; where no counter was read, time begins with the instant.
    """
    own = readings.get(kernel) or readings.get(HERE)
    return max(0, at_ns - begin_of(own)) if own else 0


@dataclass(frozen=True, slots=True)
class Measured:
    """What one measurement gave."""

    metrics: Metrics
    """The figures."""
    warnings: tuple[TrialWarning, ...]
    """What to know about them."""
    measured_ns: int
    """Time that frames or programs ran [ns]."""
    commands: tuple[CommandRecord, ...]
    """The programs that measured."""
    raw: Json
    """What programs and agents said, whole: evidence that nothing reads back."""
    packets: PacketTrial | None = None
    """The load trials behind the metrics; None: no frames of our own were sent."""
    series: "tuple[Series, ...]" = ()
    """Metrics over time."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Files for the samples folder, by the end of their names."""
    verdict: Verdict | None = None
    """What limited it; None: nothing is known to, or each of its load trials has a verdict of its own."""
    in_effect: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Settings that were read back when it ended, by place (`record.in_effect`)."""


def failure_of(error: Exception) -> Failure:
    """Return why a trial failed: what the error states, else its words."""
    return error.failure if isinstance(error, Failed) else OtherFailure(said=str(error))
