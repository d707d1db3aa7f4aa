"""Atomic and durable files, and the user's cache: files of other users are neither written nor trusted."""

import contextlib
import errno
import os
import stat
from pathlib import Path

from iolab.errors import UnsupportedError
from iolab.locale import Phrase


def open_own(path: Path, *, flags: int = 0, mode: int = 0o644) -> int:
    """Open a file for writing and return its descriptor.

    A symbolic link in the place of the file is an error and is not followed.

    Raises:
        OSError: the file cannot be opened; ELOOP: the path is a symbolic link.
    """
    return os.open(path, os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | flags, mode)


def write_durably(path: Path, data: bytes) -> None:
    """Replace the content of a file, and wait until it is on the disk."""
    with open(open_own(path, flags=os.O_WRONLY | os.O_TRUNC), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file atomically; an existing symbolic link is replaced. Pipes and devices are written to directly.

    Raises:
        OSError: the file cannot be written, or the pipe has no reader; an existing file is unchanged.
    """
    written = content.encode() if isinstance(content, str) else content
    if path.exists() and not path.is_file():
        _write_to(path, written)
        return
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        write_durably(fresh, written)
        fresh.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise


def _write_to(path: Path, data: bytes) -> None:
    """Write to a pipe or device; fail if a pipe has no reader, instead of waiting forever for one."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise OSError(errno.ENXIO, Phrase("errors.pipe-without-reader"), str(path)) from error
        raise
    os.set_blocking(descriptor, True)
    with os.fdopen(descriptor, "wb") as pipe:
        pipe.write(data)


def cache_folder() -> Path:
    """Return the user's cache folder (XDG base directories), which may not exist yet.

    Raises:
        UnsupportedError: a different user owns the folder or a folder above it, or may write to it, so its content
            cannot be trusted.
    """
    named = os.environ.get("XDG_CACHE_HOME", "")
    folder = (Path(named) if named.startswith("/") else Path.home() / ".cache") / "iolab"
    real = folder.resolve()
    for place in (real, *real.parents):
        try:
            about = place.stat()
        except OSError:
            continue  # the folder does not exist yet; this user will create it
        if trouble := _foreign(about, own=place == real):
            raise UnsupportedError(
                Phrase("errors.cache-of-others", folder=folder, place=place, reason=trouble)
            )
    return folder


def _foreign(about: os.stat_result, *, own: bool) -> Phrase | None:
    """Return how other users could change the content of a folder; None if they cannot.

    In a sticky folder, other users cannot remove files of this user.
    """
    if about.st_uid not in ({os.geteuid()} if own else {0, os.geteuid()}):
        return Phrase("errors.owned-by-other-user", owner=about.st_uid, who=os.geteuid())
    others = about.st_mode & (stat.S_IWOTH | stat.S_IWGRP)
    if not others or (about.st_mode & stat.S_ISVTX and not own):
        return None
    everyone = about.st_mode & stat.S_IWOTH
    return Phrase("errors.writable-by-everyone") if everyone else Phrase("errors.writable-by-group")
