"""The functions of another package's row, guarded: what they raise, or return wrongly, becomes a message.

`measure` and `make` are called within a trial, which fails with the reason: `iolab.trial` guards them there.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from functools import partial
from pathlib import PurePath
from traceback import extract_tb
from typing import Any, TypeVar

from iolab.errors import IolabError, UnsupportedError
from iolab.locale import Phrase, Text
from iolab.printable import printable
from iolab.registry.rows import AnyInstrumentKind, AnyMeasureKind

LONGEST_WORDS = 1000
"""Of an error, so many letters are kept."""
LONGEST_CLASS = 80
LONGEST_NS = 366 * 86_400 * 1_000_000_000
"""Of one trial: a year."""
Row = TypeVar("Row", AnyMeasureKind, AnyInstrumentKind)


def place_of(error: BaseException) -> str:
    """Return the file and the line that raised an error."""
    place = extract_tb(error.__traceback__)[-1]
    return f"{PurePath(place.filename).name}:{place.lineno}"


def words_of(error: BaseException) -> Text:
    """Return what an error of another package's code says, in one printable text, whatever its `__str__` does."""
    try:
        said = str.__getitem__(str(error), slice(LONGEST_WORDS + 1))
    except (Exception, SystemExit) as broken:
        return Phrase("registry.message-unreadable", error=class_of(broken))
    shown = printable(said).encode(errors="backslashreplace").decode()
    return shown if len(said) <= LONGEST_WORDS else f"{shown[:LONGEST_WORDS]}..."


def class_of(value: object) -> str:
    """Return the name of a value's class, whatever a package called it."""
    return ascii(type(value).__name__[:LONGEST_CLASS])[1:-1]


def guarded(row: Row) -> Row:
    """Return a row whose functions that are called at planning raise nothing but errors of iolab."""
    present = (field.name for field in fields(row) if field.name in RESULTS)
    calls: dict[str, Any] = {name: partial(_call, row, name, getattr(row, name)) for name in present}
    return replace(row, **calls)


def _call(row: Row, name: str, function: Callable[..., object], *given: object) -> object:
    try:
        return RESULTS[name](function(*given))
    except IolabError:
        raise
    except (Exception, SystemExit) as error:
        raise UnsupportedError(
            Phrase(
                "registry.calling-kind-failed",
                function=repr(name),
                kind=repr(row.name),
                package=row.package,
                error_class=class_of(error),
                place=place_of(error),
                message=words_of(error),
            )
        ) from error


def _anything(result: object) -> object:
    return result


def _whole_ns(result: object) -> int:
    if not isinstance(result, int) or isinstance(result, bool):
        raise TypeError(f"it returned {type(result).__name__}, allowed is a whole number of nanoseconds")
    if not 0 <= result <= LONGEST_NS:
        raise ValueError(
            "it returned a negative time, or one of more than a year; allowed: 0 to one year [ns]"
        )
    return result


def _several(result: object) -> tuple[object, ...]:
    """Return all of them at once: a generator raises while it is read."""
    if isinstance(result, Iterable) and not isinstance(result, str):
        return tuple(result)
    raise TypeError(f"it returned {type(result).__name__}, allowed is a sequence")


def _words(result: object) -> tuple[object, ...]:
    found = _several(result)
    for one in found:
        if not isinstance(one, str):
            raise TypeError(f"it returned a sequence with {type(one).__name__}, allowed are texts")
    return found


RESULTS: Mapping[str, Callable[[object], object]] = {
    "duration_ns": _whole_ns, "check_names": _anything, "kernels": _words, "needs": _several, "check": _anything,
    "joined_by": _anything, "commands": _words,
}  # fmt: skip
"""Functions of rows that are called at planning, each with what makes sure of its result."""
