"""Entry points of other packages: a broken one is reported with its package."""

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
    """Kind name."""


class Taken(Measure):
    """Has the name of a built-in kind."""

    kind: Literal["stream"]
    """Kind name."""


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
    """Create an invalid row."""
    return row(Unnamed)


def point(attribute: str, module: str = __name__) -> EntryPoint:
    """Return an entry point of this module."""
    return EntryPoint(name="x", value=f"{module}:{attribute}", group=MEASURES)


def test_kind_from_another_package_is_listed_after_iolabs_kinds() -> None:
    """Use the name of its model."""
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
    ids=["duplicate name", "not a row", "missing attribute", "missing module"],
)
def test_broken_entry_point_is_refused_with_its_location_and_a_remedy(broken: EntryPoint, seen: str) -> None:
    """Refuse it, because the experiment would get a different meaning."""
    with pytest.raises(UnsupportedError) as told:
        joined(measure_kinds().values(), [broken], MeasureKind)
    assert str(told.value).startswith(
        f"cannot load the entry point 'x' of group iolab.measures from {broken.value}: "
    )
    assert seen in str(told.value)


def test_method_versions_of_a_row_must_be_positive_integers() -> None:
    """Refuse other values, because a record could not be read."""
    found = joined(measure_kinds().values(), [point("VERSIONED")], MeasureKind)
    assert found["knock"].methods == {"knocks_per_s": 2}
    for wrong in ("ZERO", "YES", "TEXT", "LISTED"):
        with pytest.raises(
            UnsupportedError,
            match=r"the value of `methods` is .*; map each metric to an integer version, 1 or higher",
        ):
            joined(measure_kinds().values(), [point(wrong)], MeasureKind)


def test_duplicate_kind_name_is_refused_and_both_packages_are_named() -> None:
    """Let neither take precedence."""
    with pytest.raises(
        UnsupportedError, match=r"'ping' is already used by tests.unit.registry.test_registry:PING|PING"
    ):
        joined(measure_kinds().values(), [point("PING"), point("PING")], MeasureKind)


def test_row_without_a_kind_name_raises_type_error() -> None:
    """Take the kind's name from its model only."""
    with pytest.raises(TypeError, match=r"Unnamed has no field `kind: Literal"):
        unnamed()


def test_every_measuring_program_has_a_package() -> None:
    """Define the programs that hosts are checked for and images contain."""
    assert programs()["iperf3"] == "iperf3"


def test_built_in_kinds_and_instruments_are_registered_as_rows() -> None:
    """Use the language's names."""
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


def test_every_function_that_a_row_names_exists() -> None:
    """Import it only when it is called."""
    rows: list[Any] = [*measure_kinds().values(), *instrument_kinds().values()]
    values = [getattr(row, each.name) for row in rows for each in fields(row)]
    named = [value.name for value in values if isinstance(value, Later)]
    assert len(named) >= 16
    assert all(callable(resolve_name(name)) for name in named)
