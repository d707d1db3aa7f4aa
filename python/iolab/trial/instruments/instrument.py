"""What an instrument is, and how several of them stand beside one measure: started before it, stopped after it, once.

A measure knows nothing of the instruments beside it. Whatever fails, nothing goes on running.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from iolab.agent.messages import Json
from iolab.record.metric import Metric, Metrics
from iolab.record.series import Series
from iolab.statements.warnings import Warning
from iolab.trial.measured import Measured


@dataclass(frozen=True, slots=True)
class Seen:
    """What an instrument gives."""

    metrics: tuple[Metric, ...] = ()
    """They stand among the measure's own."""
    warnings: tuple[Warning, ...] = ()
    """What to know about the trial."""
    series: tuple[Series, ...] = ()
    """Quantities over the time of the trial."""
    raw: Json = None
    """What it read, for the samples folder; None: nothing."""


class Instrument(Protocol):
    """Something that looks on, or acts, while a measure runs. It may be on several kernels."""

    @property
    def name(self) -> str:
        """Return its name among the instruments of the trial."""
        ...

    def start(self) -> None:
        """Begin.

        Raises:
            TrialFailed: it cannot; the trial fails with that reason.
            AgentError: an agent is gone, or refuses.
        """
        ...

    def stop(self) -> Seen:
        """End, and return what was seen. Raises as `start` does."""
        ...

    def abandon(self) -> None:
        """Leave nothing running, started or not, whatever works no longer; what was seen is of no use. Never raises."""
        ...


def measure_beside(instruments: Sequence[Instrument], measure: Callable[[], Measured]) -> Measured:
    """Measure while the instruments look on; return the measurement with what they saw.

    The first to start is the last to stop. Where anything fails, all are abandoned and the error is raised.
    """
    running: list[Instrument] = []
    seen: dict[str, Seen] = {}
    try:
        for one in instruments:
            running.append(one)
            one.start()
        measured = measure()
        while running:
            seen[running[-1].name] = running[-1].stop()
            running.pop()
    except BaseException:  # also an interrupt: what was started would outlive the trial
        for one in reversed(running):
            one.abandon()
        raise
    return with_seen(measured, dict(reversed(seen.items())))


def with_seen(measured: Measured, seen: Mapping[str, Seen]) -> Measured:
    """Return a measurement with what instruments saw beside it, by their names."""
    raw = {name: one.raw for name, one in seen.items() if one.raw is not None}
    return replace(
        measured,
        metrics=Metrics((*measured.metrics, *(metric for one in seen.values() for metric in one.metrics))),
        warnings=(*measured.warnings, *(warning for one in seen.values() for warning in one.warnings)),
        series=(*measured.series, *(series for one in seen.values() for series in one.series)),
        raw={**measured.raw, "instruments": raw} if raw else measured.raw,
    )
