"""A measurement with all that stands beside it, as the rows of its kind and of the instruments say; or several at once.

Of several each measures as if it stood alone, in a thread of its own.
"""

import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from iolab.errors import InputError, LabError, TrialFailed
from iolab.experiment.model.measures import Measure
from iolab.messages.failures import Failure, FiguresRefused, KindUnbuilt, NotMeasured, OneAtOnceFailed
from iolab.registry.guard import class_of
from iolab.registry.registry import instrument_kinds, measure_kinds
from iolab.registry.rows import OWN, AnyMeasureKind
from iolab.trial.in_effect import read_in_effect
from iolab.trial.instruments.instrument import Instrument, Part, call_part, measure_beside
from iolab.trial.lab_access import Site
from iolab.trial.measurement import Failed, LabUnusable, Measured, Readings, failure_of
from iolab.trial.methods import with_methods
from iolab.units import NS_PER_S

MOST_WRONG = 3
"""Figures that are no numbers, as many as a failure names."""
Measures = Callable[[Site, Measure], Measured]
"""Measures once; raises as `measure_once` does."""


@dataclass(frozen=True, slots=True)
class TimedPart:
    """A measure among others."""

    measure: Measure
    """What is measured."""
    begin_ns: int
    """When it begins, after the first of them [ns]."""


def measure_once(site: Site, measure: Measure) -> Measured:
    """Measure once.

    Raises:
        TrialFailed: the measure, or an instrument, could not do its part; nothing goes on running.
        AgentError: an agent is gone.
    """
    kind = measure_kinds()[measure.kind]
    if kind.measure is None:
        raise Failed(KindUnbuilt(kind=kind.name))
    instruments = instruments_of(site, measure)
    packages = {name: instrument_kinds()[kind_of(name)].package for name in instruments}
    measured = measure_beside(
        instruments, partial(_evidence, kind, site, measure), partial(_concluded, kind),
        Part(kind.name, kind.package), packages,
    )  # fmt: skip
    if not measured.in_effect:
        measured = replace(measured, in_effect=read_in_effect(site))
    if wrong := [str(metric.quantity) for metric in measured.metrics if not math.isfinite(metric.value)]:
        raise Failed(FiguresRefused(code="figures-not-finite", figures=tuple(wrong[:MOST_WRONG])))
    return replace(measured, metrics=with_methods(measured.metrics, kind.name))


def _evidence(kind: AnyMeasureKind, site: Site, measure: Measure) -> object:
    """Return what a kind reads: a `Measured` where it concludes nothing from counters."""
    assert kind.measure is not None
    evidence: object = kind.measure(site, measure)
    return evidence if kind.conclude is not None else _checked(kind, evidence)


def _concluded(kind: AnyMeasureKind, evidence: Any, readings: Readings) -> Measured:
    return evidence if kind.conclude is None else _checked(kind, kind.conclude(evidence, readings))


def _checked(kind: AnyMeasureKind, returned: object) -> Measured:
    """Return what a kind returned, if it can be recorded. Raises Failed."""
    if kind.package != OWN:
        from iolab.trial.foreign_results import checked  # of iolab's own kinds nobody needs it

        return checked(kind.name, kind.package, returned)
    if not isinstance(returned, Measured):
        raise Failed(NotMeasured(kind=kind.name, returned=class_of(returned)))
    return returned


def instruments_of(site: Site, measure: Measure) -> Mapping[str, Instrument]:
    """Return what stands beside a measure, not yet started, by name: its kind, with a number from the second on."""
    found: dict[str, Instrument] = {}
    for asked in measure.beside():
        row = instrument_kinds()[asked.kind]
        if row.make is None:
            raise Failed(KindUnbuilt(kind=row.name))
        same = sum(kind_of(name) == row.name for name in found)
        name = f"{row.name}#{same + 1}" if same else row.name
        found[name] = call_part(Part(name, row.package), "make", partial(row.make, site, asked))
    return found


def kind_of(name: str) -> str:
    """Return the kind of an instrument by its name."""
    return name.partition("#")[0]


def measure_at_once(
    site: Site, parts: Mapping[str, TimedPart], measure: Measures
) -> Mapping[str, Measured | Failure]:
    """Measure all parts, by their names; return what each gave, or why it failed.

    Where one fails the figures of the others are of something else than was asked for: they fail with it.

    Raises:
        LabUnusable: the lab of one cannot be measured on again, so it is taken down for all.
        AgentError: an agent is gone.
    """
    given: dict[str, Measured] = {}
    raised: dict[str, BaseException] = {}

    def take(name: str, part: TimedPart) -> None:
        threading.Event().wait(part.begin_ns / NS_PER_S)
        try:
            given[name] = _later(measure(replace(site, part=name), part.measure), part.begin_ns)
        except BaseException as error:
            raised[name] = error

    # Daemons: an interrupt ends the agents, and what waits for them ends with that.
    threads = [
        threading.Thread(target=take, args=(name, part), name=name, daemon=True)
        for name, part in parts.items()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return _outcomes(tuple(parts), given, raised)


def _outcomes(
    names: tuple[str, ...], given: Mapping[str, Measured], raised: Mapping[str, BaseException]
) -> Mapping[str, Measured | Failure]:
    # The guest of one whose disk hangs is powered off: its agent is lost to the others for that reason.
    unusable = next((error for error in raised.values() if isinstance(error, LabUnusable)), None)
    if unusable is not None:
        raise unusable
    found: dict[str, Failure] = {}
    for name, error in raised.items():
        if not isinstance(error, TrialFailed | LabError | InputError):
            raise error
        found[name] = failure_of(error)
    if not found:
        return {name: given[name] for name in names}
    first = next(name for name in names if name in found)
    return {name: found.get(name, OneAtOnceFailed(measure=first)) for name in names}


def _later(measured: Measured, begin_ns: int) -> Measured:
    """Return a measurement with its series on the time of all parts."""
    from iolab.results.series import Over  # loads numpy

    return replace(
        measured,
        series=tuple(
            replace(each, at_ns=each.at_ns + begin_ns) if each.over is Over.TIME else each
            for each in measured.series
        ),
    )
