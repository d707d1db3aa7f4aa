"""Reading a run folder back, whole or torn; and what a trial stored beside its record, when somebody asks for it."""

import gzip
import json
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from iolab.errors import AgentError, InputError, Problem, StoreError
from iolab.experiment.reading.document import read as document_of
from iolab.experiment.reading.problems import Problems
from iolab.lab.hosts.facts import decode_facts
from iolab.lab.hosts.readiness import Computer, computers_of
from iolab.locale import Phrase
from iolab.messages.notes import LastLineCut
from iolab.messages.warnings import TrialWarning
from iolab.plan.plan_file import decode_plan
from iolab.plan.types import Plan
from iolab.results.packets import PacketTrial
from iolab.results.trial import Status
from iolab.store.codec import TrialReader, decode_command, decode_packets, packets_in
from iolab.store.folder import decided_file
from iolab.store.records import (
    COMMANDS,
    EXPERIMENT,
    FACTS,
    FIRST_RAW,
    KEPT,
    PACKETS,
    PLAN,
    REVISIONS,
    SAMPLES,
    TRIALS,
    RunStatus,
    StoredRun,
    TrialRecord,
    records_folder,
)
from iolab.store.upgrade.steps import plan_text

T = TypeVar("T")
PROFILE, FOLDED = ".profile", ".folded"
"""What the names of files with folded stacks have after the key, and at the end."""
MOST_BYTES = 64 * 2**20
"""Of one trial's samples, unpacked; more is no trial of ours."""
_KEY = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
"""A key is a file name, never a path."""


def load_run(folder: Path) -> StoredRun:
    """Return everything in a run folder, or in a revision that a run keeps: as it was then.

    Raises:
        InputError: it is not a run folder.
        StoreError: a file in it is damaged or of another version.
    """
    if not decided_file(folder, PLAN).is_file():
        raise InputError([not_a_run(folder)])
    plan = _decided(folder, PLAN, lambda data: decode_plan(plan_text(data)))
    facts = _decided(folder, FACTS, _facts)
    plan = plan if plan.computers else replace(plan, computers=_computers(facts))
    notes: list[TrialWarning] = []
    records = records_folder(folder)
    reader = TrialReader()
    trials = _read_lines(records / TRIALS, reader.read, notes)
    commands = _read_lines(records / COMMANDS, decode_command, notes)
    if not all(record.kind for record in trials):
        trials = _with_kinds(trials, folder)
    if records != folder:
        trials = _as_kept(folder, plan, trials)
    done = {record.key for record in trials}
    complete = all(step.key in done for step in plan.steps)
    return StoredRun(
        folder=folder,
        name=folder.resolve().name
        if records == folder
        else f"{records.name}, revision {folder.resolve().name}",
        plan=plan,
        facts=facts,
        trials=tuple(trials),
        commands=tuple(commands),
        status=RunStatus.COMPLETE if complete else RunStatus.PARTIAL,
        trial_schema=reader.oldest,
        joined_late=_joined_late(folder, trials),
        notes=tuple(notes),
    )


def _decided(folder: Path, name: str, decode: Callable[[bytes], T]) -> T:
    """Return a part of the run's decision.

    Raises:
        StoreError: it is damaged or newer; the message says which file, and where in it.
    """
    path = decided_file(folder, name)
    try:
        return decode(path.read_bytes())
    except StoreError as error:
        raise StoreError(Phrase("errors.failed-with-reason", what=path, reason=error)) from None
    except (OSError, ValueError, RecursionError) as error:
        raise StoreError(Phrase("store.restore-from-copy", path=path, reason=error)) from error


def _facts(data: bytes) -> dict[str, Any]:
    facts = json.loads(data.decode())
    if not isinstance(facts, dict):
        raise ValueError(f"{FACTS} is no JSON object")
    return facts


def _computers(facts: Mapping[str, Any]) -> Mapping[str, Computer]:
    """Return what the stored facts say of CPUs: plans of schema 1 were made from them, and did not repeat it."""
    try:
        return computers_of(decode_facts(facts.get("hello") or {}, facts))
    except (AgentError, TypeError, AttributeError):
        return {}


def _with_kinds(trials: Sequence[TrialRecord], folder: Path) -> list[TrialRecord]:
    """Return the trials with the kinds of measures as the run's experiment says them: lines of schema 1 have none."""
    document = document_of(experiment_text(folder).encode(), Problems(EXPERIMENT))
    measures = document.get("measure") if document else None
    kinds = {
        name: kind
        for name, measure in (measures.items() if isinstance(measures, dict) else ())
        if isinstance(measure, dict) and isinstance(kind := measure.get("kind"), str)
    }
    return [
        record if record.kind else replace(record, kind=kinds.get(record.measure, "")) for record in trials
    ]


