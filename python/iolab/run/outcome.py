"""What became of a step, who observes a run, and which failures are alike."""

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
    """Someone who watches a run."""

    def run_begins(self, plan: Plan, steps: int, already: int) -> None:
        """`steps` trials are to be done, `already` are stored."""

    def trial_begins(self, step: Step, cell: Mapping[str, str], left_ns: int) -> None:
        """A trial begins; all that is left takes about `left_ns`."""

    def trial_ended(self, record: TrialRecord, left_ns: int) -> None:
        """A trial is stored; all that is left takes about `left_ns`."""

    def guests_start(self, names: Sequence[str]) -> None:
        """Guests are about to be started, which takes seconds to minutes."""


MOST_ALIKE = 3
"""Labs in a row that fail alike before a run stops."""


class LabsUnmade(LabError):
    """Several labs in a row could not be made, all for one reason."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(Phrase("run.making-lab-failed-alike", count=MOST_ALIKE, code=failure.code))
        self.failure = failure
        """Why."""


class AlikeFailures:
    """The failures of labs that could not be made, since the last one that could."""

    def __init__(self) -> None:
        self._last: Failure | None = None
        self._count = 0

    def made(self) -> None:
        """Note a lab that was made."""
        self._last, self._count = None, 0

    def failed(self, failure: Failure) -> None:
        """Note a lab that could not be made."""
        self._count = self._count + 1 if failure == self._last else 1
        self._last = failure

    def stop_if_hopeless(self) -> None:
        """Raise if so many labs in a row failed alike.

        Raises:
            LabsUnmade: with the reason.
        """
        if self._last is not None and self._count >= MOST_ALIKE:
            raise LabsUnmade(self._last)


Warnings = Callable[[Mapping[str, GuestUse], Placement | None], tuple[TrialWarning, ...]]
"""Gives what must be known of guests and of hosts to read the figures of a measure."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one turn of a run."""

    status: Status = Status.OK
    """How it ended for all its measures."""
    reason: Failure | None = None
    """Why it failed or is invalid for all of them."""
    guests: Mapping[str, GuestUse] = field(default_factory=dict)
    """Virtual machines of the lab."""
    placement: Placement | None = None
    """Where the parts of a packet trial ran."""
    measured: Mapping[str, Measured | Failure] = field(default_factory=dict)
    """What each measure gave, or why it failed."""

    def failed(self, reason: Failure) -> "Outcome":
        """Return the same where nothing of it counts."""
        return replace(self, status=Status.FAILED, reason=reason, measured={})

    def result(self, measure: str, begin_ns: int, end_ns: int, warnings: Warnings) -> TrialResult:
        """Return what happened in the trial of a measure, between two times [ns]."""
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
        """Return what the trial of a measure stores beside its record."""
        given = self.measured.get(measure)
        if not isinstance(given, Measured):
            return None
        return Samples(raw=given.raw, packets=given.packets, series=given.series, files=given.files)
