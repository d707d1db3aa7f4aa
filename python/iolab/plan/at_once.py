"""Measures that are taken at once: when each of them begins, and how long all of them take."""

from iolab.experiment.experiment import Setup
from iolab.experiment.model.measures import Measure
from iolab.registry.registry import measure_kinds


def parts_of(setup: Setup, measure: str) -> dict[str, int]:
    """Return the measures that are taken at once with one in a cell, itself among them, in their order.

    Each with when it begins, after the first of them [ns].
    """
    for taker in setup.measures.values():
        parts = _parts(taker)
        if measure in parts:
            own = {
                name: offset
                for name, offset in parts.items()
                if offset is not None and name in setup.measures
            }
            first = min(own.values())
            return {name: offset - first for name, offset in own.items()}
    return {measure: 0}


def span_ns(setup: Setup, measure: str) -> int:
    """Return how long measures take that are taken at once [ns]: the whole for the first of them, 0 for others."""
    begins = parts_of(setup, measure)
    if next(iter(begins)) != measure:
        return 0
    return max(begin + duration_ns(setup.measures[name]) for name, begin in begins.items())


def duration_ns(measure: Measure) -> int:
    """Return how long a measure takes by itself [ns]."""
    return measure_kinds()[measure.kind].duration_ns(measure)


def _parts(measure: Measure) -> dict[str, int | None]:
    of = measure_kinds()[measure.kind].parts
    return {} if of is None else dict(of(measure))
