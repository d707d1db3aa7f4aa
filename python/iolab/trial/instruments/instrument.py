"""What an instrument is, and how several of them stand beside one measure: started before it, stopped after it, once.

A measure knows nothing of the instruments beside it. Whatever fails, nothing goes on running.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, TypeVar

from iolab.agent.client import AgentLost
from iolab.agent.decoding import BadAnswer
from iolab.agent.messages import Json
from iolab.errors import IolabError, TrialFailed
from iolab.messages.failures import FiguresRefused, FilesTwice, OwnDefect, PartBroke
from iolab.messages.warnings import TrialWarning
from iolab.registry.guard import class_of, place_of, words_of
from iolab.registry.rows import OWN
from iolab.results.metric import Metric, Metrics
from iolab.trial.measurement import Failed, Measured, Readings

if TYPE_CHECKING:
    from iolab.results.series import Series  # loads numpy

T = TypeVar("T")
Evidence = TypeVar("Evidence")
"""What a measure read, before anything is concluded from it."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What an instrument gives."""

    metrics: tuple[Metric, ...] = ()
    """They stand among the measure's own."""
    warnings: tuple[TrialWarning, ...] = ()
    """What to know about the trial."""
    series: "tuple[Series, ...]" = ()
    """Quantities over the time of the trial."""
    raw: Json = None
    """What it read, for the samples folder; None: nothing."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Files for the samples folder, by the end of their names."""
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


@dataclass(frozen=True, slots=True)
class Part:
    """Whose functions are called."""

    name: str
    """The kind; of an instrument with its number, from the second on."""
    package: str = OWN
    """That brings it."""


def measure_beside(
    instruments: Mapping[str, Instrument],
    measure: Callable[[], Evidence],
    conclude: Callable[[Evidence, Readings], Measured],
    kind: Part = Part("the measure"),
    packages: Mapping[str, str] = MappingProxyType({}),
) -> Measured:
    """Measure while instruments look on, and conclude; return the measurement with what they saw, by their names.

    `conclude` is given what `measure` returned, and what instruments read of the kernels' counters.
    `packages` are those that bring the instruments, by their names; iolab's own need not be there.
    The first to start is the last to stop. Where anything fails, what was begun is abandoned and the error is raised.
    """
    parts = {name: Part(name, packages.get(name, OWN)) for name in instruments}
    running: list[str] = []
    seen: dict[str, Seen] = {}
    try:
        for name, one in instruments.items():
            running.append(name)
            call_part(parts[name], "start", one.start)
        evidence = call_part(kind, "measure", measure)
        while running:
            last = running[-1]
            seen[last] = call_part(parts[last], "stop", partial(_stopped, instruments[last], parts[last]))
            running.pop()
    except BaseException:  # also an interrupt: what was started would outlive the trial
        for name in reversed(running):
            with suppress(Exception):  # of another package's, which must not keep the others running
                instruments[name].abandon()
        raise
    readings = {kernel: own for name in instruments for kernel, own in seen[name].readings.items()}
    measured = call_part(kind, "conclude", partial(conclude, evidence, readings))
    return _with_seen(measured, {name: seen[name] for name in instruments})


def _stopped(instrument: Instrument, part: Part) -> Seen:
    seen: object = instrument.stop()
    if not isinstance(seen, Seen):
        raise TypeError(f"it returned {class_of(seen)}, allowed is Seen")
    if part.package != OWN:
        from iolab.trial.foreign_results import check_seen  # of iolab's own instruments nobody needs it

        check_seen(part.name, part.package, seen)
    return seen


def call_part(part: Part, function: str, call: Callable[[], T]) -> T:
    """Call a function of a part; what it raises that is no error of iolab fails the trial.

    The reason names the package that brings the part; where that is iolab itself, it is a defect of iolab.
    """
    try:
        return call()
    except BaseException as error:
        own = part.package == OWN
        if _passes(error, own=own):
            raise
        if isinstance(error, TrialFailed):
            raise TrialFailed(words_of(error)) from error
        about = {"part": part.name, "function": function, "error": class_of(error), "at": place_of(error)}
        said = str(words_of(error))
        failure = (
            OwnDefect(**about, said=said) if own else PartBroke(**about, package=part.package, said=said)
        )
        raise Failed(failure) from error


def _passes(error: BaseException, *, own: bool) -> bool:
    """Whether an error means the same whoever raises it.

    Another package may state that the trial failed or that an agent is lost; what else ends a run is not for it to say.
    """
    if own:
        return isinstance(error, IolabError) or not isinstance(error, Exception | SystemExit)
    return isinstance(error, KeyboardInterrupt | Failed | AgentLost | BadAnswer)


def _with_seen(measured: Measured, seen: Mapping[str, Seen]) -> Measured:
    """Return a measurement with what instruments saw, by their names."""
    raw = {name: one.raw for name, one in seen.items() if one.raw is not None}
    return replace(
        measured,
        metrics=_metrics((*measured.metrics, *(metric for one in seen.values() for metric in one.metrics))),
        warnings=(*measured.warnings, *(warning for one in seen.values() for warning in one.warnings)),
        series=(*measured.series, *(series for one in seen.values() for series in one.series)),
        raw={**measured.raw, "instruments": raw} if raw else measured.raw,
        files=_files((measured.files, *(one.files for one in seen.values()))),
    )


def _files(found: Sequence[Mapping[str, bytes]]) -> Mapping[str, bytes]:
    """Return the files of a trial, unless two are of one name: one would be lost without a word."""
    times = Counter(name for files in found for name in files)
    twice = tuple(name for name, count in times.items() if count > 1)
    if twice:
        raise Failed(FilesTwice(files=twice))
    return {name: data for files in found for name, data in files.items()}


def _metrics(found: Sequence[Metric]) -> Metrics:
    """Return the metrics of a trial, unless two are of one quantity: neither would be known for what it is."""
    times = Counter(metric.quantity for metric in found)
    twice = tuple(str(quantity) for quantity, count in times.items() if count > 1)
    if twice:
        raise Failed(FiguresRefused(code="figures-twice", figures=twice))
    return Metrics(found)
