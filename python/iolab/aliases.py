"""The table of old names that are still accepted: codes, keys of YAML and JSON, columns of CSV, import paths.

Old names that users and other packages write are accepted with a notice in the minor version that renamed them; later
versions reject them with a message that contains the new name. Records that iolab stored remain readable forever
without a notice, because stored records cannot be changed. docs/reference/compatibility.md has the rule.
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
"""Wildcard for any name at this position in the path of a YAML key."""


def _minor(version: str) -> tuple[int, int]:
    major, minor, *_ = version.split(".")
    return int(major), int(minor)


class Sort(StrEnum):
    """Kinds of renamed objects; each value is the name of the kind in notices."""

    CODE = "code"
    """Code of a statement in a record."""
    JSON_KEY = "JSON key"
    """Key of a record; `within` is the record's type, or the code of the statement."""
    YAML_KEY = "key"
    """Key of an experiment file; `within` is the place of the key: measure.* or lab.links.*.shape."""
    CSV_COLUMN = "column"
    """Column in a file of published figures."""
    IMPORT = "import path"
    """A module with all its submodules, or a name in `iolab.plugin`, written as iolab.plugin:NAME."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alias:
    """A changed name."""

    sort: Sort
    """Kind of the renamed object."""
    old: str
    """Old name."""
    new: str
    """New name."""
    within: str = ""
    """Where the old name was used; empty: everywhere."""
    kind: str = ""
    """For a YAML key, the kind of machine or measure that has the key; empty: every kind at that place."""
    since: str
    """Minor version that renamed the object, such as 0.2: the last version in which users may write the old name."""

    def __post_init__(self) -> None:
        """Reject a version without a minor number. Raises ValueError."""
        _minor(self.since)

    @property
    def accepted(self) -> bool:
        """Whether users may still write the old name."""
        return _minor(__version__) <= _minor(self.since)

    def notice(self, place: str) -> str:
        """Return the notice for an accepted old name at a place."""
        major, minor = _minor(self.since)
        return (
            f"{place}: the {self.sort} {self.old!r} is now called {self.new!r}; "
            f"the old name is accepted until iolab {major}.{minor + 1}"
        )


ALIASES: tuple[Alias, ...] = (
    Alias(sort=Sort.IMPORT, old="iolab.plugin:Beside", new="iolab.plugin:WithInstrument", since="0.1"),
)
"""Table of all aliases. Rows are never removed, because old records must remain readable."""


class OldName(FutureWarning):
    """Warning about an old name. The command line shows such warnings on standard error."""


def aliases(sort: Sort, within: str | None = None) -> Iterator[Alias]:
    """Yield the aliases of a kind, optionally only of one scope."""
    return (row for row in ALIASES if row.sort is sort and within in (None, row.within))


def give_notice(row: Alias, place: str, depth: int = 2) -> None:
    """Warn about an old name at a place.

    `depth` is the number of stack frames between the caller and the code that used the name.
    """
    warnings.warn(OldName(row.notice(place)), stacklevel=depth + 1)


def new_code(code: str) -> str:
    """Return the current code for a code in a stored statement."""
    return next((row.new for row in aliases(Sort.CODE) if row.old == code), code)


def new_keys(stored: Mapping[str, object], within: str) -> Mapping[str, object]:
    """Return a stored object with the current keys of its type or statement."""
    old = {row.old: row.new for row in aliases(Sort.JSON_KEY, within)}
    return {old.get(key, key): value for key, value in stored.items()} if old else stored


def new_module(name: str) -> Alias | None:
    """Return the alias of a module, or of the package that contained the module."""
    rows = (row for row in aliases(Sort.IMPORT) if f"{name}.".startswith(f"{row.old}."))
    return max(rows, key=lambda row: len(row.old), default=None)


def new_attribute(module: str, name: str) -> object:
    """Return the current value of an old name in a public module, with a notice.

    Raises:
        AttributeError: there is no such old name, or it is no longer accepted.
    """
    row = next((row for row in aliases(Sort.IMPORT) if row.old == f"{module}:{name}"), None)
    if row is None:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    if not row.accepted:
        raise AttributeError(f"{row.old} was renamed in iolab {row.since}: it is now {row.new}")
    give_notice(row, module, depth=3)
    return getattr(import_module(row.new.partition(":")[0]), row.new.partition(":")[2])


class OldModules:
    """Importer of modules under their old names, used only for modules that no other finder finds."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the import specification for an old name of a module; None: there is no such old name.

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
        """Let Python create the module."""

    def exec_module(self, module: ModuleType) -> None:
        """Fill a module with the content of the module that has the new name."""
        row = new_module(module.__name__)
        assert row is not None
        own = import_module(row.new + module.__name__.removeprefix(row.old))
        module.__dict__.update(
            {name: value for name, value in vars(own).items() if not name.startswith("__")}
        )
        if module.__name__ == row.old:
            give_notice(row, _importer(), depth=1)


def _importer() -> str:
    """Return the file with the import statement: the first caller outside the import system and this module."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if not name.startswith(("importlib", "iolab.aliases")):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return "an import"
