"""What every measurement gives back, and how it fails."""

from collections.abc import Mapping
from dataclasses import dataclass

from iolab.agent.messages import Json
from iolab.errors import TrialFailed
from iolab.record.metric import Metric
from iolab.record.series import Series
from iolab.record.trial import CommandRecord
from iolab.statements.warnings import Warning

__all__ = ["Measured", "TrialFailed"]


@dataclass(frozen=True, slots=True)
class Measured:
    """What one measurement gave."""

    metrics: Mapping[str, Metric]
    """By name."""
    warnings: tuple[Warning, ...]
    """What to know about them."""
    measured_ns: int
    """Time that frames or programs ran [ns]."""
    commands: tuple[CommandRecord, ...]
    """The programs that measured."""
    raw: Json
    """Reports and counter readings, for the samples folder."""
    series: tuple[Series, ...] = ()
    """Quantities over the time of the trial."""
