"""iolab: a laboratory for virtual I/O in one command."""

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import os

__version__ = "0.1.0"


def open(folder: "str | os.PathLike[str]") -> Any:
    """Return a run folder as an iolab.store.run_tables.Run, whose figures are Arrow tables: `open(RUN).trials()`.

    Raises:
        InputError: the path is not a run folder.
        StoreError: a file of the run is damaged.
    """
    from importlib import import_module  # every import of iolab runs this module
    from pathlib import Path

    return import_module("iolab.store.run_tables").open_run(Path(folder))


class _OldModules:
    """Finder of iolab modules under their old names.

    The table of aliases is imported only if no other finder finds the module.
    """

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        """Return the import specification for an old name of an iolab module; None: there is no such old name."""
        if not name.startswith("iolab.") or name == "iolab.aliases":
            return None
        from iolab.aliases import OldModules

        return OldModules().find_spec(name, path, target)


sys.meta_path.append(_OldModules)
