"""iolab: a laboratory for virtual I/O in one command."""

import sys
from typing import Any

__version__ = "0.1.0"


class _OldModules:
    """Asks the table of aliases for modules of iolab that nothing else finds; other imports never load it."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        """Return how to import a module of iolab by the name that it had; None: it never had that name."""
        if not name.startswith("iolab.") or name == "iolab.aliases":
            return None
        from iolab.aliases import OldModules

        return OldModules().find_spec(name, path, target)


sys.meta_path.append(_OldModules)
