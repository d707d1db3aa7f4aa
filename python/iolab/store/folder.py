"""Write a run folder: every trial is on the disk before the next one starts; a full disk leaves the folder readable.

A decision (experiment, plan, facts) takes effect atomically: it is written to a separate folder and put into effect by
one rename. The files of the decision are then moved to their places; if the move is interrupted, the next process that
opens the folder completes it.
"""

import errno
import fcntl
import gzip
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from io import FileIO
from pathlib import Path

from iolab.errors import StoreError
from iolab.experiment.reading.attached import COPIES
from iolab.files import open_own, write_durably
from iolab.locale import Phrase
from iolab.plan.plan_file import encode_plan
from iolab.plan.types import Plan
from iolab.results.trial import CommandRecord
from iolab.store.codec import encode_command, encode_packets, encode_trial
from iolab.store.frames import sync_folder
from iolab.store.lines import count_lines, next_part
from iolab.store.records import (
    COMMANDS,
    DECIDED,
    EXPERIMENT,
    FACTS,
    KEPT,
    MACHINES,
    PACKAGE_LISTS,
    PACKETS,
    PLAN,
    RAW,
    REVISIONS,
    SAMPLES,
    SERIES,
    TRIALS,
    Samples,
    TrialRecord,
)

SLUG_LENGTH = 40


def create_folder(parent: Path, title: str, wall: datetime) -> "RunFolder":
    """Create a new run folder `<time>-<slug>` below `parent`.

    Raises:
        StoreError: the folder cannot be created.
    """
    name = f"{wall:%Y%m%dT%H%M%S}-{slug(title) or 'run'}"
    for attempt in range(1, 100):
        path = parent / (name if attempt == 1 else f"{name}-{attempt}")
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise StoreError(Phrase("store.run-folder-not-made", path=path, reason=error.strerror)) from error
        (path / SAMPLES).mkdir()
        made = RunFolder(path)
        sync_folder(path)
        sync_folder(parent)
        return made
    raise StoreError(Phrase("store.too-many-of-that-name", path=parent / name))


