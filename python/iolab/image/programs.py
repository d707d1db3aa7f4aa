"""Run external programs for building images, alone or as a pipe of two; errors state which packages to install.

The programs are killed when this process ends.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from iolab.errors import UnsupportedError
from iolab.locale import Phrase, Text

PACKAGES = {
    "apt-get": "apt",
    "depmod": "kmod",
    "dpkg-deb": "dpkg",
    "mksquashfs": "squashfs-tools",
    "qemu-system-x86_64": "qemu-system-x86",
    "unshare": "util-linux",
    "setpriv": "util-linux",
    "unsquashfs": "squashfs-tools",
    "zstd": "zstd",
}
"""Debian package by program, if the names differ."""
SYSTEM_PATHS = "/usr/sbin:/sbin"
"""Folders of depmod, outside an ordinary user's PATH."""
LAST_WORDS_LINES = 6
"""Maximum number of output lines of a failed program in an error message."""


def demand(programs: Sequence[str], purpose: Text) -> None:
    """Raise an error if a program is missing.

    Raises:
        UnsupportedError: programs are missing; the error lists them and the packages that contain them.
    """
    missing = [program for program in programs if shutil.which(program, path=_path()) is None]
    if missing:
        packages = " ".join(sorted({PACKAGES.get(program, program) for program in missing}))
        raise UnsupportedError(
            Phrase("image.programs-missing", doing=purpose, programs=missing, packages=packages)
        )


def run(
    argv: Sequence[str | Path],
    doing: Text,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run a program to completion and return its output.

    Raises:
        UnsupportedError: the exit status is not 0; the error contains the end of the output.
    """
    done = subprocess.run(
        [*_BOUND, *map(str, argv)],
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        cwd=folder,
        env=_environment(environment),
    )
    if done.returncode:
        raise _failure(doing, argv, done.returncode, done.stderr or done.stdout)
    return done.stdout


def pipe(first: Sequence[str | Path], second: Sequence[str | Path], doing: Text, log: Path) -> None:
    """Run two programs to completion, with the first's output piped into the second.

    Raises:
        UnsupportedError: one of the programs failed; the error contains the end of the log, to which both write.
    """
    with log.open("wb") as said:
        source = subprocess.Popen(
            [*_BOUND, *map(str, first)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
            env=_environment(None),
        )
        try:
            sink = subprocess.run(
                [*_BOUND, *map(str, second)],
                check=False,
                stdin=source.stdout,
                stdout=subprocess.DEVNULL,
                stderr=said,
                env=_environment(None),
            )
        except BaseException:
            source.terminate()
            raise
        finally:
            assert source.stdout is not None
            source.stdout.close()
            status = source.wait()
    if status:
        raise _failure(doing, first, status, log.read_text(errors="replace"))
    if sink.returncode:
        raise _failure(doing, second, sink.returncode, log.read_text(errors="replace"))


def _failure(doing: Text, argv: Sequence[str | Path], status: int, said: str) -> UnsupportedError:
    lines = [line.strip() for line in said.splitlines() if line.strip()][-LAST_WORDS_LINES:]
    output = "; ".join(lines) or Phrase("image.no-output")
    failed = Phrase("image.program-failed", doing=doing, program=argv[0], status=status, output=output)
    advice = _advise(said)
    return UnsupportedError(Phrase("errors.with-advice", problem=failed, advice=advice) if advice else failed)


def _advise(said: str) -> Text:
    if any(words in said for words in _FULL):
        return Phrase("image.make-room")
    return Phrase("image.archive-unreachable") if any(words in said for words in _UNREACHABLE) else ""


def _environment(more: Mapping[str, str] | None) -> dict[str, str]:
    # Messages are parsed, so they must be English; a fixed date makes images of equal packages equal.
    fixed = {"PATH": _path(), "LC_ALL": "C.UTF-8", "SOURCE_DATE_EPOCH": "0"}
    return {**os.environ, **fixed, **(more or {})}


def _path() -> str:
    return f"{os.environ.get('PATH', os.defpath)}:{SYSTEM_PATHS}"


_BOUND = ("setpriv", "--pdeathsig", "KILL")
"""Command prefix with which the kernel kills the program when this process ends."""
_FULL = ("No space left", "FATAL ERROR: Failed to write")
_UNREACHABLE = (
    "Could not resolve",
    "Temporary failure",
    "Could not connect",
    "Unable to connect",
    "timed out",
)
