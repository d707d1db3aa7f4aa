"""The agent's file on another host: there by its content's digest, or copied there whole; and its removal.

Beside what guests are started from it is the only thing that iolab leaves on a host. It is copied to a temporary name,
compared, started, and then renamed.
"""

import hashlib
from pathlib import Path

from iolab.agent.ssh_connection import SshConnection
from iolab.errors import AgentError

FOLDER = '"${XDG_CACHE_HOME:-$HOME/.cache}/iolab"'
"""Of the user there, in sh."""
COPY_DEADLINE_S = 120.0
"""The agent has 2.5 MB: 0.2 Mbit/s are enough."""
ELF_MACHINES = {
    3: "i686",
    21: "ppc64le",
    22: "s390x",
    40: "armv7l",
    62: "x86_64",
    183: "aarch64",
    243: "riscv64",
}
"""e_machine of an ELF file (System V ABI) to what `uname -m` calls it."""

# `cd` holds the folder: whatever is renamed above it later, what follows works in this one, which only its user enters.
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
"""Enters the folder: made for its user alone, reached through folders that only this user and root can change."""
# What was put there while others could write to the folder may still be open for writing: it is not used.
CLEAR = (
    "if test -L $f; then rm -f $f; elif test -e $f; then "
    'case "$(ls -ldn $f | cut -c 1-10)" in -????[w]* | -???????[w]*) rm -f $f ;; -*) test -O $f || rm -f $f ;; '
    "*) rm -rf $f ;; esac; fi; "
)
"""Removes what stands in the place of the file `$f` and is no plain file that only this user writes."""

# Any login shell passes it on as it is: one line, and between the single quotes around it no quote, backslash or "!".
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
    71: "its folder cannot be made; make the home folder writable, or set XDG_CACHE_HOME for that user to one that is",
    72: "it cannot be written; make room there, or set XDG_CACHE_HOME for that user to a folder that has some",
    73: "what arrived is not what was sent; nothing was kept, try again",
    74: "it cannot be started there; is that file system mounted noexec? Set XDG_CACHE_HOME for that user to another",
    75: "it cannot be given its name; make that folder writable",
    76: "what lies there could be anybody's; correct owner and mode (chmod go-w), or set XDG_CACHE_HOME for that user "
    "to a folder of its own",
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


def provide_agent(connection: SshConnection, binary: Path) -> str:
    """Bring the agent's file to the host unless it is there; return its digest (SHA-256, hexadecimal).

    Raises:
        AgentError: the host is of another kind, or the file cannot be put there or started.
    """
    system, machine = [*connection.ask("uname -s; uname -m"), "", ""][:2]
    content = _suitable(connection.destination, binary, system, machine)
    digest = hashlib.sha256(content).hexdigest()
    if not _is_there(connection, digest, len(content)):
        _copy(connection, content, digest)
    return digest


def start_command(digest: str, lease_s: int) -> str:
    """Return what the login shell must run: the agent, by sudo where that asks for no password."""
    run = f'"$f" --lease-s {lease_s}'
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
    """Remove the agent's files, those of guest images, and their folder from the host.

    Raises:
        AgentError: one stays.
    """
    left = connection.ask(REMOVE.format(folder=FOLDER))
    if left:
        raise AgentError(f"removing the agent's files from {connection.destination}: {'; '.join(left)}")


def _suitable(destination: str, binary: Path, system: str, machine: str) -> bytes:
    """Return the content of the agent for a kind of host: the binary, or the one beside it named after the machine."""
    if system != "Linux":
        raise AgentError(
            f"preparing {destination}: it runs {system or 'nothing known'}; an agent needs Linux"
        )
    other = binary.with_name(f"{binary.name}-{machine}")
    for path in (binary, other):
        try:
            content = path.read_bytes()
        except OSError as error:
            if path is binary:
                raise AgentError(f"reading the agent {path}: {error.strerror}; run `make setup`") from error
            continue
        if _machine_of(content) in (machine, None):
            return content
    raise AgentError(
        f"preparing {destination}: it is {machine}, the agent here is for {_machine_of(binary.read_bytes())}; "
        f"build the agent for {machine} and put it beside this one as {other}"
    )


def _machine_of(content: bytes) -> str | None:
    """Return the machine that an ELF file is for; None: it does not tell."""
    if content[:4] != b"\x7fELF":
        return None
    little = content[5] == 1
    return ELF_MACHINES.get(int.from_bytes(content[18:20], "little" if little else "big"))


def _is_there(connection: SshConnection, digest: str, size: int) -> bool:
    """Tell whether the whole file is there; its digest is looked at once more when the agent says hello."""
    seen = [
        word for line in connection.ask(PRESENT.format(folder=FOLDER, digest=digest)) for word in line.split()
    ]
    return seen[:1] == [digest] or seen[:2] == ["size", str(size)]


def _copy(connection: SshConnection, content: bytes, digest: str) -> None:
    script = COPY.format(folder=FOLDER, digest=digest, size=len(content))
    status, words = connection.run(f"exec sh -c '{script}'", content, COPY_DEADLINE_S)
    if status:
        meaning = COPY_FAILURES.get(status, f"copying ended with status {status}")
        said = f"{words.splitlines()[-1]}: " if words else ""
        raise AgentError(
            f"copying the agent ({len(content)} bytes) to ~/.cache/iolab on {connection.destination}: {said}{meaning}"
        )