def slug(title: str) -> str:
    """Return a title in the form of folder names; empty if it has no letters or digits."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:SLUG_LENGTH].strip("-")


def packages_digest(packages: Sequence[str]) -> str:
    """Return the name of a package list: the SHA-256 of its file; empty if there is no list."""
    return hashlib.sha256(_listed(packages)).hexdigest() if packages else ""


def _listed(packages: Sequence[str]) -> bytes:
    return "".join(f"{each}\n" for each in packages).encode()


def decided_file(folder: Path, name: str) -> Path:
    """Return the path of a file of the run's decision: its final place, or its temporary place if it has not been moved
    yet."""
    waiting = folder / DECIDED / name
    return waiting if waiting.is_file() else folder / name


class RunFolder:
    """A run folder open for writing; only one process at a time can open it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        _refuse_links(path)
        try:
            self._trials, self._commands = LineFile(path / TRIALS), LineFile(path / COMMANDS)
        except BlockingIOError as error:
            raise StoreError(Phrase("store.run-folder-in-use", path=path)) from error
        except OSError as error:
            raise StoreError(
                Phrase("store.run-folder-not-opened", path=path, reason=error.strerror)
            ) from error
        self._guard(self._settle)

    def close(self) -> None:
        """Release the folder; all appended trials are then in the file at the current path."""
        if self._trials.closed:
            return
        try:
            self._guard(lambda: self._trials.append([], durably=True))
        finally:
            self._trials.close()
            self._commands.close()

    def write_files(self, files: Mapping[str, bytes]) -> None:
        """Write copies of the files that the experiment names; existing copies are kept."""
        for name, content in files.items():
            self._write_first(self.path / COPIES / name, content)

    def write_decision(self, experiment_text: str, plan: Plan, facts: Mapping[str, object]) -> None:
        """Write a decision atomically; the previous decision is kept under revisions/."""
        parts = {EXPERIMENT: experiment_text, PLAN: encode_plan(plan), FACTS: json.dumps(facts, indent=1)}

        def write() -> None:
            if (self.path / PLAN).exists():
                self._keep_revision()
            fresh = self._fresh(DECIDED)
            for name, text in parts.items():
                write_durably(fresh / name, text.encode())
            sync_folder(fresh)
            fresh.rename(self.path / DECIDED)  # the decision takes effect here
            sync_folder(self.path)
            self._settle()

        self._guard(write)

    def write_machine(self, name: str, facts: Mapping[str, object]) -> None:
        """Write the description of a machine with its own kernel; an existing description is kept."""
        self._write_first(self.path / MACHINES / f"{name}.json", json.dumps(facts, indent=1).encode())

    def write_packages(self, packages: Sequence[str]) -> None:
        """Write the list of packages of a guest image, as name=version; guests refer to this list by its digest."""
        place = self.path / PACKAGE_LISTS / f"{packages_digest(packages)}.txt"
        self._write_first(place, _listed(packages))

    def _write_first(self, place: Path, data: bytes) -> None:
        if place.exists():
            return

        def write() -> None:
            place.parent.mkdir(parents=True, exist_ok=True)
            fresh = place.with_suffix(".new")
            write_durably(fresh, data)
            fresh.replace(place)
            sync_folder(place.parent)

        self._guard(write)

    def append_trial(self, record: TrialRecord, samples: Samples | None = None) -> None:
        """Append one trial and its samples durably: first the samples, then the line that makes the trial valid.

        Raises:
            StoreError: the trial or its samples could not be written.
            ValueError: the trial or its samples contain a number that is not finite.
        """
        files = {} if samples is None else _files(record.key, samples)
        if files:
            self._guard(lambda: self._write_samples(files))
        self._guard(lambda: self._trials.append([encode_trial(record)], durably=True))

    def append_commands(self, records: Sequence[CommandRecord]) -> None:
        """Append commands that were run."""
        self._guard(lambda: self._commands.append([encode_command(record) for record in records]))

    def begin_parts(self) -> None:
        """Rename the journals of trials and commands to parts, which never grow, and continue in new journals.

        The journals are renamed one after the other, so that this process always holds the lock of one of them.
        """

        def begin() -> None:
            for journal in (self._trials, self._commands):
                if journal.path.stat().st_size:
                    journal.continue_in_new(next_part(self.path, journal.path.name))
            sync_folder(self.path)

        self._guard(begin)

    def _write_samples(self, files: Mapping[str, bytes]) -> None:
        folder = self.path / SAMPLES
        for name, data in files.items():
            fresh = folder / f".{name}.new"
            write_durably(fresh, data)
            fresh.replace(folder / name)
        sync_folder(folder)

    def _settle(self) -> None:
        """Move the files of the current decision to their places, including files that a killed process did not
        move."""
        waiting = self.path / DECIDED
        if not waiting.is_dir():
            return
        for name in (EXPERIMENT, PLAN, FACTS):
            if (waiting / name).exists():
                (waiting / name).replace(self.path / name)
        sync_folder(self.path)
        waiting.rmdir()

    def _keep_revision(self) -> None:
        """Keep the decision that is about to be replaced, unless a killed process has already done so."""
        kept = self.path / REVISIONS
        kept.mkdir(exist_ok=True)
        before = sorted(kept.iterdir())
        if before and (before[-1] / PLAN).samefile(self.path / PLAN):
            return
        fresh = self._fresh(REVISIONS)
        for name in (EXPERIMENT, PLAN, FACTS):
            os.link(self.path / name, fresh / name)
        try:
            lines = count_lines(self.path, TRIALS)
        except ValueError as error:
            raise StoreError(
                Phrase("store.restore-from-copy", path=self.path / TRIALS, reason=error)
            ) from error
        write_durably(fresh / KEPT, json.dumps({"trials": lines}).encode())
        fresh.rename(kept / f"{len(before) + 1:03d}")
        sync_folder(kept)

    def _fresh(self, name: str) -> Path:
        """Return an empty folder, which is renamed when it is complete."""
        fresh = self.path / f".{name}.new"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        return fresh

    def _guard(self, action: Callable[[], object]) -> None:
        try:
            action()
        except OSError as error:
            raise self._full(error) from error

    def _full(self, error: OSError) -> StoreError:
        if not self.path.exists():
            return StoreError(Phrase("store.run-folder-gone", path=self.path))
        advice = (
            Phrase("store.make-room-and-resume")
            if error.errno in (errno.ENOSPC, errno.EDQUOT)
            else Phrase("store.then-resume")
        )
        return StoreError(
            Phrase("store.writing-failed", path=self.path, reason=error.strerror, advice=advice)
        )


