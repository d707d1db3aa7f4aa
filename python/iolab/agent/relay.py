"""Connect to an agent in a guest through the relays of parent agents, at any nesting depth.

The relay uses the guest's channel or console. Lines outside the protocol (the kernel's output on a console) are kept:
the last of these lines show why the connection to a guest was lost.
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
"""Maximum number of kept console lines; a kernel panic has about 60."""

Watch = Callable[[str], None]
"""Callback for a line outside the protocol; it must not block."""


def at_socket(path: str) -> Json:
    """Return the parameters of `relay.open` for a unix socket on the parent."""
    return {"kind": "socket", "path": path}


def at_terminal(path: str) -> Json:
    """Return the parameters of `relay.open` for a terminal on the parent."""
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
            Refused: nothing listens at the other end.
            AgentLost: the parent's agent is lost.
        """
        self.noise: deque[str] = deque(maxlen=KEPT_LINES)
        """The last lines outside the protocol."""
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
        """Time until a cut connection is detected: that of the parent's connection; see Transport."""
        return self._parent.transport.notice_s

    @property
    def ended(self) -> Text:
        """Reason why the relay was closed; empty: the relay is open."""
        return self._reason

    def send(self, line: str) -> None:
        """Send one line; see Transport."""
        if self._reason:
            words = self.last_words()
            raise AgentError(Phrase("agent.relay-closed", relay=self._relay, words=words))
        # No wait for the answer: the relayed request has its own deadline, and relays keep the order.
        self._parent.begin("relay.send", {"id": self._relay, "message": json.loads(line)})

    def receive(self) -> str | None:
        """Wait for the next line; see Transport."""
        return self._lines.get()

    def close(self, deadline_s: float) -> Text:
        """Close the relay, so that the agent behind it undoes all changes; see Transport."""
        with contextlib.suppress(Refused, AgentLost):  # the relay or its parent has already ended
            self._parent.call("relay.close", {"id": self._relay}, deadline_s)
        self.end(Phrase("agent.closed"))
        return ""

    def end(self, reason: Text) -> None:
        """Record why the other end closed; the first reason is kept."""
        self._reason = self._reason or reason
        self._parent.ignore(self._relay, self._take)
        self._lines.put(None)

    def last_words(self) -> Text:
        """Return why the connection ended, and the last lines received; see Transport."""
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
