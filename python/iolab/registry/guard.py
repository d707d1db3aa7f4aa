"""Guard the functions of rows from other packages: their exceptions and invalid results become messages.

`iolab.trial` guards `measure` and `make`, which are called within a trial; if they raise an exception, the trial fails
with the reason.
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
"""Maximum length of an error message."""
LONGEST_CLASS = 80
LONGEST_NS = 366 * 86_400 * 1_000_000_000
"""Maximum duration of a trial: a year."""
Row = TypeVar("Row", AnyMeasureKind, AnyInstrumentKind)


def place_of(error: BaseException) -> str:
    """Return the file and line that raised an exception."""
    place = extract_tb(error.__traceback__)[-1]
    return f"{PurePath(place.filename).name}:{place.lineno}"


def words_of(error: BaseException) -> Text:
    """Return the message of a foreign package's exception as one printable text, whatever its `__str__` does."""
    try:
        said = str.__getitem__(str(error), slice(LONGEST_WORDS + 1))
    except (Exception, SystemExit) as broken:
        return Phrase("registry.message-unreadable", error=class_of(broken))
    shown = printable(said).encode(errors="backslashreplace").decode()
    return shown if len(said) <= LONGEST_WORDS else f"{shown[:LONGEST_WORDS]}..."


def class_of(value: object) -> str:
    """Return the class name of a value from a foreign package, whatever the package uses as the name."""
    return ascii(type(value).__name__[:LONGEST_CLASS])[1:-1]


def guarded(row: Row) -> Row:
    """Return a row whose planning functions raise only iolab errors."""
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


def _returned(value: object, allowed: Phrase) -> Phrase:
    return Phrase("registry.returned-other-type", type=type(value).__name__, allowed=allowed)


def _anything(result: object) -> object:
    return result


def _whole_ns(result: object) -> int:
    if not isinstance(result, int) or isinstance(result, bool):
        raise TypeError(_returned(result, Phrase("registry.whole-number-of-ns")))
    if not 0 <= result <= LONGEST_NS:
        raise ValueError(Phrase("registry.returned-impossible-time", time=result))
    return result


def _several(result: object) -> tuple[object, ...]:
    """Return all items as a list, because a generator could raise an exception later, during iteration."""
    if isinstance(result, Iterable) and not isinstance(result, str):
        return tuple(result)
    raise TypeError(_returned(result, Phrase("registry.a-sequence")))


def _words(result: object) -> tuple[object, ...]:
    found = _several(result)
    for one in found:
        if not isinstance(one, str):
            raise TypeError(_returned(one, Phrase("registry.a-sequence-of-texts")))
    return found


RESULTS: Mapping[str, Callable[[object], object]] = {
    "duration_ns": _whole_ns, "check_names": _anything, "kernels": _words, "needs": _several, "check": _anything,
    "joined_by": _anything, "commands": _words,
}  # fmt: skip
"""Functions of rows that are called during planning, each with the check of its result."""
