"""What came of the steps that are taken at once: what holds for all of them, and what each measure gave."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from iolab.lab.packets.placement import Placement
from iolab.messages.failures import Failure
from iolab.messages.warnings import TrialWarning
from iolab.results.trial import GuestUse, Status, TrialResult
from iolab.store.records import Samples
from iolab.trial.measurement import Measured

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
