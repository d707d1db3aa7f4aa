"""An agent on a remote host, reached through ssh: copied to the host if necessary, started, and kept alive with pings.

If a cable is cut, the connection stays open at the other end, so the remote agent undoes all changes when it receives
nothing for `UNHEARD_S`. Pings count as input. This module reads the clock for its deadlines.
"""

import contextlib
import json
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from iolab.agent.ssh_connection import (
    CONNECT_DEADLINE_S,
    NOISE_BYTES,
    SILENCE_S,
    SSH_FAILED,
    Lines,
    SshConnection,
    tail,
)
from iolab.agent.ssh_files import Tell, provide_agent, provide_files, remove_agents, start_command
from iolab.agent.transport import with_words
from iolab.errors import AgentError
from iolab.locale import Phrase, Text

UNHEARD_S = 20
"""Time without input after which a remote agent undoes its changes; ssh itself gives up after SILENCE_S."""
PING_INTERVAL_S = UNHEARD_S / 5
HELLO_DEADLINE_S = 20.0
"""Time limit of the greeting; the agent starts fast, but sudo may wait for name resolution."""
PING = b'{"jsonrpc":"2.0","id":0,"method":"agent.ping","params":{}}\n'
"""ID of pings; the client's IDs start at 1, so it ignores the answers to pings."""


class SshTransport:
    """An agent on a remote host; see Transport."""

    notice_s = SILENCE_S

    def __init__(
        self,
        destination: str,
        binary: Path,
        *,
        leave_file: bool = True,
        connect_deadline_s: float = CONNECT_DEADLINE_S,
    ) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the agent
        self._writing = threading.Lock()
        self._closed = threading.Event()
        self._provided: dict[Path, str] = {}
        self._providing = threading.Lock()
        self._connection = SshConnection(destination, connect_deadline_s)
        try:
            digest = provide_agent(self._connection, binary)
            self._session = self._connection.start(start_command(digest, UNHEARD_S), self._log)
        except BaseException:
            self._connection.close()
            raise
        assert self._session.stdin is not None
        assert self._session.stdout is not None
        self._input, self._lines = self._session.stdin, Lines(self._session.stdout)
        try:
            hello = self._greeting(digest)
        except BaseException:
            self._session.kill()
            self._session.communicate()
            self._connection.close()
            raise
        self._hello: str | None = hello
        busy = bool(json.loads(hello)["params"].get("holders"))
        self._leave_file = leave_file or busy  # a different lab on that host uses the file
        threading.Thread(target=self._keep_alive, name="ssh-keep-alive", daemon=True).start()

    @property
    def destination(self) -> str:
        """ssh destination of the agent, as in the experiment."""
        return self._connection.destination

    def login_setting(self, name: str) -> str:
        """Return an environment variable of the remote login; empty: the variable is not set.

        Raises:
            AgentError: the connection is lost.
        """
        return "".join(self._connection.ask(f'echo "${name}"')[:1])

    def provide(self, files: Sequence[Path], tell: Tell) -> tuple[str, ...]:
        """Copy files to the host if they are missing there; return their paths on the host.

        Each file is checked only once per connection.

        Raises:
            AgentError: the host has too little space, or the connection is lost.
        """
        with self._providing:  # guests that start in parallel share one check
            lacking = [path for path in files if path not in self._provided]
            if lacking:
                self._provided |= zip(lacking, provide_files(self._connection, lacking, tell), strict=True)
            return tuple(self._provided[path] for path in files)

    def send(self, line: str) -> None:
        """Send one line; see Transport."""
        try:
            self._write(line.encode() + b"\n")
        except (OSError, ValueError) as error:
            words = self.last_words()
            raise AgentError(Phrase("agent.host-gone", host=self.destination, words=words)) from error

    def receive(self) -> str | None:
        """Wait for the next line; see Transport."""
        if self._hello is not None:
            line, self._hello = self._hello, None
            return line
        read = self._lines.next()
        return None if read is None else read.decode(errors="replace")

    def close(self, deadline_s: float) -> Text:
        """Close the agent's input (dead-man's switch: it undoes all changes), wait, and close the connection.

        See Transport.
        """
        self._closed.set()
        with self._writing, contextlib.suppress(OSError):
            self._input.close()
        try:
            status = self._session.wait(deadline_s)
            if not self._leave_file and self._connection.is_up(0):
                remove_agents(self._connection)
        except subprocess.TimeoutExpired:
            undoing = Phrase("agent.host-still-undoing", host=self.destination, seconds=f"{deadline_s:.0f}")
            return self._with_advice(undoing)
        finally:
            self._connection.close()
        if status == 0:
            return ""
        if status == SSH_FAILED:
            return Phrase("agent.host-lost", host=self.destination, words=self.last_words())
        ended = Phrase("agent.host-ended-with-status", host=self.destination, status=status)
        return self._with_advice(with_words(ended, tail(self._log)))

    def last_words(self) -> Text:
        """Return the last output of the agent and of ssh, with advice; see Transport."""
        words: Text = " ".join(filter(None, (tail(self._log), self._connection.last_words())))
        if self._lines.endless:
            words = Phrase("errors.several-clauses", clauses=[Phrase("agent.endless-line"), words])
        if self._connection.is_up():
            return self._with_advice(words or Phrase("agent.killed"))
        words = words or Phrase("agent.connection-ended")
        return Phrase("agent.connection-cut", words=words, host=self.destination, seconds=UNHEARD_S)

    def _with_advice(self, problem: Text) -> Phrase:
        advice = Phrase("agent.clean-host", host=self.destination)
        return Phrase("errors.with-advice", problem=problem, advice=advice)

    def _write(self, data: bytes) -> None:
        with self._writing:
            self._input.write(data)
            self._input.flush()

    def _keep_alive(self) -> None:
        while not self._closed.wait(PING_INTERVAL_S):
            try:
                self._write(PING)
            except (OSError, ValueError):
                return

    def _greeting(self, digest: str) -> str:
        """Return the agent's first line; output of the login before it is skipped."""
        until = time.monotonic() + HELLO_DEADLINE_S
        skipped = b""
        while len(skipped) < NOISE_BYTES:
            try:
                line = self._lines.next(until)
            except TimeoutError:
                seen = Phrase("agent.no-greeting-within", seconds=f"{HELLO_DEADLINE_S:.0f}")
                raise self._no_greeting(seen, skipped) from None
            if line is None:
                seen = Phrase("agent.line-did-not-end") if self._lines.endless else Phrase("agent.ended")
                raise self._no_greeting(seen, skipped)
            build = _build_in(line)
            if build is None:
                skipped += line + b"\n"
            elif build != f"sha256:{digest}":
                raise self._no_greeting(Phrase("agent.other-build", build=build), b"")
            else:
                return line.decode(errors="replace")
        raise self._no_greeting(Phrase("agent.noise-before-greeting", most=NOISE_BYTES), skipped)

    def _no_greeting(self, seen: Phrase, skipped: bytes) -> AgentError:
        if not self._connection.is_up(0):
            return self._connection.failure(seen)
        words = " ".join(filter(None, (tail(self._log), skipped.decode(errors="replace").strip()[-200:])))
        return AgentError(
            Phrase("agent.not-started-on-host", host=self.destination, seen=with_words(seen, words))
        )


def _build_in(line: bytes) -> str | None:
    """Return the build digest in a greeting; None: the line is not a greeting."""
    if not line.startswith(b"{"):
        return None
    try:
        message = json.loads(line)
    except ValueError:
        return None
    if message.get("method") != "hello" or not isinstance(message.get("params"), dict):
        return None
    return str(message["params"].get("build", ""))
