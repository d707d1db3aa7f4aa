"""Writing a run folder: every trial is on the disk before the next begins; a full disk leaves the rest readable."""

import errno
import fcntl
import gzip
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from io import FileIO
from pathlib import Path

from iolab.errors import StoreError
from iolab.plan.files import encode_plan
from iolab.plan.types import Plan
from iolab.store.codec import encode_command, encode_trial
from iolab.store.records import CommandRecord, TrialRecord

EXPERIMENT, PLAN, FACTS = "experiment.yaml", "plan.json", "facts.json"
TRIALS, COMMANDS, SAMPLES, REVISIONS = "trials.jsonl", "commands.jsonl", "samples", "revisions"
MACHINES = "machines"
SLUG_LENGTH = 40


def create_folder(parent: Path, title: str, wall: datetime) -> "RunFolder":
    """Make a new run folder `<time>-<slug>` below `parent`.

    Raises:
        StoreError: it cannot be made.
    """
    slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:SLUG_LENGTH].strip("-") or "run"
    name = f"{wall:%Y%m%dT%H%M%S}-{slug}"
    for attempt in range(1, 100):
        path = parent / (name if attempt == 1 else f"{name}-{attempt}")
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise StoreError(
                f"making the run folder {path}: {error.strerror}; choose another place with -o"
            ) from error
        (path / SAMPLES).mkdir()
        return RunFolder(path)
    raise StoreError(f"making the run folder {parent / name}: a hundred of that name exist")


class RunFolder:
    """A run folder open for writing; only one process at a time may hold it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._trials = (path / TRIALS).open("ab", buffering=0)
            self._commands = (path / COMMANDS).open("ab", buffering=0)
        except OSError as error:
            raise StoreError(f"opening the run folder {path}: {error.strerror}") from error
        try:
            fcntl.flock(self._trials, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StoreError(f"opening the run folder {path}: another iolab is writing to it") from error
        self._drop_torn_line()

    def close(self) -> None:
        """Give the folder free."""
        self._trials.close()
        self._commands.close()

    def write_decision(self, experiment_text: str, plan: Plan, facts: Mapping[str, object]) -> None:
        """Write what was decided; an earlier plan is kept under revisions/."""
        if (self.path / PLAN).exists():
            self._keep_revision()
        self._replace(EXPERIMENT, experiment_text)
        self._replace(PLAN, encode_plan(plan))
        self._replace(FACTS, json.dumps(facts, indent=1))

    def write_machine(self, name: str, facts: Mapping[str, object]) -> None:
        """Write what a machine with a kernel of its own is; what was found first stays."""
        place = self.path / MACHINES / f"{name}.json"
        if not place.exists():
            self._guard(lambda: place.parent.mkdir(exist_ok=True))
            self._replace(f"{MACHINES}/{name}.json", json.dumps(facts, indent=1))

    def append_trial(self, record: TrialRecord, raw: object) -> None:
        """Append one trial and its raw samples, durably: samples first, then the line that counts."""
        if raw is not None:
            data = gzip.compress(json.dumps(raw, separators=(",", ":")).encode(), compresslevel=3, mtime=0)
            self._guard(lambda: (self.path / SAMPLES / f"{record.key}.json.gz").write_bytes(data))
        self._append(self._trials, [encode_trial(record)])
        self._guard(lambda: os.fsync(self._trials.fileno()))

    def append_commands(self, records: Sequence[CommandRecord]) -> None:
        """Append commands that were run."""
        self._append(self._commands, [encode_command(record) for record in records])

    def _append(self, file: FileIO, lines: Sequence[str]) -> None:
        """Append whole lines or nothing: a write cut short by a full disk is taken back."""
        data = "".join(f"{line}\n" for line in lines).encode()
        size = os.fstat(file.fileno()).st_size
        written = 0
        try:
            while written < len(data):
                written += file.write(data[written:]) or 0
        except OSError as error:
            os.ftruncate(file.fileno(), size)
            raise self._full(error) from error

    def _replace(self, name: str, text: str) -> None:
        fresh = (self.path / name).with_suffix(".new")

        def write() -> None:
            with fresh.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(self.path / name)

        self._guard(write)

    def _keep_revision(self) -> None:
        kept = self.path / REVISIONS
        kept.mkdir(exist_ok=True)
        number = 1 + sum(1 for _ in kept.iterdir())
        target = kept / f"{number:03d}"
        target.mkdir()
        for name in (EXPERIMENT, PLAN, FACTS):
            os.link(self.path / name, target / name)

    def _drop_torn_line(self) -> None:
        """Cut off a last line without its end: the trial in flight when a predecessor was killed."""
        for name in (TRIALS, COMMANDS):
            path = self.path / name
            data = path.read_bytes()
            whole = data.rfind(b"\n") + 1
            if whole < len(data):
                os.truncate(path, whole)

    def _guard(self, action: Callable[[], object]) -> None:
        try:
            action()
        except OSError as error:
            raise self._full(error) from error

    def _full(self, error: OSError) -> StoreError:
        advice = (
            "make room, then `iolab resume`"
            if error.errno in (errno.ENOSPC, errno.EDQUOT)
            else "then `iolab resume`"
        )
        return StoreError(
            f"writing to {self.path}: {error.strerror}; everything before is stored and readable; {advice}"
        )
