"""An agent behind another agent: in a guest, through its channel or console; lines pass through relays at any depth.

What is no protocol (a kernel's words on a console) is kept: the last lines say why a guest is gone.
"""

import contextlib
import json
import queue
from collections import deque
from collections.abc import Callable

from iolab.agent.client import ENDED, REPLY_SLACK_S, Agent, AgentLost, Refused
from iolab.agent.messages import Json
from iolab.errors import AgentError
from iolab.locale import Phrase, Text

OPEN_TIMEOUT_MS = 10_000
KEPT_LINES = 200
"""Of a console; a kernel's panic takes about 60."""

Watch = Callable[[str], None]
"""Takes a line that is no protocol, at once; it must not wait."""


def at_socket(path: str) -> Json:
    """Return where a unix socket of the parent is, for `relay.open`."""
    return {"kind": "socket", "path": path}


def at_terminal(path: str) -> Json:
    """Return where a terminal of the parent is, for `relay.open`."""
    return {"kind": "terminal", "path": path}


class RelayedTransport:
    """A Transport over a relay of the parent's agent."""

    def __init__(
        self,
        parent: Agent,
        relay: str,
        at: Json,
        *,
        timeout_ms: int = OPEN_TIMEOUT_MS,
        watch: Watch | None = None,
        words: Callable[[], str] | None = None,
    ) -> None:
        """Open the relay.

        Raises:
            Refused: nobody answers there.
            AgentLost: the parent's agent is gone.
        """
        self.noise: deque[str] = deque(maxlen=KEPT_LINES)
        """The last lines that were no protocol."""
        self._parent, self._relay = parent, relay
        self._watch, self._words = watch, words
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reason: Text = ""
        parent.listen(relay, self._take)
        try:
            params = {"id": relay, "at": at, "timeout_ms": timeout_ms}
            parent.call("relay.open", params, timeout_ms / 1000 + REPLY_SLACK_S)
        except AgentError:
            parent.ignore(relay, self._take)
            raise

    @property
    def notice_s(self) -> float:
        """That of the parent's connection; see Transport."""
        return self._parent.transport.notice_s

    @property
    def ended(self) -> Text:
        """Why nothing more comes; empty: it is open."""
        return self._reason

    def send(self, line: str) -> None:
        """Send one line; see Transport."""
        if self._reason:
            words = self.last_words()
            raise AgentError(Phrase("agent.relay-closed", relay=self._relay, words=words))
        # Not waited for: the request inside has a deadline of its own, and relays keep the order.
        self._parent.begin("relay.send", {"id": self._relay, "message": json.loads(line)})

    def receive(self) -> str | None:
        """Wait for the next line; see Transport."""
        return self._lines.get()

    def close(self, deadline_s: float) -> Text:
        """Close the relay: the agent behind it undoes everything; see Transport."""
        with contextlib.suppress(Refused, AgentLost):  # it has ended already, or its parent has
            self._parent.call("relay.close", {"id": self._relay}, deadline_s)
        self.end(Phrase("agent.closed"))
        return ""

    def end(self, reason: Text) -> None:
        """Expect nothing more from the other side; the first reason stays."""
        self._reason = self._reason or reason
        self._parent.ignore(self._relay, self._take)
        self._lines.put(None)

    def last_words(self) -> Text:
        """Return why it ended, and the last lines that came; see Transport."""
        said = "\n".join(self.noise) if self._words is None else self._words()
        if not (self._reason and said):
            return self._reason or said
        return Phrase("errors.several-clauses", clauses=[self._reason, said])

    def _take(self, method: str, params: Json) -> None:
        match method, params:
            case "relay.received", {"message": dict() as message}:
                self._lines.put(json.dumps(message, separators=(",", ":")))
            case "relay.noise", {"text": str() as text}:
                self.noise.append(text)
                if self._watch is not None:
                    self._watch(text)
            case _ if method == ENDED:
                reason = params.get("reason", "")
                known = reason if isinstance(reason, Phrase) else str(reason)
                self.end(known or Phrase("agent.closed-by-other-side"))
