"""Files on remote hosts, copied through ssh: the agent and the boot files of guests, named by content digests.

iolab leaves no other files on a host. The agent's file is copied under a temporary name, compared, started, and then
renamed. The other files are in the same folder and are removed with it; files unused for a month are removed by the
next copy. Hashing 300 MB takes seconds: each file is hashed once per boot, locally and remotely, as long as its inode,
size and times are unchanged.
"""

import contextlib
import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from iolab.agent.ssh_connection import SshConnection
from iolab.errors import AgentError, UnsupportedError
from iolab.files import cache_folder
from iolab.locale import Phrase, Text
from iolab.units import format_bytes

FOLDER = '"${XDG_CACHE_HOME:-$HOME/.cache}/iolab"'
"""Folder of the remote user, in sh syntax."""
COPY_DEADLINE_S = 120.0
"""Time limit of the copy: the agent's file is 2.5 MB in size, so 0.2 Mbit/s is enough."""
ELF_MACHINES = {
    3: "i686",
    21: "ppc64le",
    22: "s390x",
    40: "armv7l",
    62: "x86_64",
    183: "aarch64",
    243: "riscv64",
}
"""Name in `uname -m` for each e_machine of an ELF file (System V ABI)."""
# `cd` pins the folder: later commands work in this folder even if a parent folder is renamed; only its user can enter
# it.
ENTER = (
    "umask 077; t=; "
    'stop() {{ s=$1; test -z "$t" || rm -f "$t"; exit $s; }}; '
    'd={folder}; mkdir -p "$d" && cd -P "$d" || stop 71; c=$(pwd -P); p=$c; '
    'while :; do set -- $(ls -ldn "$p" | cut -c 1-80); w=0; '
    'case "$1" in ?????????[tT]*) test "$p" = "$c" && w=1 ;; ?????w* | ????????w*) w=1 ;; esac; '
    'test $w = 0 || {{ echo "$p may be written by others" >&2; stop 76; }}; '
    'test "$3" = "$(id -u)" || test "$3" = 0 || {{ echo "$p belongs to user $3" >&2; stop 76; }}; '
    'test "$p" = / && break; p=$(dirname "$p"); done; '
    'test -O . || {{ echo "$c belongs to another user" >&2; stop 76; }}; '
    "chmod 700 . || stop 71; "
)
"""Script that enters the folder, and creates it for its user only, below folders that only this user and root can
modify."""
# A file that was created while others could write to the folder may still be open for writing, so it is not used.
CLEAR = (
    "if test -L $f; then rm -f $f; elif test -e $f; then "
    'case "$(ls -ldn $f | cut -c 1-10)" in -????[w]* | -???????[w]*) rm -f $f ;; -*) test -O $f || rm -f $f ;; '
    "*) rm -rf $f ;; esac; fi; "
)
"""Script that removes the file `$f` unless it is a regular file that only this user can write."""
# Any login shell passes the script on unchanged: it is one line, without quotes, backslashes or "!" inside its single
# quotes.
COPY = (
    ENTER + "f=agent-{digest}; t=$f.part$$; " + CLEAR + 'rm -rf "$t"; '
    'find . -name "agent-*.part*" -mmin +10 -exec rm -f {{}} + 2>/dev/null; '
    'cat >"$t" && chmod 700 "$t" || stop 72; '
    'test "$(wc -c <"$t")" -eq {size} || stop 73; '
    'if command -v sha256sum >/dev/null; then test "$(sha256sum <"$t" | cut -c 1-64)" = {digest} || stop 73; fi; '
    './"$t" --version >/dev/null </dev/null || stop 74; '
    'mv -f "$t" "$f" || stop 75; '
    'for old in agent-*; do case "$old" in "$f" | *.part*) ;; *) rm -f "$old" ;; esac; done; exit 0'
)
COPY_FAILURES = {
    71: Phrase("agent.folder-not-made"),
    72: Phrase("agent.file-not-written"),
    73: Phrase("agent.file-arrived-damaged"),
    74: Phrase("agent.file-not-executable"),
    75: Phrase("agent.file-not-renamed"),
    76: Phrase("agent.folder-open-to-others"),
}
PRESENT = (
    "("
    + ENTER
    + "f=agent-{digest}; "
    + CLEAR
    + "if test -x $f; then exec 3<$f; sha256sum <&3 2>/dev/null || {{ echo size; wc -c <&3; }}; fi) 2>&1"
)
REMOVE = """d={folder}
(cd -P "$d" 2>/dev/null && test -O . || exit 0; rm -f agent-* image-* 2>&1; ls | grep -E "^(agent|image)-")
rmdir "$d" 2>/dev/null"""
CHECK_DEADLINE_S = 180.0
"""Time limit of a check: reading 300 MB takes a second, from a slow and busy disk a minute."""
SLOWEST_BPS = 1_000_000
"""Minimum rate of a copy; slower copies are aborted. ssh itself detects cut connections."""
MARGIN_BYTES = 16 << 20
"""Disk space that remains free on the host [bytes], because a completely full home folder is unusable."""
KIB = 1024
Tell = Callable[[Text], None]
"""Callback for a progress line."""
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
"""File whose content changes with each boot of a host."""
LONGEST_MARK = 1024
"""Maximum length of a mark, which has seven words [characters]."""
MARKS = "hashed"
"""Cache folder with a mark file for each hashed file."""
# The mark contains the boot ID and the state of the file at the time of hashing. `touch` changes the state, so the mark
# is written afterwards.
IMAGE_PRESENT = (
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
# Like the copy script, this script is passed on unchanged by any login shell.
COPY_IMAGE = (
    ENTER + "f=image-{digest}; t=$f.part$$; " + CLEAR + 'rm -rf "$t"; '
    'find . -name "image-*.part*" -mmin +60 -exec rm -f {{}} + 2>/dev/null; '
    'find . -name "image-*" -mtime +30 -exec rm -f {{}} + 2>/dev/null; '
    'cat >"$t" && chmod 644 "$t" || stop 72; '
    'test "$(wc -c <"$t")" -eq {size} || stop 73; '
    'if command -v sha256sum >/dev/null; then test "$(sha256sum <"$t" | cut -c 1-64)" = {digest} || stop 73; fi; '
    'mv -f "$t" "$f" || stop 75'
)


def provide_agent(connection: SshConnection, binary: Path) -> str:
    """Copy the agent's file to the host if it is missing there; return its digest (SHA-256, hexadecimal).

    Raises:
        AgentError: the host's architecture is not supported, or the file cannot be copied or started.
    """
    system, machine = [*connection.ask("uname -s; uname -m"), "", ""][:2]
    content = _suitable(connection.destination, binary, system, machine)
    digest = hashlib.sha256(content).hexdigest()
    if not _is_there(connection, digest, len(content)):
        _copy(connection, content, digest)
    return digest


def start_command(digest: str, silence_s: int) -> str:
    """Return the command for the login shell: the agent, with sudo if that needs no password."""
    run = f'"$f" --silence-s {silence_s}'
    enter = ENTER.format(folder=FOLDER)
    return (
        f"exec sh -c 'h=$PWD; {enter}f=agent-{digest}; {CLEAR}"
        "if command -v sha256sum >/dev/null; then "
        f'test "$(sha256sum <$f | cut -c 1-64)" = {digest} || stop 73; fi; '
        'cd "$h"; f=$c/$f; echo; '
        'if test "$(id -u)" -ne 0 && sudo -n -- "$f" --version >/dev/null 2>&1 </dev/null; '
        f"then exec sudo -n -- {run}; fi; exec {run}'"
    )


def remove_agents(connection: SshConnection) -> None:
    """Remove the agent's files, the files of guest images, and their folder from the host.

    Raises:
        AgentError: a file remains.
    """
    left = connection.ask(REMOVE.format(folder=FOLDER))
    if left:
        raise AgentError(Phrase("agent.files-not-removed", host=connection.destination, files=left))


def _suitable(destination: str, binary: Path, system: str, machine: str) -> bytes:
    """Return the agent binary for a host's architecture: the default binary, or the binary with the architecture in its
    name."""
    if system != "Linux":
        system_seen = system or Phrase("agent.unknown-system")
        raise AgentError(Phrase("agent.host-without-linux", host=destination, system=system_seen))
    other = binary.with_name(f"{binary.name}-{machine}")
    for path in (binary, other):
        try:
            content = path.read_bytes()
        except OSError as error:
            if path is binary:
                unreadable = Phrase("agent.binary-unreadable", path=path, error=error.strerror)
                raise AgentError(unreadable) from error
            continue
        if _machine_of(content) in (machine, None):
            return content
    built = _machine_of(binary.read_bytes())
    raise AgentError(
        Phrase("agent.binary-for-other-machine", host=destination, machine=machine, built=built, path=other)
    )


def _machine_of(content: bytes) -> str | None:
    """Return the architecture of an ELF file; None: unknown."""
    if content[:4] != b"\x7fELF":
        return None
    little = content[5] == 1
    return ELF_MACHINES.get(int.from_bytes(content[18:20], "little" if little else "big"))


def _is_there(connection: SshConnection, digest: str, size: int) -> bool:
    """Whether the complete file is on the host; its digest is checked again in the agent's greeting."""
    seen = [
        word for line in connection.ask(PRESENT.format(folder=FOLDER, digest=digest)) for word in line.split()
    ]
    return seen[:1] == [digest] or seen[:2] == ["size", str(size)]


def _copy(connection: SshConnection, content: bytes, digest: str) -> None:
    script = COPY.format(folder=FOLDER, digest=digest, size=len(content))
    status, words = connection.run(f"exec sh -c '{script}'", content, COPY_DEADLINE_S)
    if status:
        host, reason = connection.destination, _reason(status, words)
        raise AgentError(Phrase("agent.agent-not-copied", size=len(content), host=host, reason=reason))


def _reason(status: int, words: str) -> Phrase:
    """Return the reason why a file could not be copied: the host's message, and the meaning of the script's status."""
    meaning = COPY_FAILURES.get(status) or Phrase("agent.copying-ended-with-status", status=status)
    if not words:
        return meaning
    return Phrase("errors.failed-with-reason", what=words.splitlines()[-1], reason=meaning)


def provide_files(connection: SshConnection, files: Sequence[Path], tell: Tell) -> tuple[str, ...]:
    """Copy files to the host if they are missing there; return their absolute paths.

    Raises:
        AgentError: the host has too little space, or a file cannot be copied.
    """
    digests = {path: digest_of(path) for path in files}
    folder, there, free_bytes = _look(connection, digests)
    missing = {digests[path]: path for path in reversed(files) if path not in there}
    lacking = [path for path in files if missing.get(digests[path]) is path]  # only the first of equal files
    needed_bytes = sum(path.stat().st_size for path in lacking)
    if needed_bytes + MARGIN_BYTES > free_bytes and lacking:
        needed, free = format_bytes(needed_bytes), format_bytes(free_bytes)
        host = connection.destination
        raise AgentError(
            Phrase("agent.no-room-for-image", folder=folder, host=host, needed=needed, free=free)
        )
    for path in lacking:
        size = format_bytes(path.stat().st_size)
        tell(Phrase("agent.copying-file", name=path.name, size=size, host=connection.destination))
        _copy_image(connection, path, digests[path])
    return tuple(f"{folder}/image-{digests[path]}" for path in files)


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file [hexadecimal]; it is computed once per boot and state of the file."""
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
    """Return the state that changes with a file's content: device, inode, size [bytes], mtime [ns], ctime [ns].

    A program can set the mtime of a file, but not its ctime.
    """
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


@contextlib.contextmanager
def _marks() -> Iterator[int | None]:
    """Open the folder of marks; None if it could contain marks of a different user."""
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
    """Return the words of a mark: boot ID, file state, digest; None without a mark of this user."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=marks)
        with os.fdopen(descriptor, encoding="ascii") as file:
            is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
            if is_file and _is_private(descriptor, stat.S_IWGRP | stat.S_IWOTH):
                return file.read(LONGEST_MARK).split()
    return None


def _write_mark(marks: int, name: str, words: Sequence[str]) -> None:
    """Write a mark atomically; a failure is ignored, because it only costs time."""
    fresh = f"{name}.{os.getpid()}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with contextlib.suppress(OSError):
        with os.fdopen(os.open(fresh, flags, 0o600, dir_fd=marks), "w", encoding="ascii") as file:
            file.write(" ".join(words))
        os.rename(fresh, name, src_dir_fd=marks, dst_dir_fd=marks)


def _look(connection: SshConnection, digests: dict[Path, str]) -> tuple[str, set[Path], int]:
    """Return the remote folder, the complete files in it, and the free space [bytes]."""
    script = IMAGE_PRESENT.format(
        folder=FOLDER, boot_id=BOOT_ID, digests=" ".join(dict.fromkeys(digests.values()))
    )
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


def _copy_image(connection: SshConnection, path: Path, digest: str) -> None:
    content = path.read_bytes()
    script = COPY_IMAGE.format(folder=FOLDER, digest=digest, size=len(content))
    deadline_s = CHECK_DEADLINE_S + len(content) * 8 / SLOWEST_BPS
    status, words = connection.run(f"exec sh -c '{script}'", content, deadline_s)
    if status:
        host, reason = connection.destination, _reason(status, words)
        size = format_bytes(len(content))
        raise AgentError(
            Phrase("agent.image-not-copied", name=path.name, size=size, host=host, reason=reason)
        )
