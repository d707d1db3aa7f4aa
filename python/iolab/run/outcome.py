"""The outcome of a step, the observer of a run, and the detection of repeated failures."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from iolab.errors import LabError
from iolab.lab.packets.placement import Placement
from iolab.locale import Phrase
from iolab.messages.failures import Failure
from iolab.messages.warnings import TrialWarning
from iolab.plan.types import Plan, Step
from iolab.results.trial import GuestUse, Status, TrialResult
from iolab.store.records import Samples, TrialRecord
from iolab.trial.measurement import Measured


class Observer(Protocol):
    """An observer of a run."""

    def run_begins(self, plan: Plan, steps: int, already: int) -> None:
        """Called at the start of a run: `steps` trials are to be run, and `already` trials are stored."""

    def trial_begins(self, step: Step, cell: Mapping[str, str], left_ns: int) -> None:
        """Called at the start of a trial; the remaining trials take about `left_ns`."""

    def trial_ended(self, record: TrialRecord, left_ns: int) -> None:
        """Called when a trial is stored; the remaining trials take about `left_ns`."""

    def guests_start(self, names: Sequence[str]) -> None:
        """Called before guests are started, which takes seconds to minutes."""


MOST_ALIKE = 3
"""Number of consecutive labs with the same failure after which a run stops."""


class LabsUnmade(LabError):
    """Several consecutive labs could not be built for the same reason."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(Phrase("run.making-lab-failed-alike", count=MOST_ALIKE, code=failure.code))
        self.failure = failure
        """Reason of the failures."""


class AlikeFailures:
    """The failures of labs since the last lab that could be built."""

    def __init__(self) -> None:
        self._last: Failure | None = None
        self._count = 0

    def made(self) -> None:
        """Record that a lab was built, which ends a series of failures."""
        self._last, self._count = None, 0

    def failed(self, failure: Failure) -> None:
        """Record that a lab could not be built."""
        self._count = self._count + 1 if failure == self._last else 1
        self._last = failure

    def stop_if_hopeless(self) -> None:
        """Raise an error if `MOST_ALIKE` consecutive labs had the same failure.

        Raises:
            LabsUnmade: with the reason.
        """
        if self._last is not None and self._count >= MOST_ALIKE:
            raise LabsUnmade(self._last)


Warnings = Callable[[Mapping[str, GuestUse], Placement | None], tuple[TrialWarning, ...]]
"""Function that returns the warnings about guests and hosts for a measure."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one turn of a run, which is a step or several parallel steps."""

    status: Status = Status.OK
    """Status of all measures of the turn."""
    reason: Failure | None = None
    """Reason why all measures failed or are invalid."""
    guests: Mapping[str, GuestUse] = field(default_factory=dict)
    """Virtual machines of the lab."""
    placement: Placement | None = None
    """CPUs of the parts of a packet trial."""
    measured: Mapping[str, Measured | Failure] = field(default_factory=dict)
    """Result or failure of each measure."""

    def failed(self, reason: Failure) -> "Outcome":
        """Return the outcome as failed, without results."""
        return replace(self, status=Status.FAILED, reason=reason, measured={})

    def result(self, measure: str, begin_ns: int, end_ns: int, warnings: Warnings) -> TrialResult:
        """Return the trial result of a measure, given the start and end times of the trial [ns]."""
        given = self.measured.get(measure)
        if not isinstance(given, Measured):
            status, reason = (self.status, self.reason) if given is None else (Status.FAILED, given)
            return TrialResult(
                status=status,
                reason=reason,
                begin_ns=begin_ns,
                end_ns=end_ns,
                measured_ns=0,
                guests=self.guests,
            )
        return TrialResult(
            status=self.status,
            reason=self.reason,
            metrics=given.metrics,
            warnings=(*warnings(self.guests, self.placement), *given.warnings),
            begin_ns=begin_ns,
            end_ns=end_ns,
            measured_ns=given.measured_ns,
            verdict=given.verdict,
            guests=self.guests,
            in_effect=given.in_effect,
        )

    def samples(self, measure: str) -> Samples | None:
        """Return the samples that are stored for a measure's trial in addition to the trial's record."""
        given = self.measured.get(measure)
        if not isinstance(given, Measured):
            return None
        return Samples(raw=given.raw, packets=given.packets, series=given.series, files=given.files)
