"""One measurement with all that stands beside it, as the rows of the kind and of the instruments say."""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from iolab.experiment.model.measures import Measure
from iolab.messages.failures import FiguresRefused, KindUnbuilt, NotMeasured
from iolab.registry.guard import class_of
from iolab.registry.registry import instrument_kinds, measure_kinds
from iolab.registry.rows import OWN, AnyMeasureKind
from iolab.trial.failed import Failed
from iolab.trial.in_effect import read_in_effect
from iolab.trial.instruments.instrument import Instrument, Part, call_part, measure_beside
from iolab.trial.lab_access import Site
from iolab.trial.measurement import Measured, Readings
from iolab.trial.methods import with_methods

MOST_WRONG = 3
"""Figures that are no numbers, as many as a failure names."""


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
