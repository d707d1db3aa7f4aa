"""Find registered parts: iolab's own in two tables, those of other packages through their entry points.

[project.entry-points."iolab.measures"] knock = "mypackage.knock:KNOCK"

A part that cannot be loaded stops the program with a message that names its package, so that an experiment never
silently changes its meaning.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from traceback import walk_tb
from typing import TypeVar

from iolab.errors import UnsupportedError
from iolab.locale import Phrase, Text
from iolab.registry.guard import guarded
from iolab.registry.rows import OWN, AnyInstrumentKind, AnyMeasureKind, InstrumentKind, MeasureKind

MEASURES, INSTRUMENTS = "iolab.measures", "iolab.instruments"
"""Groups of entry points."""
Row = TypeVar("Row", AnyMeasureKind, AnyInstrumentKind)
Own = Callable[[], tuple[Sequence[AnyMeasureKind], Sequence[AnyInstrumentKind]]]
"""Function that returns iolab's own rows, called when a kind is first used, because importing the rows of higher
layers is slow."""
_own: list[Own] = []


def provide(own: Own) -> None:
    """Set the function that returns iolab's own rows.

    Call this function once per program, before an experiment is read (`iolab.own_kinds`).
    """
    _own[:] = [own]


@cache
def _own_rows() -> tuple[Sequence[AnyMeasureKind], Sequence[AnyInstrumentKind]]:
    if not _own:
        raise LookupError(
            "asking for kinds: none are provided; call iolab.own_kinds.provide_own_kinds() first"
        )
    return _own[0]()


def installed(group: str) -> list[EntryPoint]:
    """Return the entry points of installed packages in a group."""
    return [point for point in every_installed() if point.group == group]


@cache
def every_installed() -> tuple[EntryPoint, ...]:
    """Return the entry points of installed packages in both groups, reading each package's metadata only once."""
    every = entry_points()
    return tuple(point for group in (MEASURES, INSTRUMENTS) for point in every.select(group=group))


@cache
def measure_kinds() -> Mapping[str, AnyMeasureKind]:
    """Return all kinds of measures by name, iolab's own first. Raises UnsupportedError."""
    return joined(_own_rows()[0], installed(MEASURES), MeasureKind)


@cache
def instrument_kinds() -> Mapping[str, AnyInstrumentKind]:
    """Return all kinds of instruments by name, iolab's own first. Raises UnsupportedError."""
    return joined(_own_rows()[1], installed(INSTRUMENTS), InstrumentKind)


def programs() -> dict[str, str]:
    """Return all programs of measures and instruments, each with its Debian package."""
    return guest_programs() | _on_hosts(measure_kinds().values())


def guest_programs() -> dict[str, str]:
    """Return the programs that guest images contain."""
    return _programs((*measure_kinds().values(), *instrument_kinds().values()))


def own_programs() -> dict[str, str]:
    """Return the programs of iolab's own rows."""
    return own_guest_programs() | _on_hosts(_own_rows()[0])


def own_guest_programs() -> dict[str, str]:
    """Return the programs of iolab's own rows that guest images contain."""
    return _programs((*_own_rows()[0], *_own_rows()[1]))


def package_behind(error: BaseException) -> str | None:
    """Return the package of a row in whose code an exception arose; None if the exception arose in iolab.

    If code of both the package and iolab is involved, for example with an invalid argument from the package, return the
    package.
    """
    rows: tuple[AnyMeasureKind | AnyInstrumentKind, ...] = (
        *measure_kinds().values(),
        *instrument_kinds().values(),
    )
    packages = {_top(row.model.__module__): row.package for row in rows if row.package != OWN}
    modules = (_top(frame.f_globals.get("__name__", "")) for frame, _ in walk_tb(error.__traceback__))
    return next((packages[module] for module in modules if module in packages), None)


def _top(module: str) -> str:
    return module.partition(".")[0]


def _programs(rows: Iterable[AnyMeasureKind | AnyInstrumentKind]) -> dict[str, str]:
    return {program: package for row in rows for program, package in row.programs.items()}


def _on_hosts(rows: Iterable[AnyMeasureKind]) -> dict[str, str]:
    return {program: package for row in rows for program, package in row.on_hosts.items()}


def joined(own: Iterable[Row], others: Iterable[EntryPoint], shape: type[Row]) -> Mapping[str, Row]:
    """Return rows by name: iolab's own, then those of other packages by name.

    Raises:
        UnsupportedError: a row of a different package cannot be loaded, is not a row, or has a name that exists
            already.
    """
    found: dict[str, Row] = {row.name: row for row in own}
    origin: dict[str, Text] = dict.fromkeys(found, Phrase("registry.iolab-itself"))
    for point in sorted(others, key=lambda one: (one.name, one.value)):
        row = _loaded(point, shape)
        name = row.name
        if name in found:
            raise _broken(
                point,
                Phrase("registry.name-is-taken", name=repr(name), origin=origin[name]),
                Phrase("registry.give-another-name"),
            )
        found[name], origin[name] = guarded(replace(row, package=_package(point))), _place(point)
    return found


def _loaded(point: EntryPoint, shape: type[Row]) -> Row:
    """Load an object from a different package's code, which may raise any exception and return any object."""
    try:
        row = point.load()
    except (Exception, SystemExit) as error:
        seen = Phrase("errors.failed-with-reason", what=type(error).__name__, reason=error)
        raise _broken(point, seen, Phrase("registry.fix-update-or-uninstall")) from error
    if not isinstance(row, shape):
        allowed = f"{shape.__module__}.{shape.__name__}"
        raise _broken(
            point,
            Phrase("registry.row-of-type", type=type(row).__name__),
            Phrase("registry.make-it-of-type", allowed=allowed),
        )
    if shape.BASE not in (f"{one.__module__}.{one.__qualname__}" for one in row.model.__mro__):
        raise _broken(
            point,
            Phrase("registry.model-without-base", model=row.model.__name__, base=shape.BASE),
            Phrase("registry.derive-the-model", base=shape.BASE),
        )
    methods: object = row.methods
    if not isinstance(methods, Mapping) or not all(map(_is_version, methods.values())):
        raise _broken(
            point,
            Phrase("registry.methods-are-wrong", methods=repr(methods)),
            Phrase("registry.map-metrics-to-versions"),
        )
    return row


def _is_version(version: object) -> bool:
    return isinstance(version, int) and not isinstance(version, bool) and version >= 1


def _broken(point: EntryPoint, seen: Text, advice: Text) -> UnsupportedError:
    return UnsupportedError(
        Phrase(
            "registry.loading-kind-failed",
            name=repr(point.name),
            group=point.group,
            place=_place(point),
            seen=seen,
            advice=advice,
        )
    )


def _place(point: EntryPoint) -> str:
    return point.value if point.dist is None else f"{_package(point)}, {point.value}"


def _package(point: EntryPoint) -> str:
    """Return the package of a row; the row's module if it belongs to no package."""
    return point.value if point.dist is None else f"the package {point.dist.name} {point.dist.version}"
