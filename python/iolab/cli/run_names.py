"""How a run is named on the command line: its folder, its name, the beginning of its title, or `last`."""

from pathlib import Path
from typing import Annotated

import typer

from iolab.errors import InputError, Problem
from iolab.locale import Phrase
from iolab.store.folder import slug
from iolab.store.read import find_runs, not_a_run

RUNS = Path("runs")
"""Where runs lie unless it is said."""
LAST = "last"
"""Names the newest run."""
MOST_LISTED = 12
"""Runs that are listed where several fit."""


def complete(begun: str) -> list[str]:
    """Return the names of runs that begin so, for a shell's completion."""
    return [name for name in (LAST, *(path.name for path in find_runs(RUNS))) if name.startswith(begun)]


RunName = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="Run folder, its name in runs/, the start of its title, or `last`.",
        show_default=False,
        autocompletion=complete,
    ),
]


def locate(name: str) -> Path:
    """Return the run folder that is named so.

    Raises:
        InputError: there is none, or several fit.
    """
    for path in (Path(name), RUNS / name):
        if path.is_dir():
            return path
    runs = find_runs(RUNS)
    if name == LAST and runs:
        return runs[-1]
    begun = "" if name == LAST else slug(name)
    found = [path for path in runs if begun and _titled(path.name).startswith(begun)]
    if len(found) == 1:
        return found[0]
    if found:
        listed = ", ".join(path.name for path in found[-MOST_LISTED:])
        seen = Phrase("cli.titles-begin-so", count=len(found))
        raise InputError(
            [Problem(name, Phrase("cli.choosing-a-run"), seen, Phrase("cli.one-run-of", runs=listed))]
        )
    raise InputError([not_a_run(Path(name))])


def _titled(folder: str) -> str:
    """Return a run folder's name without the time before it."""
    return folder.partition("-")[2]
