"""Other programs that an image is built with: run one, or a pipe of two, with errors that say what to install.

They end when this process ends, however it ends.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from iolab.errors import UnsupportedError

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
"""Debian package of a program, where it has another name."""
SYSTEM_PATHS = "/usr/sbin:/sbin"
"""depmod lives there, outside an ordinary user's PATH."""
LAST_WORDS_LINES = 6
"""How much of a failed program's output is shown."""


def demand(programs: Sequence[str], purpose: str) -> None:
    """Refuse when a program is missing.

    Raises:
        UnsupportedError: names every missing program and the packages that hold them.
    """
    missing = [program for program in programs if shutil.which(program, path=_path()) is None]
    if missing:
        packages = " ".join(sorted({PACKAGES.get(program, program) for program in missing}))
        raise UnsupportedError(
            f"{purpose}: this computer has no {', '.join(missing)}; install the Debian packages {packages}"
        )


def run(
    argv: Sequence[str | Path],
    doing: str,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run a program to its end and return what it printed.

    Raises:
        UnsupportedError: it ended with another status than 0; carries the end of its output.
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


def pipe(first: Sequence[str | Path], second: Sequence[str | Path], doing: str, log: Path) -> None:
    """Run two programs, the first's output into the second's input, until both end.

    Raises:
        UnsupportedError: one of them failed; carries the end of the log, where both write what they say.
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


def _failure(doing: str, argv: Sequence[str | Path], status: int, said: str) -> UnsupportedError:
    lines = [line.strip() for line in said.splitlines() if line.strip()][-LAST_WORDS_LINES:]
    words = "; ".join(lines) or "it said nothing"
    return UnsupportedError(f"{doing}: {argv[0]} ended with status {status}: {words}{_advise(said)}")


def _advise(said: str) -> str:
    if "No space left" in said or "FATAL ERROR: Failed to write" in said:
        return "; make room in the cache folder (`iolab image list`, `iolab image remove`) and in memory"
    if any(word in said for word in _UNREACHABLE):
        return "; the package archive was not reached: is there a network, and does `apt-get update` work?"
    return ""


def _environment(more: Mapping[str, str] | None) -> dict[str, str]:
    # English messages, for they are looked at; one fixed date, so that equal packages make equal images.
    fixed = {"PATH": _path(), "LC_ALL": "C.UTF-8", "SOURCE_DATE_EPOCH": "0"}
    return {**os.environ, **fixed, **(more or {})}


def _path() -> str:
    return f"{os.environ.get('PATH', os.defpath)}:{SYSTEM_PATHS}"


_BOUND = ("setpriv", "--pdeathsig", "KILL")
"""What makes a program end with us."""
_UNREACHABLE = (
    "Could not resolve",
    "Temporary failure",
    "Could not connect",
    "Unable to connect",
    "timed out",
)
