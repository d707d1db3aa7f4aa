"""What every measurement gives back, and how it fails."""

from dataclasses import dataclass

from iolab.agent.messages import Json
from iolab.errors import TrialFailed
from iolab.record.metric import Metrics
from iolab.record.packets import PacketTrial
from iolab.record.series import Series
from iolab.record.trial import CommandRecord
from iolab.statements.warnings import Warning

__all__ = ["Measured", "TrialFailed"]


@dataclass(frozen=True, slots=True)
class Measured:
    """What one measurement gave."""

    metrics: Metrics
    """The figures."""
    warnings: tuple[Warning, ...]
    """What to know about them."""
    measured_ns: int
    """Time that frames or programs ran [ns]."""
    commands: tuple[CommandRecord, ...]
    """The programs that measured."""
    raw: Json
    """What programs and agents said, whole: evidence that nothing reads back."""
    packets: PacketTrial | None = None
    """The load trials behind the metrics; None: no frames of our own were sent."""
    series: tuple[Series, ...] = ()
    """Metrics over time."""
