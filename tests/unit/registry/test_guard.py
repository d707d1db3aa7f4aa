"""Failing functions of another package's row: a message that names them, never a traceback."""

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
    """Kind name."""


def breaks(*_: object) -> None:
    """Raise an error that is not iolab's."""
    raise KeyError("far")


def breaks_late(*_: object) -> Iterator[str]:
    """Raise an error while the returned iterator is read."""
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
        ("duration_ns", lambda *_: "1s", "the function returned str; allowed: a whole number of nanoseconds"),
        ("commands", lambda *_: "ping", "the function returned str; allowed: a sequence"),
        ("kernels", lambda *_: [None], "the function returned NoneType; allowed: a sequence of texts"),
    ],
)
def test_exception_in_a_plugin_function_is_reported_with_function_kind_and_package(
    name: str, function: object, seen: str
) -> None:
    """Name function, kind, package and place, with a remedy."""
    with pytest.raises(UnsupportedError) as caught:
        getattr(row(name, function), name)(Ping())
    told = str(caught.value)
    assert told.startswith(f"{name!r} of kind 'ping' from the package far 1.0 raised ")
    assert seen in told
    assert told.endswith("fix, update or uninstall that package")


def test_plugin_function_may_raise_iolab_errors_and_return_valid_values() -> None:
    """Pass iolab errors through."""

    def refuse(*_: object) -> None:
        raise LabError("no way leads there")

    call: Any = row("check", refuse).check
    with pytest.raises(LabError, match="no way leads there"):
        call(Ping())
    call = row("kernels", lambda *_: iter(("far",))).kernels
    assert call(Ping()) == ("far",)
