"""Check what a measure of another package returned: a wrong result fails its trial, with the package and the reason."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from iolab.messages.failures import (
    FieldRefused,
    NoFigures,
    RawNotJson,
    ResultProblem,
    ResultRefused,
    TooMany,
    UnitContradicts,
    WrongType,
)
from iolab.messages.warnings import TrialWarning
from iolab.registry.guard import LONGEST_NS, class_of, words_of
from iolab.results.metric import Dimensions, Metric, Metrics, unit_in
from iolab.results.packets import PacketTrial
from iolab.results.series import Series
from iolab.results.trial import CommandRecord
from iolab.results.verdict import Verdict
from iolab.trial.instruments.instrument import Seen
from iolab.trial.measurement import Failed, Measured

MAX_NAMED = 3
"""Problems of one result that a failure names."""
SHOWN_LETTERS = 40
"""Of a refused name, so many letters are shown."""
METRIC_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,79}", re.ASCII)
"""A column of CSV and Parquet, and a part of addresses."""
MAX_WORD = 200
"""Of units and of dimensions [letters]."""
MAX_ITEMS = 10_000
"""Of metrics, series and the like: a report has a row for each."""
MAX_RAW_BYTES = 64 << 20
"""As much as sixteen programs of which all output is kept."""
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}", re.ASCII)
"""The end of a name in the samples folder; it leads to no other folder."""
NUMBERS = frozenset({"builtins", "numpy"})
"""Modules whose numbers are what they seem: int and float, and those of NumPy."""
OF_MEASURED: Mapping[str, tuple[type, str]] = {
    "warnings": (TrialWarning, "TrialWarning"),
    "commands": (CommandRecord, "CommandRecord"),
    "series": (Series, "Series"),
}
OF_SEEN: Mapping[str, tuple[type, str]] = {
    "metrics": (Metric, "Metric"),
    "warnings": (TrialWarning, "TrialWarning"),
    "series": (Series, "Series"),
}
OPTIONAL: Mapping[str, tuple[type, str]] = {
    "verdict": (Verdict, "Verdict"),
    "packets": (PacketTrial, "PacketTrial"),
}
"""Field to what is in it, and how that is called."""


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
        yield WrongType(field="result", returned=class_of(returned), allowed="Measured")
        return
    metrics: object = returned.metrics
    if not isinstance(metrics, Metrics):
        yield WrongType(field="metrics", returned=class_of(metrics), allowed="Metrics")
        return
    if not len(metrics):
        yield NoFigures()
    if len(metrics) > MAX_ITEMS:
        yield TooMany(field="metrics", count=len(metrics), largest=MAX_ITEMS)
        return
    yield from _of_items("metrics", tuple(metrics), Metric, "Metric")
    yield from _of_time(returned.measured_ns)
    yield from _of_fields(returned, OF_MEASURED)
    yield from _of_in_effect(returned.in_effect)


def check_seen(kind: str, package: str, seen: Seen) -> None:
    """Check what an instrument of another package returned.

    Raises:
        Failed: it cannot be recorded.
    """
    problems = tuple(_of_fields(seen, OF_SEEN))
    if problems:
        raise Failed(ResultRefused(kind=kind, package=package, problems=problems[:MAX_NAMED]))


def _of_fields(returned: Measured | Seen, allowed: Mapping[str, tuple[type, str]]) -> Iterator[ResultProblem]:
    """Check fields that have several values, output and files."""
    for name, (item, word) in allowed.items():
        values: object = getattr(returned, name)
        if not isinstance(values, tuple):
            yield WrongType(field=name, returned=class_of(values), allowed=f"tuple of {word}")
        elif len(values) > MAX_ITEMS:
            yield TooMany(field=name, count=len(values), largest=MAX_ITEMS)
        else:
            yield from _of_items(name, values, item, word)
    for name, (item, word) in OPTIONAL.items():
        value = getattr(returned, name, None)
        if not isinstance(value, item | None):
            yield WrongType(field=name, returned=class_of(value), allowed=f"{word} or None")
    yield from _of_files(returned.files)
    yield from _of_raw(returned.raw)


def _of_items(name: str, values: tuple[object, ...], item: type, word: str) -> Iterator[ResultProblem]:
    for value in values:
        if not isinstance(value, item):
            yield WrongType(field=name, returned=class_of(value), allowed=word)
        elif isinstance(value, Metric):
            yield from _of_metric(value)
        elif isinstance(value, CommandRecord):
            yield from _of_command(value)


def _of_command(command: Any) -> Iterator[ResultProblem]:
    words: object = command.argv
    if not isinstance(words, tuple) or not all(isinstance(word, str) for word in words):
        yield WrongType(field="argv of commands", returned=class_of(words), allowed="tuple of str")
    if not isinstance(command.machine, str):
        yield WrongType(field="machine of commands", returned=class_of(command.machine), allowed="str")


def _of_files(files: object) -> Iterator[ResultProblem]:
    if not isinstance(files, Mapping):
        yield WrongType(field="files", returned=class_of(files), allowed="mapping of names to bytes")
        return
    for name, data in files.items():
        if not isinstance(name, str) or not FILE_NAME.fullmatch(name):
            yield FieldRefused(code="name-refused", field="end of a file's name", returned=_shown(name))
        elif not isinstance(data, bytes):
            yield WrongType(field=f"file {name}", returned=class_of(data), allowed="bytes")


def _of_in_effect(found: object) -> Iterator[ResultProblem]:
    places = found if isinstance(found, Mapping) else {None: None}
    words = [(place, own) for place, own in places.items() if _is_word(place) and isinstance(own, Mapping)]
    pairs = (pair for _, own in words for pair in own.items())
    if len(words) < len(places) or not all(_is_word(word) for pair in pairs for word in pair):
        allowed = "mapping of places to settings, in short words"
        yield WrongType(field="in_effect", returned=class_of(found), allowed=allowed)


def _of_time(measured_ns: object) -> Iterator[ResultProblem]:
    if not isinstance(measured_ns, int) or isinstance(measured_ns, bool):
        yield WrongType(field="measured_ns", returned=class_of(measured_ns), allowed="int")
    elif not 0 <= measured_ns <= LONGEST_NS:
        yield FieldRefused(code="time-impossible", field="measured_ns", returned=_shown(measured_ns))


def _of_metric(metric: Any) -> Iterator[ResultProblem]:
    if not isinstance(metric.name, str) or not METRIC_NAME.fullmatch(metric.name):
        yield FieldRefused(code="name-refused", field="metric name", returned=_shown(metric.name))
        return
    if not _is_word(metric.unit):
        yield FieldRefused(code="name-refused", field=f"unit of {metric.name}", returned=_shown(metric.unit))
        return
    if type(metric.value).__module__ not in NUMBERS or not _is_finite(metric.value):
        yield WrongType(field=metric.name, returned=_shown(metric.value), allowed="finite number")
    allowed = unit_in(metric.name)
    if allowed is not None and metric.unit != allowed:
        yield UnitContradicts(metric=metric.name, unit=metric.unit, allowed=allowed)
    if not isinstance(metric.dimensions, Dimensions):
        returned = class_of(metric.dimensions)
        yield WrongType(field=f"dimensions of {metric.name}", returned=returned, allowed="Dimensions")
        return
    for name, value in metric.dimensions.known().items():
        if isinstance(value, str) and not _is_word(value):
            yield FieldRefused(code="name-refused", field=f"{name} of {metric.name}", returned=_shown(value))


def _is_finite(value: Any) -> bool:
    try:
        return not isinstance(value, bool) and math.isfinite(value)
    except (TypeError, ValueError, OverflowError):
        return False


def _of_raw(raw: object) -> Iterator[ResultProblem]:
    try:
        size = len(json.dumps(raw, allow_nan=False, ensure_ascii=False).encode())
    except (TypeError, ValueError, RecursionError) as error:
        yield RawNotJson(said=str(words_of(error))[:MAX_WORD])
        return
    if size > MAX_RAW_BYTES:
        yield TooMany(field="bytes of raw output", count=size, largest=MAX_RAW_BYTES)


def _is_word(word: object) -> bool:
    return isinstance(word, str) and 0 < len(word) <= MAX_WORD and word.isprintable()


def _shown(value: object) -> str:
    """Return the beginning of a value in ASCII, whatever it is."""
    try:
        text = ascii(value)
    except Exception:  # an integer of more digits than Python converts, or a hostile __repr__
        return class_of(value)
    return text if len(text) <= SHOWN_LETTERS else f"{text[:SHOWN_LETTERS]}..."
