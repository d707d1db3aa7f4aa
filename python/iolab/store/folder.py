"""Writing a run folder: every trial is on the disk before the next begins; a full disk leaves the rest readable.

A decision (experiment, plan, facts) takes effect at once: it is written beside the old one, and one rename makes it
count. Moving its files to their places comes after, and is made up for by whoever opens the folder next.
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
    """Make a new run folder `<time>-<slug>` below `parent`.

    Raises:
        StoreError: it cannot be made.
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
    """Return a title as the name of a run folder has it; empty where no letter or digit is in it."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:SLUG_LENGTH].strip("-")


def packages_digest(packages: Sequence[str]) -> str:
    """Return by what a list of packages is named: the SHA-256 of its file; empty where there is none."""
    return hashlib.sha256(_listed(packages)).hexdigest() if packages else ""


def _listed(packages: Sequence[str]) -> bytes:
    return "".join(f"{each}\n" for each in packages).encode()


def decided_file(folder: Path, name: str) -> Path:
    """Return where a part of the run's decision lies: in its place, or still on its way there."""
    waiting = folder / DECIDED / name
    return waiting if waiting.is_file() else folder / name


def sync_folder(path: Path) -> None:
    """Make a folder's entries durable: a file that was synced is lost when its name is."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class RunFolder:
    """A run folder open for writing; only one process at a time may hold it."""

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
        """Give the folder free, with every trial that was appended in the file that its name leads to."""
        if self._trials.closed:
            return
        try:
            self._guard(lambda: self._trials.append([], durably=True))
        finally:
            self._trials.close()
            self._commands.close()

    def write_files(self, files: Mapping[str, bytes]) -> None:
        """Write copies of the files that the experiment names; what was written first stays."""
        for name, content in files.items():
            self._write_first(self.path / COPIES / name, content)

    def write_decision(self, experiment_text: str, plan: Plan, facts: Mapping[str, object]) -> None:
        """Write what was decided, all of it or nothing; an earlier decision is kept under revisions/."""
        parts = {EXPERIMENT: experiment_text, PLAN: encode_plan(plan), FACTS: json.dumps(facts, indent=1)}

        def write() -> None:
            if (self.path / PLAN).exists():
                self._keep_revision()
            fresh = self._fresh(DECIDED)
            for name, text in parts.items():
                write_durably(fresh / name, text.encode())
            sync_folder(fresh)
            fresh.rename(self.path / DECIDED)  # from here on it counts
            sync_folder(self.path)
            self._settle()

        self._guard(write)

    def write_machine(self, name: str, facts: Mapping[str, object]) -> None:
        """Write what a machine with a kernel of its own is; what was found first stays."""
        self._write_first(self.path / MACHINES / f"{name}.json", json.dumps(facts, indent=1).encode())

    def write_packages(self, packages: Sequence[str]) -> None:
        """Write what is installed in a guest image, as name=version; guests name the list by its digest."""
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
        """Append one trial and its samples, durably: samples first, then the line that counts.

        Raises:
            StoreError: they could not be written.
            ValueError: a figure in them is no finite number.
        """
        files = {} if samples is None else _files(record.key, samples)
        if files:
            self._guard(lambda: self._write_samples(files))
        self._guard(lambda: self._trials.append([encode_trial(record)], durably=True))

    def append_commands(self, records: Sequence[CommandRecord]) -> None:
        """Append commands that were run."""
        self._guard(lambda: self._commands.append([encode_command(record) for record in records]))

    def _write_samples(self, files: Mapping[str, bytes]) -> None:
        folder = self.path / SAMPLES
        for name, data in files.items():
            fresh = folder / f".{name}.new"
            write_durably(fresh, data)
            fresh.replace(folder / name)
        sync_folder(folder)

    def _settle(self) -> None:
        """Move a decision that counts to its place: the rest of what a killed predecessor began, or of our own."""
        waiting = self.path / DECIDED
        if not waiting.is_dir():
            return
        for name in (EXPERIMENT, PLAN, FACTS):
            if (waiting / name).exists():
                (waiting / name).replace(self.path / name)
        sync_folder(self.path)
        waiting.rmdir()

    def _keep_revision(self) -> None:
        """Keep the decision that is to be replaced, unless a predecessor came as far as that."""
        kept = self.path / REVISIONS
        kept.mkdir(exist_ok=True)
        before = sorted(kept.iterdir())
        if before and (before[-1] / PLAN).samefile(self.path / PLAN):
            return
        fresh = self._fresh(REVISIONS)
        for name in (EXPERIMENT, PLAN, FACTS):
            os.link(self.path / name, fresh / name)
        lines = (self.path / TRIALS).read_bytes().count(b"\n") if (self.path / TRIALS).is_file() else 0
        write_durably(fresh / KEPT, json.dumps({"trials": lines}).encode())
        fresh.rename(kept / f"{len(before) + 1:03d}")
        sync_folder(kept)

    def _fresh(self, name: str) -> Path:
        """Return an empty folder to be renamed when it is whole."""
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
    """Raise where a folder inside a run folder is a symbolic link: what is stored would land elsewhere."""
    for name in (SAMPLES, MACHINES, PACKAGE_LISTS, REVISIONS, DECIDED, COPIES):
        if (path / name).is_symlink():
            raise StoreError(Phrase("store.symbolic-link-in-folder", path=path, name=name))


def _files(key: str, samples: Samples) -> dict[str, bytes]:
    """Return what a trial stores beside its line, by file name."""
    files: dict[str, bytes] = {}
    if samples.raw is not None:
        files[f"{key}{RAW}"] = _packed(json.dumps(samples.raw, separators=(",", ":")).encode())
    if samples.packets is not None:
        files[f"{key}{PACKETS}"] = _packed(encode_packets(samples.packets))
    if samples.series:
        from iolab.store.series import encode_series  # the library is slow to load, and few commands need it

        files[f"{key}{SERIES}"] = encode_series(samples.series)
    files |= {f"{key}.{name}": data for name, data in samples.files.items()}
    return files


def _packed(data: bytes) -> bytes:
    return gzip.compress(data, compresslevel=3, mtime=0)


class LineFile:
    """Lines that are appended and never changed; one process at a time writes them."""

    def __init__(self, path: Path) -> None:
        """Open or make it; a last line without its end, of a predecessor that was killed, is cut off.

        Raises:
            BlockingIOError: another process writes to it.
            OSError: it cannot be opened.
        """
        self.path = path
        self._file = _locked(path)
        data = path.read_bytes()
        if (whole := data.rfind(b"\n") + 1) < len(data):
            os.truncate(path, whole)

    @property
    def closed(self) -> bool:
        """Whether nothing more can be appended."""
        return self._file.closed

    def close(self) -> None:
        """Give it free."""
        self._file.close()

    def append(self, lines: Sequence[str], *, durably: bool = False) -> None:
        """Append all of these lines or nothing: a write cut short by a full disk is taken back.

        Where another program has put a new file in its place meanwhile, as editors do when they save, the lines go
        there, after those of ours that it lacks.

        Raises:
            OSError: they could not be written.
        """
        self._write(lines)
        if not self._is_the_named():
            self._move_to_the_named()
        if durably:
            os.fsync(self._file.fileno())

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
        """Go on in the file that has the name now, with every line of the one that we wrote to until now."""
        size = os.fstat(self._file.fileno()).st_size
        ours = os.pread(self._file.fileno(), size, 0).decode().splitlines()
        named = _locked(self.path)
        there = self.path.read_text(encoding="utf-8", errors="replace")
        self._file.close()
        self._file = named
        if there and not there.endswith("\n"):
            self._file.write(b"\n")
        kept = set(there.splitlines())
        self._write([line for line in ours if line not in kept])


def _locked(path: Path) -> FileIO:
    handle = open_own(path, flags=os.O_RDWR | os.O_APPEND)
    file = FileIO(handle, "r+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        file.close()
        raise
    return file
