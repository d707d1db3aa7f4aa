"""Reading a run folder back, whole or torn."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from iolab.errors import InputError, Problem, StoreError
from iolab.plan.files import decode_plan
from iolab.store.codec import decode_command, decode_trial
from iolab.store.folder import COMMANDS, EXPERIMENT, FACTS, PLAN, TRIALS
from iolab.store.records import RunStatus, StoredRun

T = TypeVar("T")


def load_run(folder: Path) -> StoredRun:
    """Return everything in a run folder.

    Raises:
        InputError: it is not a run folder.
        StoreError: a file in it is damaged or of another version.
    """
    if not (folder / PLAN).is_file():
        raise InputError([not_a_run(folder)])
    try:
        plan = decode_plan((folder / PLAN).read_text(encoding="utf-8"))
        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StoreError(f"reading the run {folder}: {error}") from error
    notes: list[str] = []
    trials = _read_lines(folder / TRIALS, decode_trial, notes)
    commands = _read_lines(folder / COMMANDS, decode_command, notes)
    done = {record.key for record in trials}
    complete = all(step.key in done for step in plan.steps)
    return StoredRun(
        folder=folder,
        name=folder.resolve().name,
        plan=plan,
        facts=facts,
        trials=tuple(trials),
        commands=tuple(commands),
        status=RunStatus.COMPLETE if complete else RunStatus.PARTIAL,
        notes=tuple(notes),
    )


def experiment_text(folder: Path) -> str:
    """Return the experiment file as the run stored it."""
    try:
        return (folder / EXPERIMENT).read_text(encoding="utf-8")
    except OSError as error:
        raise StoreError(f"reading {folder / EXPERIMENT}: {error.strerror}") from error


def find_runs(parent: Path) -> list[Path]:
    """Return the run folders below `parent`, oldest first."""
    if not parent.is_dir():
        return []
    return sorted(path for path in parent.iterdir() if (path / PLAN).is_file())


def not_a_run(folder: Path) -> Problem:
    """Return the problem of a path that is no run folder."""
    seen = "no such folder" if not folder.exists() else f"no {PLAN} in it"
    return Problem(
        str(folder), "reading a run", seen, "a run folder", "`iolab list` shows the runs there are"
    )


def _read_lines(path: Path, decode: Callable[[str], T], notes: list[str]) -> list[T]:
    """Return the decoded lines; a torn last one (a kill in the middle of writing) is left out and noted."""
    if not path.exists():
        return []
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError as error:
        raise StoreError(f"reading {path}: {error.strerror}") from error
    whole, rest = lines[:-1], lines[-1]
    if rest:
        notes.append(f"{path.name}: the last line was cut off in writing and is left out")
    decoded = []
    for number, line in enumerate(whole, start=1):
        try:
            decoded.append(decode(line))
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"reading {path}:{number}: not a record ({error}): {line[:80]!r}; restore the file from a copy"
            ) from error
    return decoded
