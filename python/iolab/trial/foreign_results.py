"""Check what a measure of another package returned: a wrong result fails its trial, with the package and the reason."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from iolab.parts.guard import LONGEST_NS
from iolab.record.dimensions import Dimensions
from iolab.record.metric import Metrics
from iolab.statements.failures import (
    NameRefused,
    NoFigures,
    RawNotJson,
    ResultProblem,
    ResultRefused,
    TimeImpossible,
    UnitContradicts,
    WrongType,
)
from iolab.statements.warnings import Warning
from iolab.trial.failed import Failed
from iolab.trial.measurement import Measured

MAX_NAMED = 3
"""Problems of one result that a failure names."""
SHOWN_LETTERS = 40
"""Of a refused name, so many letters are shown."""
METRIC_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,79}", re.ASCII)
"""A column of CSV and Parquet, and a part of addresses."""
MAX_WORD = 200
"""Of units and of dimensions [letters]."""
UNITS: Mapping[str, str] = {
    "_bps": "bit/s",
    "_fps": "frame/s",
    "_ns": "ns",
    "_us": "us",
    "_ms": "ms",
    "_ratio": "ratio",
    "_bytes": "byte",
    "_bytes_per_s": "byte/s",
}
"""End of a metric's name to its unit; a name that ends otherwise says nothing of it."""


def checked(kind: str, package: str, returned: object) -> Measured:
    """Return what a measure of another package returned, if it can be recorded.

    Raises:
        Failed: it cannot.
    """
    problems = tuple(_problems(returned))
    if problems:
        raise Failed(ResultRefused(kind=kind, package=package, problems=problems[:MAX_NAMED]))
    assert isinstance(returned, Measured)
    return returned


def _problems(returned: Any) -> Iterator[ResultProblem]:
    if not isinstance(returned, Measured):
        yield WrongType(field="result", returned=type(returned).__name__, allowed="Measured")
        return
    metrics: object = returned.metrics
    if not isinstance(metrics, Metrics):
        yield WrongType(field="metrics", returned=type(metrics).__name__, allowed="Metrics")
        return
    if not len(metrics):
        yield NoFigures()
    for metric in metrics:
        yield from _of_metric(metric)
    yield from _of_time(returned.measured_ns)
    warnings: tuple[object, ...] = returned.warnings
    for warning in warnings:
        if not isinstance(warning, Warning):
            yield WrongType(field="warnings", returned=type(warning).__name__, allowed="Warning")
    yield from _of_raw(returned.raw)


def _of_time(measured_ns: object) -> Iterator[ResultProblem]:
    if not isinstance(measured_ns, int) or isinstance(measured_ns, bool):
        yield WrongType(field="measured_ns", returned=type(measured_ns).__name__, allowed="int")
    elif not 0 <= measured_ns <= LONGEST_NS:
        yield TimeImpossible(field="measured_ns", returned=_shown(measured_ns))


def _of_metric(metric: Any) -> Iterator[ResultProblem]:
    if not isinstance(metric.name, str) or not METRIC_NAME.fullmatch(metric.name):
        yield NameRefused(field="metric name", returned=_shown(metric.name))
        return
    if not _is_word(metric.unit):
        yield NameRefused(field=f"unit of {metric.name}", returned=_shown(metric.unit))
        return
    allowed = unit_in(metric.name)
    if allowed is not None and metric.unit != allowed:
        yield UnitContradicts(metric=metric.name, unit=metric.unit, allowed=allowed)
    if not isinstance(metric.dimensions, Dimensions):
        returned = type(metric.dimensions).__name__
        yield WrongType(field=f"dimensions of {metric.name}", returned=returned, allowed="Dimensions")
        return
    for name, value in metric.dimensions.known().items():
        if isinstance(value, str) and not _is_word(value):
            yield NameRefused(field=f"{name} of {metric.name}", returned=_shown(value))


def _of_raw(raw: object) -> Iterator[ResultProblem]:
    try:
        json.dumps(raw, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        yield RawNotJson(said=str(error)[:MAX_WORD])


def unit_in(name: str) -> str | None:
    """Return the unit that the end of a metric's name says; None: it says none."""
    ends = [end for end in UNITS if name.endswith(end)]
    return UNITS[max(ends, key=len)] if ends else None


def _is_word(word: object) -> bool:
    return isinstance(word, str) and 0 < len(word) <= MAX_WORD and word.isprintable()


def _shown(value: object) -> str:
    """Return the beginning of a value in ASCII, whatever it is."""
    try:
        text = ascii(value)
    except (ValueError, RecursionError):  # an integer of more digits than Python converts
        return type(value).__name__
    return text if len(text) <= SHOWN_LETTERS else f"{text[:SHOWN_LETTERS]}..."
