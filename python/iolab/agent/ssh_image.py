"""Files that guests are started from, on another host: there by their content's digest, or copied there whole.

They lie beside the agent's file and go with it; what nobody has used for a month goes with the next copy. Hashing
300 MB takes seconds: a file is hashed once per boot, here and there, as long as its inode, size and times are the same.
"""

import contextlib
import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from iolab.agent.ssh_connection import SshConnection
from iolab.agent.ssh_file import CLEAR, COPY_FAILURES, ENTER, FOLDER
from iolab.errors import AgentError, UnsupportedError
from iolab.files import cache_folder
from iolab.units import format_bytes

CHECK_DEADLINE_S = 180.0
"""Reading 300 MB again takes a second, from a slow disk that others use a minute."""
SLOWEST_BPS = 1_000_000
"""A connection slower than this is given up; one that is cut is noticed by ssh itself."""
MARGIN_BYTES = 16 << 20
"""Kept free: a home folder that is full to the last byte serves nobody."""
KIB = 1024

Tell = Callable[[str], None]
"""Takes one line about what is being done."""

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
"""Another one after each start of a host."""
LONGEST_MARK = 1024
"""Seven words. [characters]"""
MARKS = "hashed"
"""The folder in the cache that says which files were hashed, a file each."""

# The mark of a file says of which boot and state its hash is. `touch` changes the state, so the mark is written after.
PRESENT = (
    "("
    + ENTER
    + """pwd -P
state() {{ s=$(stat -c "%d %i %s %y %z" $f) && echo "$(cat {boot_id}) $s"; }}
for digest in {digests}; do
f=image-$digest.hashed
"""
    + CLEAR
    + """
m=$f f=image-$digest
"""
    + CLEAR
    + """
if test -f $f; then
known=$(cat $m 2>/dev/null) now=$(state 2>/dev/null) found=
if test -n "$now" && test "$known" = "$now"; then found="$digest $f"; echo "$found"
else found=$(sha256sum $f 2>/dev/null) && echo "$found" || {{ wc -c <$f; echo $f; }}
test "$(state 2>/dev/null)" = "$now" || found=
fi
touch -c $f
rm -f $m
test "${{found%% *}}" != $digest || state >$m 2>/dev/null
fi
done
echo free
df -Pk . | {{ read -r heading; read -r device size used free rest; echo "$free"; }})"""
)

# As the agent is copied: any login shell passes it on as it is.
COPY = (
    ENTER + "f=image-{digest}; t=$f.part$$; " + CLEAR + 'rm -rf "$t"; '
    'find . -name "image-*.part*" -mmin +60 -exec rm -f {{}} + 2>/dev/null; '
    'find . -name "image-*" -mtime +30 -exec rm -f {{}} + 2>/dev/null; '
    'cat >"$t" && chmod 644 "$t" || stop 72; '
    'test "$(wc -c <"$t")" -eq {size} || stop 73; '
    'if command -v sha256sum >/dev/null; then test "$(sha256sum <"$t" | cut -c 1-64)" = {digest} || stop 73; fi; '
    'mv -f "$t" "$f" || stop 75'
)


