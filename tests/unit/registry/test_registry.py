"""Parts of other packages: found by their entry points; a broken one says so, and whose it is."""

from dataclasses import fields, replace
from importlib.metadata import EntryPoint
from pkgutil import resolve_name
from typing import Any, Literal

import pytest

from iolab.errors import UnsupportedError
from iolab.experiment.model.measures import Measure
from iolab.registry.registry import MEASURES, instrument_kinds, joined, measure_kinds, programs
from iolab.registry.rows import AnyMeasureKind, Later, MeasureKind


class Ping(Measure):
    """A measure of another package."""

    kind: Literal["knock"]
    """What is measured."""


class Taken(Measure):
    """Has the name of one of iolab's own."""

    kind: Literal["stream"]
    """What is measured."""


class Unnamed(Measure):
    """Has no name."""


def row(model: type[Measure]) -> AnyMeasureKind:
    """Return the row of a model."""
    return MeasureKind(model=model, duration_ns=lambda _: 1, measure=None)


PING, TAKEN = row(Ping), row(Taken)
NO_ROW = "a text"
VERSIONED, ZERO, YES, TEXT = (replace(PING, methods={"knocks_per_s": of}) for of in (2, 0, True, "2"))  # type: ignore[dict-item]
LISTED = replace(PING, methods=["knocks_per_s"])  # type: ignore[arg-type]


def unnamed() -> AnyMeasureKind:
    """Make a row that cannot be made."""
    return row(Unnamed)


def point(attribute: str, module: str = __name__) -> EntryPoint:
    """Return an entry point of this module."""
    return EntryPoint(name="x", value=f"{module}:{attribute}", group=MEASURES)


def test_a_part_of_another_package_stands_after_iolabs_own() -> None:
    """By the name of its model."""
    found = joined(measure_kinds().values(), [point("PING")], MeasureKind)
    assert list(found)[-1] == "knock"
    assert next(iter(found)) == "stream"


@pytest.mark.parametrize(
    ("broken", "seen"),
    [
        (point("TAKEN"), "the name 'stream' is already used by iolab itself; choose a different name"),
        (
            point("NO_ROW"),
            "the object has the type str; provide an object of type iolab.registry.rows.MeasureKind",
        ),
        (point("ABSENT"), "AttributeError"),
        (
            point("X", "no_such_module"),
            "ModuleNotFoundError: No module named 'no_such_module'; fix, update or uninstall",
        ),
    ],
    ids=["a taken name", "no row", "nothing there", "no module"],
)
def test_a_broken_part_is_refused_with_its_place_and_what_to_do(broken: EntryPoint, seen: str) -> None:
    """An experiment is never read with another meaning than it had where it was written."""
    with pytest.raises(UnsupportedError) as told:
        joined(measure_kinds().values(), [broken], MeasureKind)
    assert str(told.value).startswith(
        f"cannot load the entry point 'x' of group iolab.measures from {broken.value}: "
    )
    assert seen in str(told.value)


def test_a_row_may_state_the_versions_of_its_methods() -> None:
    """Whole numbers from 1: a record with another one could not be read."""
    found = joined(measure_kinds().values(), [point("VERSIONED")], MeasureKind)
    assert found["knock"].methods == {"knocks_per_s": 2}
    for wrong in ("ZERO", "YES", "TEXT", "LISTED"):
        with pytest.raises(
            UnsupportedError,
            match=r"the value of `methods` is .*; map each metric to an integer version, 1 or higher",
        ):
            joined(measure_kinds().values(), [point(wrong)], MeasureKind)


def test_two_packages_with_one_name_are_both_named() -> None:
    """Neither silently wins."""
    with pytest.raises(
        UnsupportedError, match=r"'ping' is already used by tests.unit.registry.test_registry:PING|PING"
    ):
        joined(measure_kinds().values(), [point("PING"), point("PING")], MeasureKind)


def test_a_row_without_a_kind_cannot_be_made() -> None:
    """Its model says the kind's name once."""
    with pytest.raises(TypeError, match=r"Unnamed has no field `kind: Literal"):
        unnamed()


def test_every_program_that_measures_has_its_package() -> None:
    """Which hosts are asked for, and images have."""
    assert programs()["iperf3"] == "iperf3"


def test_iolabs_own_kinds_and_instruments_are_rows_too() -> None:
    """Named as the language names them."""
    assert list(measure_kinds()) == [
        "stream",
        "forwarding",
        "load-curve",
        "latency",
        "disk",
        "command",
        "ping",
        "rr",
        "together",
    ]
    assert list(instrument_kinds()) == ["samplers", "queues", "wires", "watch", "capture", "profile"]


def test_every_function_that_a_row_names_is_there() -> None:
    """It is imported only when it is called."""
    rows: list[Any] = [*measure_kinds().values(), *instrument_kinds().values()]
    values = [getattr(row, each.name) for row in rows for each in fields(row)]
    named = [value.name for value in values if isinstance(value, Later)]
    assert len(named) >= 16
    assert all(callable(resolve_name(name)) for name in named)
