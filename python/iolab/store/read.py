"""Read a run folder, even of an interrupted run; and read the samples of a trial on demand."""

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
from iolab.store.lines import stored_lines
from iolab.store.packs import sample, sample_names
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
"""Parts of the names of files with folded stacks: before and after the machine name."""
_KEY = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
"""Pattern of a key, which is a file name and never a path."""


def load_run(folder: Path) -> StoredRun:
    """Return the content of a run folder, or of a revision: the run as it was when the revision was kept.

    Raises:
        InputError: the path is not a run folder.
        StoreError: a file in it is damaged or has a different version.
    """
    if not decided_file(folder, PLAN).is_file():
        raise InputError([not_a_run(folder)])
    plan = _decided(folder, PLAN, lambda data: decode_plan(plan_text(data)))
    facts = _decided(folder, FACTS, _facts)
    plan = plan if plan.computers else replace(plan, computers=_computers(facts))
    notes: list[TrialWarning] = []
    records = records_folder(folder)
    reader = TrialReader()
    trials = _read_lines(records, TRIALS, reader.read, notes)
    commands = _read_lines(records, COMMANDS, decode_command, notes)
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
        else str(Phrase("store.revision-of-run", run=records.name, number=folder.resolve().name)),
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
        StoreError: the part is damaged or newer; the message names the file and the place in it.
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
        raise ValueError(Phrase("store.not-a-json-object", file=FACTS))
    return facts


def _computers(facts: Mapping[str, Any]) -> Mapping[str, Computer]:
    """Return the CPUs in the stored facts: plans of schema 1 depend on these CPUs, but do not contain them."""
    try:
        return computers_of(decode_facts(facts.get("hello") or {}, facts))
    except (AgentError, TypeError, AttributeError):
        return {}


def _with_kinds(trials: Sequence[TrialRecord], folder: Path) -> list[TrialRecord]:
    """Return the trials with the kinds of measures from the run's experiment, because lines of schema 1 lack them."""
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
    """Return the trials that existed when a revision was kept.

    A revision that an older iolab kept has no trial count; the result is then all trials of its plan.
    """
    try:
        kept = json.loads((folder / KEPT).read_text(encoding="utf-8"))
        return list(trials[: int(kept["trials"])])
    except FileNotFoundError:
        wanted = {step.key for step in plan.steps}
        return [record for record in trials if record.key in wanted]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(Phrase("store.restore-from-copy", path=folder / KEPT, reason=error)) from error


def _joined_late(folder: Path, trials: Sequence[TrialRecord]) -> int:
    """Return the number of trials that a later plan added to blocks that an earlier plan already had.

    Added trials were not run in the order of their blocks.
    """
    late: set[str] = set()
    for kept in sorted((folder / REVISIONS).glob("*/" + PLAN)):
        try:
            earlier = decode_plan(plan_text(kept.read_bytes()))
        except (OSError, ValueError, StoreError):
            continue  # an unreadable old plan is ignored, because the current plan takes precedence
        known = {step.key for step in earlier.steps}
        late |= {record.key for record in trials if record.block <= earlier.blocks} - known
    return len(late)


def all_ok(run: StoredRun) -> bool:
    """Whether the last trial of every executed step was successful."""
    last = {record.key: record.result.status for record in run.trials}
    return all(last[step.key] is Status.OK for step in run.plan.steps if step.key in last)


def experiment_text(folder: Path) -> str:
    """Return the experiment file that the run stored."""
    try:
        return decided_file(folder, EXPERIMENT).read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        seen = error.strerror if isinstance(error, OSError) else Phrase("store.not-utf-8")
        raise StoreError(Phrase("store.restore-from-copy", path=folder / EXPERIMENT, reason=seen)) from error


def find_runs(parent: Path) -> list[Path]:
    """Return the run folders that are directly in `parent`, oldest first; hidden folders are being removed."""
    if not parent.is_dir():
        return []
    listed = (path for path in parent.iterdir() if not path.name.startswith("."))
    return sorted(path for path in listed if decided_file(path, PLAN).is_file())


def not_a_run(folder: Path) -> Problem:
    """Return the problem that a path is not a run folder."""
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


def _read_lines(folder: Path, name: str, decode: Callable[[bytes], T], notes: list[TrialWarning]) -> list[T]:
    """Return the decoded lines; an incomplete last line (of a killed process) is omitted and noted."""
    decoded = []
    for place, line in stored_lines(folder, name):
        if line.endswith(b"\n"):
            decoded.append(_decoded(decode, line, place))
        else:
            notes.append(LastLineCut(file=name))
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
    """Return a function from a trial's key to the folded stacks of its profiles; the folder is listed only once.

    The function returns the stacks by machine name; the name of the local host is empty.
    """
    stored: dict[str, list[str]] = {}
    samples = records_folder(folder) / SAMPLES
    for name in sorted(sample_names(samples, FOLDED)):
        key, profile, _ = name.partition(PROFILE)
        if profile:
            stored.setdefault(key, []).append(name)
    return lambda key: _read_stacks(samples, stored.get(key, ()), key)


def _read_stacks(samples: Path, names: Sequence[str], key: str) -> dict[str, str]:
    found = {}
    for name in names:
        machine = name.removeprefix(f"{key}{PROFILE}").removesuffix(FOLDED).lstrip(".")
        with suppress(OSError, ValueError):
            found[machine] = (sample(samples, name) or b"").decode(errors="replace")
    return found


def read_packets(folder: Path, key: str) -> PacketTrial | None:
    """Return all data of a packet trial other than its metrics; None if no such data is stored.

    Raises:
        StoreError: the file is damaged, too large, of a different version, or has missing or additional fields.
    """
    if not _KEY.fullmatch(key):
        return None
    samples = records_folder(folder) / SAMPLES
    for ending, decode in ((PACKETS, decode_packets), (FIRST_RAW, packets_in)):
        path = samples / f"{key}{ending}"
        try:
            if (data := sample(samples, path.name)) is not None:
                return _decoded_packets(path, data, decode)
        except (OSError, EOFError, ValueError, zlib.error) as error:
            raise StoreError(Phrase("store.first-line-unreadable", path=path, reason=error)) from error
    return None


def _decoded_packets(
    path: Path, data: bytes, decode: Callable[[bytes], PacketTrial | None]
) -> PacketTrial | None:
    try:
        return decode(data)
    except StoreError as error:
        raise StoreError(Phrase("errors.failed-with-reason", what=f"{path}:1", reason=error)) from None