def _as_kept(folder: Path, plan: Plan, trials: Sequence[TrialRecord]) -> list[TrialRecord]:
    """Return the trials that there were when a revision was kept; one of an older iolab says only which it wanted."""
    try:
        kept = json.loads((folder / KEPT).read_text(encoding="utf-8"))
        return list(trials[: int(kept["trials"])])
    except FileNotFoundError:
        wanted = {step.key for step in plan.steps}
        return [record for record in trials if record.key in wanted]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(Phrase("store.restore-from-copy", path=folder / KEPT, reason=error)) from error


def _joined_late(folder: Path, trials: Sequence[TrialRecord]) -> int:
    """Count the trials of a block that an earlier plan had already, but without them: they were not done in turn."""
    late: set[str] = set()
    for kept in sorted((folder / REVISIONS).glob("*/" + PLAN)):
        try:
            earlier = decode_plan(plan_text(kept.read_bytes()))
        except (OSError, ValueError, StoreError):
            continue  # what was is of interest, what is counts
        known = {step.key for step in earlier.steps}
        late |= {record.key for record in trials if record.block <= earlier.blocks} - known
    return len(late)


def all_ok(run: StoredRun) -> bool:
    """Whether the last trial of every step that was done ended well."""
    last = {record.key: record.result.status for record in run.trials}
    return all(last[step.key] is Status.OK for step in run.plan.steps if step.key in last)


def experiment_text(folder: Path) -> str:
    """Return the experiment file as the run stored it."""
    try:
        return decided_file(folder, EXPERIMENT).read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        seen = error.strerror if isinstance(error, OSError) else Phrase("store.not-utf-8")
        raise StoreError(Phrase("store.restore-from-copy", path=folder / EXPERIMENT, reason=seen)) from error


def find_runs(parent: Path) -> list[Path]:
    """Return the run folders below `parent`, oldest first."""
    if not parent.is_dir():
        return []
    return sorted(path for path in parent.iterdir() if decided_file(path, PLAN).is_file())


def not_a_run(folder: Path) -> Problem:
    """Return the problem of a path that is no run folder."""
    seen = (
        Phrase("store.no-such-folder")
        if not folder.exists()
        else Phrase("store.folder-without-plan", file=PLAN)
    )
    return Problem(
        str(folder),
        Phrase("store.reading-a-run"),
        seen,
        Phrase("store.a-run-folder"),
        Phrase("store.list-shows-runs"),
    )


def _read_lines(path: Path, decode: Callable[[bytes], T], notes: list[TrialWarning]) -> list[T]:
    """Return the decoded lines; a torn last one (a kill in the middle of writing) is left out and noted."""
    if not path.exists():
        return []
    decoded = []
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.endswith(b"\n"):
                    decoded.append(_decoded(decode, line, f"{path}:{number}"))
                else:
                    notes.append(LastLineCut(file=path.name))
    except OSError as error:
        raise StoreError(Phrase("store.reading-failed", path=path, reason=error.strerror)) from error
    return decoded


def _decoded(decode: Callable[[bytes], T], line: bytes, place: str) -> T:
    try:
        return decode(line)
    except StoreError as error:
        raise StoreError(Phrase("errors.failed-with-reason", what=place, reason=error)) from None
    except ValueError as error:
        seen = line.decode(errors="replace").rstrip("\n")[:80]
        raise StoreError(Phrase("store.not-a-record", place=place, reason=error, seen=repr(seen))) from error


def stacks_of(folder: Path) -> Callable[[str], dict[str, str]]:
    """Return what reads the folded stacks of a trial's profiles by its key; it looks once which trials stored any.

    They are by machine; this computer has no name.
    """
    stored: dict[str, list[Path]] = {}
    for path in sorted((records_folder(folder) / SAMPLES).glob(f"*{PROFILE}*{FOLDED}")):
        stored.setdefault(path.name.partition(PROFILE)[0], []).append(path)
    return lambda key: _read_stacks(stored.get(key, ()), key)


def _read_stacks(paths: Sequence[Path], key: str) -> dict[str, str]:
    found = {}
    for path in paths:
        machine = path.name.removeprefix(f"{key}{PROFILE}").removesuffix(FOLDED).lstrip(".")
        with suppress(OSError):
            found[machine] = path.read_text(encoding="utf-8", errors="replace")[:MOST_BYTES]
    return found


def read_packets(folder: Path, key: str) -> PacketTrial | None:
    """Return everything behind the metrics of a packet trial; None where it stored nothing.

    Raises:
        StoreError: the file is damaged, too large, of another version, or has a field too few or too many.
    """
    if not _KEY.fullmatch(key):
        return None
    samples = records_folder(folder) / SAMPLES
    for ending, decode in ((PACKETS, decode_packets), (FIRST_RAW, packets_in)):
        if (path := samples / f"{key}{ending}").is_file():
            return _read(path, decode)
    return None


def _read(path: Path, decode: Callable[[bytes], PacketTrial | None]) -> PacketTrial | None:
    try:
        with gzip.open(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise ValueError(f"more than {MOST_BYTES // 2**20} MiB unpacked; allowed is less")
        return decode(data)
    except StoreError as error:
        raise StoreError(f"{path}:1: {error}") from None
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise StoreError(Phrase("store.first-line-unreadable", path=path, reason=error)) from error
