"""A connection to a remote host through the system's OpenSSH, shared by all sessions on the host.

The connection ends with this process.

The user's ssh configuration, keys and known hosts apply; nothing in this module weakens them, and nothing asks for a
password. The module is independent of agents: the module `ssh` starts an agent at the other end. The module reads the
clock for its deadlines.
"""

import contextlib
import os
import select
import shlex
import subprocess
import tempfile
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from iolab.errors import AgentError
from iolab.locale import Phrase, Text

SSH_ENV = "IOLAB_SSH"
"""Environment variable with the ssh command, like GIT_SSH_COMMAND: `ssh -F lab.conf`."""
CONNECT_DEADLINE_S = 60.0
"""Time limit until the host answers: name resolution, jump hosts, login."""
ANSWER_DEADLINE_S = 30.0
"""Time limit of short commands; a busy host may take seconds."""
CLOSE_DEADLINE_S = 5.0
SSH_FAILED = 255
"""Exit status of ssh itself, and of a session whose program was killed."""
NOISE_BYTES = 64 * 1024
"""Maximum output of a login shell before the first command [bytes]."""
LAST_WORDS_BYTES = 1000
ALIVE_INTERVAL_S, ALIVE_COUNT = 5, 3
"""Interval of ssh's keep-alive messages, and the number of unanswered messages after which the connection is closed."""
SILENCE_S = ALIVE_INTERVAL_S * (ALIVE_COUNT + 1)
"""Time after which ssh closes a cut connection."""
SOCKET_FOLDER = "iolab-ssh-"
SOCKET_FOLDER_LENGTH = 60
"""Maximum length of the socket's folder: a socket path has at most 107 bytes, and ssh temporarily appends 17."""

COMMON = ("LogLevel=ERROR", "ClearAllForwardings=yes", "RemoteCommand=none", "PermitLocalCommand=no",
          "ForwardAgent=no", "ForwardX11=no")  # fmt: skip
MASTER = (
    "BatchMode=yes",
    "ConnectTimeout=20",
    "ConnectionAttempts=1",
    f"ServerAliveInterval={ALIVE_INTERVAL_S}",
    f"ServerAliveCountMax={ALIVE_COUNT}",
    "ControlMaster=yes",
    "ControlPersist=no",
)
SESSION = ("ControlMaster=no", "ProxyCommand=false")
"""ProxyCommand that prevents a session from opening its own connection when the shared one is lost."""


def ssh_command() -> tuple[str, ...]:
    """Return the ssh command in the environment, or plain ssh.

    Raises:
        AgentError: the variable cannot be parsed.
    """
    text = os.environ.get(SSH_ENV, "")
    try:
        return tuple(shlex.split(text)) or ("ssh",)
    except ValueError as error:
        wrong = Phrase("agent.ssh-command-unreadable", variable=SSH_ENV, seen=repr(text), error=error)
        raise AgentError(wrong) from error


LONGEST_LINE_BYTES = 16 << 20
"""Maximum length of a line from an agent (contract/agent-v1.md)."""


