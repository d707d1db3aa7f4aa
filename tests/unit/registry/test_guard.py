"""Functions of another package's row that break: a message that names them, never a traceback."""

from collections.abc import Iterator
from typing import Any, Literal

import pytest

from iolab.errors import LabError, UnsupportedError
from iolab.experiment.model.measures import Measure
from iolab.registry.guard import guarded
from iolab.registry.rows import AnyMeasureKind, MeasureKind


class Ping(Measure):
    """A measure of another package."""

    kind: Literal["ping"] = "ping"
    """What is measured."""


def breaks(*_: object) -> None:
    """Raise what is no error of iolab."""
    raise KeyError("far")


def breaks_late(*_: object) -> Iterator[str]:
    """Raise while what it returned is read."""
    yield "far"
    breaks()


def row(name: str, function: object) -> AnyMeasureKind:
    """Return a guarded row with a function of that name."""
    functions: dict[str, Any] = {"duration_ns": lambda _: 1, name: function}
    return guarded(MeasureKind(model=Ping, measure=None, package="the package far 1.0", **functions))


@pytest.mark.parametrize(
    ("name", "function", "seen"),
    [
        ("check_names", breaks, "KeyError at test_guard.py:"),
        ("check", breaks, "KeyError at test_guard.py:"),
        ("needs", breaks, "KeyError at test_guard.py:"),
        ("joined_by", breaks, "KeyError at test_guard.py:"),
        ("duration_ns", breaks, "KeyError at test_guard.py:"),
        ("kernels", breaks_late, "KeyError at test_guard.py:"),
        ("duration_ns", lambda *_: "1s", "it returned str, allowed is a whole number of nanoseconds"),
        ("commands", lambda *_: "ping", "it returned str, allowed is a sequence"),
        ("kernels", lambda *_: [None], "it returned a sequence with NoneType, allowed are texts"),
    ],
)
def test_what_a_function_of_another_package_breaks_is_named(name: str, function: object, seen: str) -> None:
    """The function, the kind, the package, the place, and what to do."""
    with pytest.raises(UnsupportedError) as caught:
        getattr(row(name, function), name)(Ping())
    told = str(caught.value)
    assert told.startswith(f"{name!r} of kind 'ping' from the package far 1.0 raised ")
    assert seen in told
    assert told.endswith("fix, update or uninstall that package")


def test_what_is_raised_on_purpose_and_returned_rightly_passes() -> None:
    """An error of iolab is the function's own word."""

    def refuse(*_: object) -> None:
        raise LabError("no way leads there")

    call: Any = row("check", refuse).check
    with pytest.raises(LabError, match="no way leads there"):
        call(Ping())
    call = row("kernels", lambda *_: iter(("far",))).kernels
    assert call(Ping()) == ("far",)
