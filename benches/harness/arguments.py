"""Parse a bench's command line by a table of its arguments. `--help` prints the table and the module's first lines."""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument. Positional arguments are in table order; a name that begins with -- is an option."""

    name: str
    default: Any
    """Default value; False: a flag. For several words, a sequence."""
    about: str
    """Printed by --help."""
    kind: Callable[[str], Any] | None = None
    """Converter of a word; None: the type of the default."""
    allowed: Sequence[str] = ()
    """Allowed words; empty: any."""
    several: bool = False
    """Whether any number of words may be given."""

    def read(self, word: str) -> Any:
        """Return the value of a word."""
        if self.allowed and word not in (*self.allowed, self.default):
            raise argparse.ArgumentTypeError(f"{word!r} is not one of {', '.join(self.allowed)}")
        kind = self.kind or (str if self.several or self.default is None else type(self.default))
        try:
            return kind(word)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{word!r}: {error}") from None


def arguments(about: str | None, *table: Argument) -> argparse.Namespace:
    """Parse the command line by a table; `about` is the docstring of the program."""
    spec = sys.modules["__main__"].__spec__
    parser = argparse.ArgumentParser(
        prog=None if spec is None else f"python -m {spec.name}",
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for one in table:
        help_ = one.about.replace("%", "%%")
        if one.default is False:
            parser.add_argument(one.name, action="store_true", help=help_)
            continue
        words = one.default if isinstance(one.default, list | tuple) else [one.default]
        default = " ".join(map(str, words)) if one.default not in (None, ()) else ""
        optional = one.several or not one.name.startswith("--")
        nargs: dict[str, Any] = {"nargs": "*" if one.several else "?"} if optional else {}
        parser.add_argument(
            one.name,
            type=one.read,
            default=one.default,
            metavar=one.name.lstrip("-").upper(),
            help=help_ + (f" (default: {default})" if default else ""),
            **nargs,
        )
    return parser.parse_args()