def _refuse_links(path: Path) -> None:
    """Raise an error if a folder inside a run folder is a symbolic link, because data would be stored elsewhere."""
    for name in (SAMPLES, MACHINES, PACKAGE_LISTS, REVISIONS, DECIDED, COPIES):
        if (path / name).is_symlink():
            raise StoreError(Phrase("store.symbolic-link-in-folder", path=path, name=name))


def _files(key: str, samples: Samples) -> dict[str, bytes]:
    """Return the content of the files that a trial stores in addition to its line in trials.jsonl, by file name."""
    files: dict[str, bytes] = {}
    if samples.raw is not None:
        files[f"{key}{RAW}"] = _packed(json.dumps(samples.raw, separators=(",", ":")).encode())
    if samples.packets is not None:
        files[f"{key}{PACKETS}"] = _packed(encode_packets(samples.packets))
    if samples.series:
        from iolab.store.series import (
            encode_series,
        )  # pyarrow is slow to import, and few commands need it

        files[f"{key}{SERIES}"] = encode_series(samples.series)
    files |= {f"{key}.{name}": data for name, data in samples.files.items()}
    return files


def _packed(data: bytes) -> bytes:
    return gzip.compress(data, compresslevel=3, mtime=0)


class LineFile:
    """A file of lines that are only appended; one process at a time writes to it."""

    def __init__(self, path: Path) -> None:
        """Open or create the file; an incomplete last line of a killed process is removed.

        Raises:
            BlockingIOError: a different process writes to the file.
            OSError: the file cannot be opened.
        """
        self.path = path
        self._file = lock_file(path)
        data = path.read_bytes()
        if (whole := data.rfind(b"\n") + 1) < len(data):
            os.truncate(path, whole)

    @property
    def closed(self) -> bool:
        """Whether the file is closed for appending."""
        return self._file.closed

    def close(self) -> None:
        """Close and unlock the file."""
        self._file.close()

    def append(self, lines: Sequence[str], *, durably: bool = False) -> None:
        """Append either all of the lines or none: a write that was cut short by a full disk is undone.

        If a different program has replaced the file, as editors do when they save, the lines are appended to the new
        file, after the lines of the old file that the new file lacks.

        Raises:
            OSError: the lines could not be written.
        """
        self._write(lines)
        if not self._is_the_named():
            self._move_to_the_named()
        if durably:
            os.fsync(self._file.fileno())

    def continue_in_new(self, part: Path) -> None:
        """Rename the file to `part`, and append to a new file at its path from now on."""
        self.path.rename(part)
        named = lock_file(self.path)
        self._file.close()
        self._file = named

    def _write(self, lines: Sequence[str]) -> None:
        data = "".join(f"{line}\n" for line in lines).encode()
        size = os.fstat(self._file.fileno()).st_size
        written = 0
        try:
            while written < len(data):
                written += self._file.write(data[written:]) or 0
        except OSError:
            os.ftruncate(self._file.fileno(), size)
            raise

    def _is_the_named(self) -> bool:
        try:
            return os.path.samestat(self.path.stat(), os.fstat(self._file.fileno()))
        except FileNotFoundError:
            return False

    def _move_to_the_named(self) -> None:
        """Continue in the file that is now at the path, after adding the lines that only the previous file has."""
        size = os.fstat(self._file.fileno()).st_size
        ours = os.pread(self._file.fileno(), size, 0).decode().splitlines()
        named = lock_file(self.path)
        there = self.path.read_text(encoding="utf-8", errors="replace")
        self._file.close()
        self._file = named
        if there and not there.endswith("\n"):
            self._file.write(b"\n")
        kept = set(there.splitlines())
        self._write([line for line in ours if line not in kept])


def lock_file(path: Path) -> FileIO:
    """Open or create a file, and lock it for this process.

    Raises:
        BlockingIOError: a different process has locked the file.
        OSError: the file cannot be opened.
    """
    handle = open_own(path, flags=os.O_RDWR | os.O_APPEND)
    file = FileIO(handle, "r+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        file.close()
        raise
    return file