def provide_files(connection: SshConnection, files: Sequence[Path], tell: Tell) -> tuple[str, ...]:
    """Bring files to the host unless they are there; return where each is, as an absolute path.

    Raises:
        AgentError: there is no room, or one cannot be put there.
    """
    digests = {path: digest_of(path) for path in files}
    folder, there, free_bytes = _look(connection, digests)
    missing = {digests[path]: path for path in reversed(files) if path not in there}
    lacking = [path for path in files if missing.get(digests[path]) is path]  # of equal ones the first
    needed_bytes = sum(path.stat().st_size for path in lacking)
    if needed_bytes + MARGIN_BYTES > free_bytes and lacking:
        raise AgentError(
            f"copying a guest image to {folder} on {connection.destination}: {format_bytes(needed_bytes)} are "
            f"lacking there, {format_bytes(free_bytes)} are free; make room, or set XDG_CACHE_HOME for that user "
            "to a folder that has some"
        )
    for path in lacking:
        tell(f"copying {path.name} ({format_bytes(path.stat().st_size)}) to {connection.destination}")
        _copy(connection, path, digests[path])
    return tuple(f"{folder}/image-{digests[path]}" for path in files)


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file [hexadecimal]; it is computed once per boot for each state of the file."""
    with path.open("rb") as file, _marks() as marks:
        state = _state(file.fileno())
        name = f"{state[0]}-{state[1]}"
        known = None if marks is None else _read_mark(marks, name)
        if known is not None and known[:-1] == [BOOT_ID.read_text().strip(), *map(str, state)]:
            return known[-1]
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        if marks is not None and _state(file.fileno()) == state:
            _write_mark(marks, name, [BOOT_ID.read_text().strip(), *map(str, state), digest])
        return digest


def _state(descriptor: int) -> tuple[int, ...]:
    """Return what changes with a file's content: device, inode, size [bytes], mtime [ns], ctime [ns].

    A program can set the mtime of a file, but not its ctime.
    """
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


@contextlib.contextmanager
def _marks() -> Iterator[int | None]:
    """Open the folder of the marks; None where it could hold marks of another user."""
    with contextlib.ExitStack() as opened:
        folder = None
        with contextlib.suppress(OSError, UnsupportedError):
            path = cache_folder() / MARKS
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            opened.callback(os.close, descriptor)
            folder = descriptor if _is_private(descriptor, stat.S_IRWXG | stat.S_IRWXO) else None
        yield folder


def _is_private(descriptor: int, forbidden: int) -> bool:
    status = os.fstat(descriptor)
    return status.st_uid == os.geteuid() and not status.st_mode & forbidden


def _read_mark(marks: int, name: str) -> list[str] | None:
    """Return the words of a mark: boot id, the state of the file, its digest; None without a mark of this user."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=marks)
        with os.fdopen(descriptor, encoding="ascii") as file:
            is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
            if is_file and _is_private(descriptor, stat.S_IWGRP | stat.S_IWOTH):
                return file.read(LONGEST_MARK).split()
    return None


def _write_mark(marks: int, name: str, words: Sequence[str]) -> None:
    """Put a mark in place all at once; a cache that takes none costs time alone."""
    fresh = f"{name}.{os.getpid()}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with contextlib.suppress(OSError):
        with os.fdopen(os.open(fresh, flags, 0o600, dir_fd=marks), "w", encoding="ascii") as file:
            file.write(" ".join(words))
        os.rename(fresh, name, src_dir_fd=marks, dst_dir_fd=marks)


def _look(connection: SshConnection, digests: dict[Path, str]) -> tuple[str, set[Path], int]:
    """Return the folder there, which files are in it and whole, and what room is left [bytes]."""
    script = PRESENT.format(folder=FOLDER, boot_id=BOOT_ID, digests=" ".join(dict.fromkeys(digests.values())))
    folder, *lines = connection.ask(script, CHECK_DEADLINE_S)
    words = [word for line in lines for word in line.split()]
    pairs = set(zip(words[::2], words[1::2], strict=False))
    there = {
        path
        for path, digest in digests.items()
        if {(digest, f"image-{digest}"), (str(path.stat().st_size), f"image-{digest}")} & pairs
    }
    free = words[-1] if words and words[-1].isdigit() else "0"
    return folder, there, int(free) * KIB


def _copy(connection: SshConnection, path: Path, digest: str) -> None:
    content = path.read_bytes()
    script = COPY.format(folder=FOLDER, digest=digest, size=len(content))
    deadline_s = CHECK_DEADLINE_S + len(content) * 8 / SLOWEST_BPS
    status, words = connection.run(f"exec sh -c '{script}'", content, deadline_s)
    if status:
        meaning = COPY_FAILURES.get(status, f"copying ended with status {status}")
        said = f"{words.splitlines()[-1]}: " if words else ""
        raise AgentError(
            f"copying {path.name} of a guest image ({format_bytes(len(content))}) to ~/.cache/iolab on "
            f"{connection.destination}: {said}{meaning}"
        )
