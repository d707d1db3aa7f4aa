"""Files that are whole or absent, and the user's cache: nobody else's file is written or believed."""

import contextlib
import errno
import os
import stat
from pathlib import Path

from iolab.errors import UnsupportedError


def open_own(path: Path, *, flags: int = 0, mode: int = 0o644) -> int:
    """Return a descriptor of a file that is written; a symbolic link in its place is an error, not a way elsewhere.

    Raises:
        OSError: it cannot be opened; ELOOP: there is a symbolic link.
    """
    return os.open(path, os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | flags, mode)


def write_durably(path: Path, data: bytes) -> None:
    """Write a file, whatever was in it, and wait until it is on the disk."""
    with open(open_own(path, flags=os.O_WRONLY | os.O_TRUNC), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def write_whole(path: Path, content: str | bytes) -> None:
    """Put a file in place all at once; a symbolic link there is replaced. What is no file (a pipe) is written to.

    Raises:
        OSError: it cannot be written, or nobody reads the pipe; what was there before stays.
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
    """Write to a pipe or device. To open a pipe that nobody reads would wait for ever."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise OSError(errno.ENXIO, "no process reads from this pipe", str(path)) from error
        raise
    os.set_blocking(descriptor, True)
    with os.fdopen(descriptor, "wb") as pipe:
        pipe.write(data)


def cache_folder() -> Path:
    """Return this user's cache (XDG base directories), which may not exist yet.

    Raises:
        UnsupportedError: another user owns it or a folder above it, or may write there: what lies there could be
            anybody's.
    """
    named = os.environ.get("XDG_CACHE_HOME", "")
    folder = (Path(named) if named.startswith("/") else Path.home() / ".cache") / "iolab"
    real = folder.resolve()
    for place in (real, *real.parents):
        try:
            about = place.stat()
        except OSError:
            continue  # it is made later, by this user
        if trouble := _foreign(about, own=place == real):
            raise UnsupportedError(
                f"opening the cache {folder}: {place}: {trouble}; what lies there could be anybody's, so it is not "
                "used; set XDG_CACHE_HOME to a folder of your own, or correct owner and mode (chmod go-w)"
            )
    return folder


def _foreign(about: os.stat_result, *, own: bool) -> str:
    """Return how others may change what is in a folder; in a sticky one nobody removes what is another's."""
    if about.st_uid not in ({os.geteuid()} if own else {0, os.geteuid()}):
        return f"it belongs to user {about.st_uid}, and iolab runs as user {os.geteuid()}"
    others = about.st_mode & (stat.S_IWOTH | stat.S_IWGRP)
    if not others or (about.st_mode & stat.S_ISVTX and not own):
        return ""
    return "every user may write to it" if about.st_mode & stat.S_IWOTH else "a group may write to it"
