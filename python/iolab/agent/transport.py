"""Line transports to agents: the protocol class, and the transport to a local child process."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Protocol

from iolab.errors import AgentError
from iolab.locale import Phrase, Text

AGENT_ENV = "IOLAB_AGENT"
"""Environment variable with the path of an alternative agent binary."""
LAST_WORDS_BYTES = 1000
"""Number of log bytes that are shown when an agent is lost."""


class Transport(Protocol):
    """A two-way stream of lines."""

    @property
    def notice_s(self) -> float:
        """Time until a cut connection is detected; the wait for answers is longer by this time [s]."""

    def send(self, line: str) -> None:
        """Send one line (without its end). Raises AgentError if the agent is lost."""

    def receive(self) -> str | None:
        """Wait for the next line; None if the agent is lost."""

    def close(self, deadline_s: float) -> Text:
        """Close the agent's input, wait until it exits, and return its exit status as text."""

    def last_words(self) -> Text:
        """Return the last part of the agent's log."""


def with_words(text: Phrase, words: Text) -> Phrase:
    """Return a phrase followed by the last output (`words`), if there is any."""
    return Phrase("agent.with-last-words", text=text, words=words) if words else text


class LocalTransport:
    """An agent that is a child process."""

    notice_s = 0.0
    """0 s, because a child's exit closes its pipe, which is detected at once."""

    def __init__(self, binary: Path, environment: dict[str, str] | None = None) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the agent
        try:
            # A separate session: Ctrl-C on the terminal reaches only this process, which then decides about the agent.
            self._child = subprocess.Popen(
                [binary],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                start_new_session=True,
                env={**os.environ, **(environment or {})},
            )
        except OSError as error:
            failed = Phrase("agent.not-started", binary=binary, error=error.strerror)
            raise AgentError(failed) from error
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._stdin = self._child.stdin
        self._stdout = self._child.stdout

    @property
    def pid(self) -> int:
        """Process ID of the agent."""
        return self._child.pid

    def send(self, line: str) -> None:
        """Send one line; see Transport."""
        try:
            self._stdin.write(line.encode() + b"\n")
            self._stdin.flush()
        except (OSError, ValueError) as error:
            raise AgentError(Phrase("agent.process-gone", pid=self.pid)) from error

    def receive(self) -> str | None:
        """Wait for the next line; see Transport."""
        line = self._stdout.readline()
        return line.decode(errors="replace") if line.endswith(b"\n") else None

    def close(self, deadline_s: float) -> Text:
        """Close the agent's input (dead-man's switch: it undoes all changes) and wait; see Transport."""
        with contextlib.suppress(OSError):
            self._stdin.close()
        try:
            status = self._child.wait(deadline_s)
        except subprocess.TimeoutExpired:
            return Phrase("agent.still-undoing", seconds=f"{deadline_s:.0f}")
        if status == 0:
            return ""
        how = Phrase("agent.ended-with-status", status=status)
        if status < 0:
            how = Phrase("agent.ended-by-signal", signal=-status)
        return with_words(how, self.last_words())

    def last_words(self) -> str:
        """Return the last part of the agent's standard error; see Transport."""
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - LAST_WORDS_BYTES))
        return self._log.read().decode(errors="replace").strip()


def find_agent() -> Path:
    """Return the agent binary: the one that the environment variable names, else the one next to this Python, else the
    one in the search path.

    Raises:
        AgentError: no agent binary was found.
    """
    named = os.environ.get(AGENT_ENV)
    beside = Path(sys.executable).with_name("iolab-agent")
    found = named or (str(beside) if beside.exists() else shutil.which("iolab-agent"))
    if found is None:
        raise AgentError(Phrase("agent.binary-not-found", python=sys.executable))
    return Path(found)
