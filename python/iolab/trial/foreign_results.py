"""Check the result of a plug-in measure: an invalid result fails the trial, with the package and the reason."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from iolab.locale import Phrase
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
"""Maximum number of problems that a failure names."""
SHOWN_LETTERS = 40
"""Maximum number of characters shown of a refused name."""
METRIC_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,79}", re.ASCII)
"""Pattern of a metric name, which becomes a column of CSV and Parquet files and a part of URLs."""
MAX_WORD = 200
"""Maximum length of units and dimensions [characters]."""
MAX_ITEMS = 10_000
"""Maximum number of metrics, of series and so on: a report has a row for each of them."""
MAX_RAW_BYTES = 64 << 20
"""Maximum size of raw data: sixteen times the kept output of a program [bytes]."""
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}", re.ASCII)
"""Suffix of a file name in the samples folder; it cannot lead to a different folder."""
NUMBERS = frozenset({"builtins", "numpy"})
"""Modules whose number types are accepted: int and float of Python, and the types of NumPy."""
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
"""Type of each optional field's content, and the name of this type in messages."""


def checked(kind: str, package: str, returned: object) -> Measured:
    """Return the result of a plug-in measure after checking that it can be recorded.

    Raises:
        Failed: the result is invalid.
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
    """Check the result of a plug-in instrument.

    Raises:
        Failed: the result is invalid.
    """
    problems = tuple(_of_fields(seen, OF_SEEN))
    if problems:
        raise Failed(ResultRefused(kind=kind, package=package, problems=problems[:MAX_NAMED]))


def _of_fields(returned: Measured | Seen, allowed: Mapping[str, tuple[type, str]]) -> Iterator[ResultProblem]:
    """Yield problems of fields with several values, raw data and files."""
    for name, (item, word) in allowed.items():
        values: object = getattr(returned, name)
        if not isinstance(values, tuple):
            yield WrongType(field=name, returned=class_of(values), allowed=_tuple_of(word))
        elif len(values) > MAX_ITEMS:
            yield TooMany(field=name, count=len(values), largest=MAX_ITEMS)
        else:
            yield from _of_items(name, values, item, word)
    for name, (item, word) in OPTIONAL.items():
        value = getattr(returned, name, None)
        if not isinstance(value, item | None):
            allowed_type = str(Phrase("trial.type-or-none", type=word))
            yield WrongType(field=name, returned=class_of(value), allowed=allowed_type)
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
        yield WrongType(field=_part("argv", "commands"), returned=class_of(words), allowed=_tuple_of("str"))
    if not isinstance(command.machine, str):
        field = _part("machine", "commands")
        yield WrongType(field=field, returned=class_of(command.machine), allowed="str")


def _of_files(files: object) -> Iterator[ResultProblem]:
    if not isinstance(files, Mapping):
        allowed = str(Phrase("trial.mapping-of-names"))
        yield WrongType(field="files", returned=class_of(files), allowed=allowed)
        return
    for name, data in files.items():
        if not isinstance(name, str) or not FILE_NAME.fullmatch(name):
            field = str(Phrase("trial.end-of-file-name"))
            yield FieldRefused(code="name-refused", field=field, returned=_shown(name))
        elif not isinstance(data, bytes):
            field = str(Phrase("trial.named-file", name=name))
            yield WrongType(field=field, returned=class_of(data), allowed="bytes")


def _of_in_effect(found: object) -> Iterator[ResultProblem]:
    places = found if isinstance(found, Mapping) else {None: None}
    words = [(place, own) for place, own in places.items() if _is_word(place) and isinstance(own, Mapping)]
    pairs = (pair for _, own in words for pair in own.items())
    if len(words) < len(places) or not all(_is_word(word) for pair in pairs for word in pair):
        allowed = str(Phrase("trial.mapping-of-settings"))
        yield WrongType(field="in_effect", returned=class_of(found), allowed=allowed)


def _of_time(measured_ns: object) -> Iterator[ResultProblem]:
    if not isinstance(measured_ns, int) or isinstance(measured_ns, bool):
        yield WrongType(field="measured_ns", returned=class_of(measured_ns), allowed="int")
    elif not 0 <= measured_ns <= LONGEST_NS:
        yield FieldRefused(code="time-impossible", field="measured_ns", returned=_shown(measured_ns))


def _of_metric(metric: Any) -> Iterator[ResultProblem]:
    if not isinstance(metric.name, str) or not METRIC_NAME.fullmatch(metric.name):
        field = str(Phrase("trial.metric-name"))
        yield FieldRefused(code="name-refused", field=field, returned=_shown(metric.name))
        return
    if not _is_word(metric.unit):
        field = _part("unit", metric.name)
        yield FieldRefused(code="name-refused", field=field, returned=_shown(metric.unit))
        return
    if type(metric.value).__module__ not in NUMBERS or not _is_finite(metric.value):
        number = str(Phrase("trial.finite-number"))
        yield WrongType(field=metric.name, returned=_shown(metric.value), allowed=number)
    allowed = unit_in(metric.name)
    if allowed is not None and metric.unit != allowed:
        yield UnitContradicts(metric=metric.name, unit=metric.unit, allowed=allowed)
    if not isinstance(metric.dimensions, Dimensions):
        field, returned = _part("dimensions", metric.name), class_of(metric.dimensions)
        yield WrongType(field=field, returned=returned, allowed="Dimensions")
        return
    for name, value in metric.dimensions.known().items():
        if isinstance(value, str) and not _is_word(value):
            field = _part(name, metric.name)
            yield FieldRefused(code="name-refused", field=field, returned=_shown(value))


def _part(part: str, whole: str) -> str:
    return str(Phrase("trial.part-of-result", part=part, whole=whole))


def _tuple_of(item: str) -> str:
    return str(Phrase("trial.tuple-of", type=item))


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
        field = str(Phrase("trial.bytes-of-raw-output"))
        yield TooMany(field=field, count=size, largest=MAX_RAW_BYTES)


def _is_word(word: object) -> bool:
    return isinstance(word, str) and 0 < len(word) <= MAX_WORD and word.isprintable()


def _shown(value: object) -> str:
    """Return the start of a value in ASCII, for any value."""
    try:
        text = ascii(value)
    except Exception:  # an integer too long for conversion, or a hostile __repr__
        return class_of(value)
    return text if len(text) <= SHOWN_LETTERS else f"{text[:SHOWN_LETTERS]}..."
