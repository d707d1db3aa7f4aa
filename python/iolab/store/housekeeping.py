"""Rename and remove run folders; a run that another process writes to is refused.

A removal first renames the folder to a hidden name, which no command lists, and removes the plan last. A removal that
is killed thus leaves either the whole run, or a hidden folder that the next removal recognises by its plan.
"""

import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from iolab.errors import InputError, Problem, StoreError
from iolab.experiment.reading.attached import COPIES
from iolab.locale import Phrase, Text
from iolab.store.folder import decided_file, lock_file, slug
from iolab.store.frames import sync_folder
from iolab.store.read import not_a_run
from iolab.store.records import (
    COMMANDS,
    DECIDED,
    EXPERIMENT,
    FACTS,
    LABEL,
    MACHINES,
    OUTCOME,
    PACKAGE_LISTS,
    PLAN,
    REDACTED,
    REVISIONS,
    SAMPLES,
    TABLES,
    TRIALS,
)

BEGUN = re.compile(r"\d{8}T\d{6}-")
"""Pattern of the start time in the names of run folders."""
REMOVING = re.compile(r"\..+\.removing")
"""Pattern of the names of folders that are being removed."""
FOLDERS = {SAMPLES, MACHINES, PACKAGE_LISTS, REVISIONS, DECIDED, COPIES}
FILES = {EXPERIMENT, PLAN, FACTS, LABEL, OUTCOME, REDACTED, *TABLES}
VARYING = re.compile(
    r"(?:trials|commands)(?:-\d{3,9})?\.jsonl(?:\.zst)?|report\.[a-z]+|\.[^/]+\.new|ro-crate-metadata\.json"
)
"""Pattern of the names of other files that iolab writes into a run folder."""


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Keep other processes from writing to a run, without changing its records.

    Raises:
        StoreError: a different process writes to the run, or its journals cannot be opened.
    """
    with ExitStack() as files:
        for name in (TRIALS, COMMANDS):
            try:
                files.enter_context(lock_file(path / name))
            except BlockingIOError as error:
                raise StoreError(Phrase("store.run-folder-in-use", path=path)) from error
            except OSError as error:
                raise StoreError(
                    Phrase("store.run-folder-not-opened", path=path, reason=error.strerror)
                ) from error
        yield


def rename(path: Path, title: str) -> Path:
    """Rename a run folder to its start time and a title; return its new path. The records stay unchanged.

    Raises:
        InputError: the path is not a run folder, the title has no letters or digits, or the name exists.
        StoreError: a different process writes to the run, or the folder cannot be renamed.
    """
    doing = Phrase("store.renaming-the-run")
    real = _own_folder(path, doing)
    if not slug(title):
        raise InputError([Problem(str(path), doing, repr(title), Phrase("store.a-title"))])
    begun = BEGUN.match(real.name)
    fresh = real.with_name(f"{begun[0] if begun else ''}{slug(title)}")
    if os.path.lexists(fresh):
        raise InputError([Problem(str(path), doing, str(fresh), Phrase("store.a-free-name"))])
    with held(real):
        try:
            real.rename(fresh)
            sync_folder(fresh.parent)
        except OSError as error:
            raise StoreError(Phrase("store.renaming-failed", path=path, reason=error.strerror)) from error
    return path.with_name(fresh.name) if path.name == real.name else fresh


def check_removable(path: Path) -> None:
    """Raise an error if a path is not a run folder, or if the folder has content that iolab did not write.

    Raises:
        InputError: the path is a symbolic link, no run folder or a revision, or the folder has other content.
    """
    doing = Phrase("store.removing-the-run")
    real = _own_folder(path, doing)
    strange = sorted(each.name for each in real.iterdir() if not _is_own(each))
    strange += [place for place, _, _ in os.walk(real) if place != str(real) and os.path.ismount(place)]
    if strange:
        raise InputError(
            [
                Problem(
                    str(path),
                    doing,
                    Phrase("store.other-content", names=[repr(each) for each in strange[:5]]),
                    Phrase("store.only-own-content"),
                    Phrase("store.move-other-content"),
                )
            ]
        )


def remove(path: Path) -> None:
    """Remove a run folder, and folders next to it whose removal was interrupted. Symbolic links are not followed.

    Raises:
        InputError: see `check_removable`.
        StoreError: a different process writes to the run, or the folder cannot be removed.
    """
    check_removable(path)
    real = path.resolve()
    try:
        for left in real.parent.iterdir():
            if REMOVING.fullmatch(left.name) and not left.is_symlink() and (left / PLAN).is_file():
                _remove(left)
        with held(real):
            hidden = real.with_name(f".{real.name}.removing")
            real.rename(hidden)
            sync_folder(real.parent)
            _remove(hidden)
    except OSError as error:
        raise StoreError(Phrase("store.removing-failed", path=path, reason=error.strerror)) from error


def _remove(hidden: Path) -> None:
    """Remove a hidden folder, unless another process is removing it."""
    handle = os.open(hidden, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        with suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for each in hidden.iterdir():
                if each.is_dir() and not each.is_symlink():
                    shutil.rmtree(each)
                elif each.name != PLAN:
                    each.unlink()
            (hidden / PLAN).unlink(missing_ok=True)
            hidden.rmdir()
    finally:
        os.close(handle)


def _own_folder(path: Path, doing: Text) -> Path:
    """Return the real path of a run folder.

    Raises:
        InputError: the path is a symbolic link, no run folder, or a revision of a run.
    """
    seen = None
    if path.is_symlink():
        seen = Phrase("store.a-symbolic-link")
    elif not decided_file(path, PLAN).is_file():
        raise InputError([not_a_run(path)])
    elif path.resolve().parent.name == REVISIONS:
        seen = Phrase("store.a-revision")
    if seen is not None:
        raise InputError([Problem(str(path), doing, seen, Phrase("store.a-run-folder"))])
    return path.resolve()


def _is_own(entry: Path) -> bool:
    """Whether iolab writes an entry with this name and kind into run folders."""
    if entry.is_dir() and not entry.is_symlink():
        return entry.name in FOLDERS or re.fullmatch(r"\.(?:decided|revisions)\.new", entry.name) is not None
    return entry.name in FILES or VARYING.fullmatch(entry.name) is not None


def weight(path: Path) -> tuple[int, int]:
    """Return the number and the total size [bytes] of the files below a folder."""
    sizes = [(Path(place) / name).lstat().st_size for place, _, names in os.walk(path) for name in names]
    return len(sizes), sum(sizes)
