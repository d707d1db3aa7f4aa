"""Old names that are still accepted: codes, keys of YAML and JSON, columns of CSV, import paths. One table.

What users and other packages write is accepted with a notice in the minor version that renamed it, and refused from the
next one on with a message that names the new name. What iolab itself stored is read for ever, without a notice: nobody
can change a record. docs/reference/compatibility.md has the rule.
"""

import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

from iolab import __version__

ANY = "*"
"""In the place of a YAML key: any name."""


def _minor(version: str) -> tuple[int, int]:
    major, minor, *_ = version.split(".")
    return int(major), int(minor)


class Sort(StrEnum):
    """What is named, in the words of a notice."""

    CODE = "code"
    """Of a statement in a record."""
    JSON_KEY = "JSON key"
    """Of a record; `within` is the type that has it, or the code of the statement."""
    YAML_KEY = "key"
    """Of an experiment file; `within` is its place: measure.* or lab.links.*.shape."""
    CSV_COLUMN = "column"
    """Of a file of published figures."""
    IMPORT = "import path"
    """A module, with all below it, or a name of `iolab.plugin` as iolab.plugin:NAME."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alias:
    """A name that was changed."""

    sort: Sort
    """What it is the name of."""
    old: str
    """The name before."""
    new: str
    """The name now."""
    within: str = ""
    """Where it is the name of that; empty: everywhere."""
    kind: str = ""
    """Of a YAML key, the kind of machine or measure that has it; empty: every kind there."""
    since: str
    """The minor version that renamed it, such as 0.2: the last one in which users may write the old name."""

    def __post_init__(self) -> None:
        """Refuse a version without a minor number. Raises ValueError."""
        _minor(self.since)

    @property
    def accepted(self) -> bool:
        """Whether users may still write the old name."""
        return _minor(__version__) <= _minor(self.since)

    def notice(self, place: str) -> str:
        """Return what to change at a place while the old name is accepted."""
        major, minor = _minor(self.since)
        return (
            f"{place}: the {self.sort} {self.old!r} is now called {self.new!r}; "
            f"the old name is accepted until iolab {major}.{minor + 1}"
        )


ALIASES: tuple[Alias, ...] = (
    Alias(sort=Sort.IMPORT, old="iolab.plugin:Beside", new="iolab.plugin:WithInstrument", since="0.1"),
)
"""The table. Rows stay: records with the old names stay, too."""


class OldName(FutureWarning):
    """Somebody wrote an old name. The command line shows it on standard error."""


def aliases(sort: Sort, within: str | None = None) -> Iterator[Alias]:
    """Yield the aliases of a sort, and of one place where that is given."""
    return (row for row in ALIASES if row.sort is sort and within in (None, row.within))


def give_notice(row: Alias, place: str, depth: int = 2) -> None:
    """Say that an old name was written at a place; `depth`: frames from here to the code that wrote it."""
    warnings.warn(OldName(row.notice(place)), stacklevel=depth + 1)


def new_code(code: str) -> str:
    """Return the code that a stored statement has today."""
    return next((row.new for row in aliases(Sort.CODE) if row.old == code), code)


def new_keys(stored: Mapping[str, object], within: str) -> Mapping[str, object]:
    """Return a stored object with the keys that its type, or its statement, has today."""
    old = {row.old: row.new for row in aliases(Sort.JSON_KEY, within)}
    return {old.get(key, key): value for key, value in stored.items()} if old else stored


def new_module(name: str) -> Alias | None:
    """Return the alias of a module: its own, or that of the package it was in."""
    rows = (row for row in aliases(Sort.IMPORT) if f"{name}.".startswith(f"{row.old}."))
    return max(rows, key=lambda row: len(row.old), default=None)


def new_attribute(module: str, name: str) -> object:
    """Return what a name of a public module is called today, with a notice.

    Raises:
        AttributeError: it never had that name, or the old name is no longer accepted.
    """
    row = next((row for row in aliases(Sort.IMPORT) if row.old == f"{module}:{name}"), None)
    if row is None:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    if not row.accepted:
        raise AttributeError(f"{row.old} was renamed in iolab {row.since}: it is now {row.new}")
    give_notice(row, module, depth=3)
    return getattr(import_module(row.new.partition(":")[0]), row.new.partition(":")[2])


class OldModules:
    """Imports a module by the name that it had. Asked only for modules that nothing else finds."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how to import a module by its old name; None: it never had that name.

        Raises:
            ModuleNotFoundError: the old name is no longer accepted.
        """
        row = new_module(fullname)
        if row is None:
            return None
        if not row.accepted:
            text = f"{row.old} was renamed in iolab {row.since}: import {row.new}"
            raise ModuleNotFoundError(text, name=fullname)
        return ModuleSpec(fullname, self, is_package=True)  # type: ignore[arg-type]  # importlib.abc is slow to load

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave it to Python to make the module."""

    def exec_module(self, module: ModuleType) -> None:
        """Fill a module with what the one of the new name has."""
        row = new_module(module.__name__)
        assert row is not None
        own = import_module(row.new + module.__name__.removeprefix(row.old))
        module.__dict__.update(
            {name: value for name, value in vars(own).items() if not name.startswith("__")}
        )
        if module.__name__ == row.old:
            give_notice(row, _importer(), depth=1)


def _importer() -> str:
    """Return the file that imports: the first on the way here that is no part of the import system or of iolab."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if not name.startswith(("importlib", "iolab.aliases")):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return "an import"
