"""What an instrument is, and how several of them stand beside one measure: started before it, stopped after it, once.

A measure knows nothing of the instruments beside it. Whatever fails, nothing goes on running.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import PurePath
from traceback import extract_tb
from typing import Protocol, TypeVar

from iolab.agent.messages import Json
from iolab.errors import IolabError
from iolab.record.metric import Metric, Metrics
from iolab.record.series import Series
from iolab.statements.failures import PartBroke
from iolab.statements.warnings import Warning
from iolab.trial.failed import Failed
from iolab.trial.measured import Concluded, Measured, Readings

T = TypeVar("T")


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
    readings: Readings = field(default_factory=dict)
    """The kernels' counters, for what is concluded from them."""


class Instrument(Protocol):
    """Something that looks on, or acts, while a measure runs. It may be on several kernels."""

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


def measure_beside(instruments: Mapping[str, Instrument], measure: Callable[[], Measured]) -> Measured:
    """Measure while instruments look on; return the measurement with what they saw, by their names.

    The first to start is the last to stop. Where anything fails, what was begun is abandoned and the error is raised.
    """
    running: list[str] = []
    seen: dict[str, Seen] = {}
    try:
        for name, one in instruments.items():
            running.append(name)
            _doing(name, one.start)
        measured = _doing("the measure", measure)
        while running:
            seen[running[-1]] = _doing(running[-1], instruments[running[-1]].stop)
            running.pop()
    except BaseException:  # also an interrupt: what was started would outlive the trial
        for name in reversed(running):
            with suppress(Exception):  # of another package's, which must not keep the others running
                instruments[name].abandon()
        raise
    return _doing("instruments", partial(with_seen, measured, {name: seen[name] for name in instruments}))


def _doing(name: str, call: Callable[[], T]) -> T:
    """Call a part; what it raises that is no error of iolab, as another package's part may, fails the trial."""
    try:
        return call()
    except IolabError:
        raise
    except Exception as error:
        place = extract_tb(error.__traceback__)[-1]
        where = f"{PurePath(place.filename).name}:{place.lineno}"
        broke = PartBroke(part=name, error=type(error).__name__, at=where, said=str(error))
        raise Failed(broke) from error


def with_seen(measured: Measured, seen: Mapping[str, Seen]) -> Measured:
    """Return a measurement with what instruments saw beside it, by their names."""
    raw = {name: one.raw for name, one in seen.items() if one.raw is not None}
    readings = {kernel: own for one in seen.values() for kernel, own in one.readings.items()}
    concluded = Concluded() if measured.conclude is None else measured.conclude(readings)
    return replace(
        measured,
        verdict=concluded.verdict or measured.verdict,
        conclude=None,
        metrics=Metrics((*measured.metrics, *(metric for one in seen.values() for metric in one.metrics))),
        warnings=(
            *measured.warnings,
            *concluded.warnings,
            *(warning for one in seen.values() for warning in one.warnings),
        ),
        series=(*measured.series, *(series for one in seen.values() for series in one.series)),
        raw={**measured.raw, "instruments": raw} if raw else measured.raw,
    )
