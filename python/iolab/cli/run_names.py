"""Names of runs on the command line: the folder, its name, the start of its title, or `last`."""

from pathlib import Path
from typing import Annotated

import typer

from iolab.errors import InputError, Problem
from iolab.locale import Phrase
from iolab.store.folder import slug
from iolab.store.read import find_runs, not_a_run

RUNS = Path("runs")
"""Default folder of runs."""
LAST = "last"
"""Name of the newest run."""
MOST_LISTED = 12
"""Maximum number of runs that an error message lists."""


def complete(begun: str) -> list[str]:
    """Return the names of runs with a given prefix, for shell completion."""
    return [name for name in (LAST, *(path.name for path in find_runs(RUNS))) if name.startswith(begun)]


RunName = Annotated[str, typer.Argument(metavar="RUN", show_default=False, autocompletion=complete)]
RunNames = Annotated[list[str], typer.Argument(metavar="RUN", show_default=False, autocompletion=complete)]


def locate(name: str) -> Path:
    """Return the run folder for a name.

    Raises:
        InputError: no run or several runs match.
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
    """Return the name of a run folder without its time."""
    return folder.partition("-")[2]
