"""Run one measurement, or several in parallel, with all their instruments, as the rows of their kinds declare.

Each of several parallel measures runs in a separate thread, as if it were alone.
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
"""Maximum number of non-finite metrics that a failure names."""
Measures = Callable[[Site, Measure], Measured]
"""Function that measures once; raises the same errors as `measure_once`."""


@dataclass(frozen=True, slots=True)
class TimedPart:
    """A measure that runs in parallel with others."""

    measure: Measure
    """The measure."""
    begin_ns: int
    """Time from the start of the first measure to the start of this one [ns]."""


def measure_once(site: Site, measure: Measure) -> Measured:
    """Run one measurement.

    Raises:
        TrialFailed: the measure or an instrument failed; no program is left running.
        AgentError: the connection to an agent is lost.
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
    """Return the data that a kind of measure reads, or a `Measured` if the kind derives no results from counters."""
    assert kind.measure is not None
    evidence: object = kind.measure(site, measure)
    return evidence if kind.conclude is not None else _checked(kind, evidence)


def _concluded(kind: AnyMeasureKind, evidence: Any, readings: Readings) -> Measured:
    return evidence if kind.conclude is None else _checked(kind, kind.conclude(evidence, readings))


def _checked(kind: AnyMeasureKind, returned: object) -> Measured:
    """Return the result of a kind after checking it. Raises Failed."""
    if kind.package != OWN:
        from iolab.trial.foreign_results import checked  # not needed for iolab's own kinds

        return checked(kind.name, kind.package, returned)
    if not isinstance(returned, Measured):
        raise Failed(NotMeasured(kind=kind.name, returned=class_of(returned)))
    return returned


def instruments_of(site: Site, measure: Measure) -> Mapping[str, Instrument]:
    """Return the instruments of a measure, not yet started, by name: the name is the kind, with a number from the
    second instrument of a kind on."""
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
    """Return the kind of an instrument from its name."""
    return name.partition("#")[0]


def measure_at_once(
    site: Site, parts: Mapping[str, TimedPart], measure: Measures
) -> Mapping[str, Measured | Failure]:
    """Run all parts in parallel; return the result or failure of each, by name.

    If one part fails, the other parts fail too, because they did not run under the requested load.

    Raises:
        LabUnusable: the lab of one part is unusable, so it is removed for all.
        AgentError: the connection to an agent is lost.
    """
    given: dict[str, Measured] = {}
    raised: dict[str, BaseException] = {}

    def take(name: str, part: TimedPart) -> None:
        threading.Event().wait(part.begin_ns / NS_PER_S)
        try:
            given[name] = _later(measure(replace(site, part=name), part.measure), part.begin_ns)
        except BaseException as error:
            raised[name] = error

    # Daemon threads: an interrupt ends the agents, which ends the waiting threads.
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
    # If a disk hangs, its guest is powered off: other parts lose that guest's agent for this reason.
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
    """Return a result with its series shifted to the common time of all parts."""
    from iolab.results.series import Over  # loads numpy

    return replace(
        measured,
        series=tuple(
            replace(each, at_ns=each.at_ns + begin_ns) if each.over is Over.TIME else each
            for each in measured.series
        ),
    )