class Lines:
    """Reader of a pipe's lines with a time limit."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._descriptor = pipe.fileno()
        self._pipe = pipe
        self._bytes = bytearray()
        self._looked = 0
        self.endless = False
        """Whether reading stopped because a line exceeded `LONGEST_LINE_BYTES`."""

    def next(self, until: float | None = None) -> bytes | None:
        """Return the next line without its end; None at the end of the pipe, or if a line is too long.

        Raises:
            TimeoutError: the time `until` (monotonic clock) has passed.
        """
        while (end := self._bytes.find(b"\n", self._looked)) < 0:
            self._looked = len(self._bytes)
            self.endless = self._looked > LONGEST_LINE_BYTES
            if self.endless:
                self._bytes.clear()
                return None
            self._wait(until)
            read = os.read(self._descriptor, 1 << 20)
            if not read:
                return None
            self._bytes += read
        line = bytes(self._bytes[:end])
        del self._bytes[: end + 1]
        self._looked = 0
        return line

    def _wait(self, until: float | None) -> None:
        if until is None:
            return
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        if not poll.poll(max(0.0, until - time.monotonic()) * 1000):
            raise TimeoutError


class SshConnection:
    """A connection to one host, with the shell that keeps it open; sessions share the connection."""

    def __init__(self, destination: str, deadline_s: float = CONNECT_DEADLINE_S) -> None:
        self.destination = destination
        """ssh destination, as in the experiment: user@name, an alias, or ssh://user@name:port."""
        self._ssh = ssh_command()
        short = len(tempfile.gettempdir()) < SOCKET_FOLDER_LENGTH
        parent = Path(tempfile.gettempdir() if short else "/tmp")
        _sweep(parent)
        self._folder = tempfile.TemporaryDirectory(prefix=SOCKET_FOLDER, dir=parent)
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the connection
        try:
            self._master = self._popen(MASTER, "exec sh", self._log)
        except AgentError:
            self._folder.cleanup()
            raise
        assert self._master.stdout is not None
        self._lines = Lines(self._master.stdout)
        try:
            self.ask("true", deadline_s)
        except BaseException:
            self.close(patience_s=0)
            raise

    def ask(self, script: str, deadline_s: float = ANSWER_DEADLINE_S) -> list[str]:
        """Run a short sh script on the host; return the non-empty lines of its output.

        Raises:
            AgentError: the host was not reached, the connection is lost, or the host does not answer in time.
        """
        mark = f"iolab-{uuid.uuid4().hex}"
        until = time.monotonic() + deadline_s
        assert self._master.stdin is not None
        with contextlib.suppress(OSError):  # reading the output gives a better error message
            self._master.stdin.write(f"echo; echo {mark}\n{script}\necho; echo {mark}\n".encode())
            self._master.stdin.flush()
        try:
            self._skip_to(mark.encode(), until)
            answer = self._skip_to(mark.encode(), until)
        except TimeoutError:
            raise self.failure(Phrase("agent.no-answer-within", seconds=f"{deadline_s:.0f}")) from None
        return [line.decode(errors="replace") for line in answer if line]

    def start(self, command: str, stderr: IO[bytes] | int) -> subprocess.Popen[bytes]:
        """Start a session with a command that every login shell on the host understands."""
        return self._popen(SESSION, command, stderr)

    def run(self, command: str, data: bytes, deadline_s: float) -> tuple[int, str]:
        """Run a command with a given standard input; return its exit status and its standard error.

        Raises:
            AgentError: the connection is lost, or the command does not exit in time.
        """
        session = self.start(command, subprocess.PIPE)
        try:
            _, errors = session.communicate(data, deadline_s)
        except subprocess.TimeoutExpired:
            session.kill()
            session.communicate()
            raise self.failure(Phrase("agent.no-end-within", seconds=f"{deadline_s:.0f}")) from None
        if session.returncode == SSH_FAILED:
            raise self.failure(Phrase("agent.connection-gone"))
        return session.returncode, errors.decode(errors="replace").strip()[-LAST_WORDS_BYTES:]

    def is_up(self, patience_s: float = 1.0) -> bool:
        """Whether the connection is up; a connection that has just broken is detected after a short wait."""
        try:
            self._master.wait(patience_s)
        except subprocess.TimeoutExpired:
            return True
        return False

    def failure(self, seen: Text) -> AgentError:
        """Return an error with ssh's message, its meaning, and advice."""
        if not self.is_up():
            seen = self.last_words() or seen
        reason = explained(seen, self._ssh, self.destination)
        return AgentError(Phrase("agent.host-not-reached", host=self.destination, reason=reason))

    def last_words(self) -> str:
        """Return the last part of ssh's log."""
        return tail(self._log)

    def close(self, patience_s: float = CLOSE_DEADLINE_S) -> None:
        """Close the shell and the connection; kill them if they do not end in time."""
        assert self._master.stdin is not None
        with contextlib.suppress(OSError):
            self._master.stdin.close()
        for end in (self._master.terminate, self._master.kill):
            try:
                self._master.wait(patience_s)
                break
            except subprocess.TimeoutExpired:
                end()
                patience_s = 1
        self._master.wait()
        self._folder.cleanup()

    def _skip_to(self, mark: bytes, until: float) -> list[bytes]:
        """Return the lines before the mark."""
        skipped: list[bytes] = []
        size = 0
        while (line := self._lines.next(until)) != mark:
            if line is None:
                raise self.failure(_said(skipped) or Phrase("agent.connection-ended"))
            skipped.append(line)
            size += len(line)
            if size > NOISE_BYTES:
                raise self.failure(Phrase("agent.noisy-login", most=NOISE_BYTES, end=repr(_said(skipped))))
        return skipped

    def _popen(
        self, options: Sequence[str], command: str, stderr: IO[bytes] | int
    ) -> subprocess.Popen[bytes]:
        settings = [word for option in (*options, *COMMON) for word in ("-o", option)]
        argv = [*self._ssh, "-T", "-S", f"{self._folder.name}/s", *settings, "--", self.destination, command]
        try:
            # A separate session: Ctrl-C on the terminal does not reach ssh, and ssh has no terminal for a password
            # prompt.
            return subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, start_new_session=True
            )
        except OSError as error:
            failed = Phrase("agent.ssh-not-started", ssh=self._ssh[0], error=error.strerror, variable=SSH_ENV)
            raise AgentError(failed) from error


def explained(words: Text, ssh: Sequence[str], destination: str) -> Text:
    """Return ssh's message with its meaning and advice."""
    for said, meaning in _meanings(shlex.join(ssh), destination).items():
        lines = [line.strip() for line in str(words).splitlines() if said in line]
        if lines:
            return Phrase("errors.failed-with-reason", what=lines[-1], reason=meaning)
    return words


def _meanings(ssh: str, destination: str) -> dict[str, Phrase]:
    """Return a mapping from messages of ssh to their meaning and advice."""
    cut = ("not responding", "Broken pipe", "Connection reset", "closed by remote host")
    return {
        "HOST IDENTIFICATION HAS CHANGED": Phrase("agent.host-key-changed"),
        "Host key verification failed": Phrase("agent.host-key-unknown", ssh=ssh, host=destination),
        "Permission denied": Phrase("agent.no-key-accepted", ssh=ssh, host=destination),
        "Could not resolve hostname": Phrase("agent.no-such-host"),
        "Connection refused": Phrase("agent.no-ssh-server"),
        "No route to host": Phrase("agent.no-way-to-host"),
        "Network is unreachable": Phrase("agent.no-way-to-host"),
        "imed out": Phrase("agent.host-does-not-answer"),
        **dict.fromkeys(cut, Phrase("agent.connection-was-cut")),
    }


def tail(log: IO[bytes]) -> str:
    """Return the last part of a log; the position at which the log's writer continues is unchanged."""
    size = os.fstat(log.fileno()).st_size
    begin = max(0, size - LAST_WORDS_BYTES)
    return os.pread(log.fileno(), LAST_WORDS_BYTES, begin).decode(errors="replace").strip()


def _sweep(parent: Path) -> None:
    """Remove the empty folders of connections whose controller was killed; folders in use contain a socket."""
    for folder in parent.glob(f"{SOCKET_FOLDER}*"):
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime > 2 * CONNECT_DEADLINE_S:
                folder.rmdir()


def _said(lines: Sequence[bytes]) -> str:
    return b"\n".join(lines).decode(errors="replace").strip()[-200:]
