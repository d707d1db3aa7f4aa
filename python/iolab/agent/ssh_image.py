"""Files that guests are started from, on another host: there by their content's digest, or copied there whole.

They lie beside the agent's file and go with it; what nobody has used for a month goes with the next copy.
"""

import functools
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from iolab.agent.ssh_connection import SshConnection
from iolab.agent.ssh_file import CLEAR, COPY_FAILURES, ENTER, FOLDER
from iolab.errors import AgentError
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

PRESENT = (
    "("
    + ENTER
    + """pwd -P
for digest in {digests}; do
f=image-$digest
"""
    + CLEAR
    + """
if test -f $f && touch -c $f; then sha256sum $f 2>/dev/null || {{ wc -c <$f; echo $f; }}; fi
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
    """Return the SHA-256 of a file [hexadecimal], once for each state of it."""
    status = path.stat()
    return _digest(path, status.st_size, status.st_mtime_ns)


@functools.cache
def _digest(path: Path, _size: int, _mtime_ns: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _look(connection: SshConnection, digests: dict[Path, str]) -> tuple[str, set[Path], int]:
    """Return the folder there, which files are in it and whole, and what room is left [bytes]."""
    script = PRESENT.format(folder=FOLDER, digests=" ".join(dict.fromkeys(digests.values())))
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
