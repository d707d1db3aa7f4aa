"""Define instruments, and run several alongside one measure: they start before the measure and stop after it.

A measure has no reference to its instruments. On any failure, all instruments are stopped.
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
from iolab.locale import Phrase
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
"""Data that a measure has read, from which the result is derived."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Result of an instrument."""

    metrics: tuple[Metric, ...] = ()
    """Metrics that are added to the measure's metrics."""
    warnings: tuple[TrialWarning, ...] = ()
    """Warnings about the trial."""
    series: "tuple[Series, ...]" = ()
    """Series of quantities over the time of the trial."""
    raw: Json = None
    """Raw data for the samples folder; None: there is no raw data."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Files for the samples folder, by file name suffix."""
    readings: Readings = field(default_factory=dict)
    """Counter readings of the kernels, from which results are derived."""


class Instrument(Protocol):
    """A component that observes or acts while a measure runs; it may use several kernels."""

    def start(self) -> None:
        """Start the instrument.

        Raises:
            TrialFailed: the instrument cannot start; the trial fails with that reason.
            AgentError: an agent is lost or refuses the request.
        """
        ...

    def stop(self) -> Seen:
        """Stop the instrument and return its result. Raises the same errors as `start`."""
        ...

    def abandon(self) -> None:
        """Stop everything, whether started or not, even with lost agents; results are discarded. Never raises."""
        ...


@dataclass(frozen=True, slots=True)
class Part:
    """Owner of a called function: the measure or an instrument."""

    name: str
    """Name of the kind; the second and later instruments of a kind have a number, too."""
    package: str = OWN
    """Package that provides the measure or the instrument."""


def measure_beside(
    instruments: Mapping[str, Instrument],
    measure: Callable[[], Evidence],
    conclude: Callable[[Evidence, Readings], Measured],
    kind: Part = Part("the measure"),
    packages: Mapping[str, str] = MappingProxyType({}),
) -> Measured:
    """Measure while instruments run; return the result, including the instruments' results by name.

    `conclude` receives the return value of `measure`, and the kernels' counter readings from the instruments.
    `packages` names the packages of plug-in instruments; iolab's own instruments may be omitted. Instruments stop in
    reverse order of their start. On any error all running instruments are abandoned and the error is raised.
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
    except BaseException:  # also on an interrupt, because started programs would outlive the trial
        for name in reversed(running):
            with suppress(Exception):  # an error in a plug-in must not leave other instruments running
                instruments[name].abandon()
        raise
    readings = {kernel: own for name in instruments for kernel, own in seen[name].readings.items()}
    measured = call_part(kind, "conclude", partial(conclude, evidence, readings))
    return _with_seen(measured, {name: seen[name] for name in instruments})


def _stopped(instrument: Instrument, part: Part) -> Seen:
    seen: object = instrument.stop()
    if not isinstance(seen, Seen):
        raise TypeError(Phrase("registry.returned-other-type", type=class_of(seen), allowed="Seen"))
    if part.package != OWN:
        from iolab.trial.foreign_results import check_seen  # not needed for iolab's own instruments

        check_seen(part.name, part.package, seen)
    return seen


def call_part(part: Part, function: str, call: Callable[[], T]) -> T:
    """Call a function of a part; an exception that is not an error of iolab fails the trial.

    The reason names the package that provides the part; for iolab itself it is reported as a defect of iolab.
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
    """Whether an error is passed on unchanged.

    A plug-in package may report that the trial failed or that an agent is lost; it must not end the run in any other
    way.
    """
    if own:
        return isinstance(error, IolabError) or not isinstance(error, Exception | SystemExit)
    return isinstance(error, KeyboardInterrupt | Failed | AgentLost | BadAnswer)


def _with_seen(measured: Measured, seen: Mapping[str, Seen]) -> Measured:
    """Return a result with the instruments' results added, by name."""
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
    """Return the files of a trial. Raises Failed if two files have the same name, because one of them would be lost."""
    times = Counter(name for files in found for name in files)
    twice = tuple(name for name, count in times.items() if count > 1)
    if twice:
        raise Failed(FilesTwice(files=twice))
    return {name: data for files in found for name, data in files.items()}


def _metrics(found: Sequence[Metric]) -> Metrics:
    """Return the metrics of a trial. Raises Failed if two metrics have the same quantity, because they could not be
    told apart."""
    times = Counter(metric.quantity for metric in found)
    twice = tuple(str(quantity) for quantity, count in times.items() if count > 1)
    if twice:
        raise Failed(FiguresRefused(code="figures-twice", figures=twice))
    return Metrics(found)
