"""A file that grows by whole lines and stays the one that its name leads to, whoever else touches it."""

import fcntl
import os
from collections.abc import Sequence
from io import FileIO
from pathlib import Path

from iolab.files import open_own


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
