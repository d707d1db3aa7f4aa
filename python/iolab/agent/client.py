"""The controller's side of one agent: requests, replies matched by id, every wait bounded."""

import itertools
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from iolab.agent.answers import CommandResult, Reading, Refusal
from iolab.agent.decoding import decode, read_message
from iolab.agent.messages import (
    PROTOCOL,
    Hello,
    Json,
    Leased,
    Pong,
    ProcessEnded,
    ProcessStarted,
    Resource,
    UndoReport,
)
from iolab.agent.transport import Transport, with_words
from iolab.errors import AgentError, Refused
from iolab.locale import Phrase, Text

__all__ = ["ALL_SAMPLERS", "UNDO_DEADLINE_S", "Agent", "Pending", "Refused"]

HELLO_DEADLINE_S = 30.0
"""The agent says hello within milliseconds; a loaded machine may take seconds."""
REPLY_SLACK_S = 30.0
"""Added to a request's own deadline before the agent is called lost; busy hosts stand still for seconds."""
COMMAND_TIMEOUT_MS = 60_000
"""Configuration commands take milliseconds, but a guest on a guest on a busy computer may need 10 s to load a bridge's
module; this bounds a kernel that hangs."""
UNDO_DEADLINE_S = 60.0
"""Undoing a large lab takes about a second; this bounds a kernel that hangs."""
MOST_AT_ONCE = 448
"""Requests under way: an agent works on 512 at once and refuses more. A lab of hundreds of machines has thousands."""
GONE_DEADLINE_S = 5.0
"""An agent from which nothing more comes has ended, or does so at once."""
ENDED = "relay.ended"
"""The notification that nothing more comes through a relay."""
T = TypeVar("T")
ALL_SAMPLERS = ("cpu", "threads", "softirq", "softnet", "interfaces", "qdiscs")


Listener = Callable[[str, Json], None]
"""Takes a notification: its method and parameters; called by the thread that reads, so it must not wait."""


class AgentLost(AgentError):
    """The agent is gone, or does not answer."""

    def __init__(self, name: str, message: Text) -> None:
        super().__init__(message)
        self.name = name
        """Of the agent; empty: that of this computer."""


class Pending:
    """A request under way."""

    def __init__(self, method: str, transport: Transport, name: str = "") -> None:
        self._method = method
        self._transport = transport
        self._name = name
        self._done = threading.Event()
        self._reply: Json = None

    def settle(self, reply: Json) -> None:
        """Take the reply, or None when the agent is gone; the first one stays."""
        if not self._done.is_set():
            self._reply = reply
            self._done.set()

    def settled_within(self, limit_s: float) -> bool:
        """Wait for the reply, or the agent's end, no longer than this; tell whether it came."""
        return self._done.wait(limit_s)

    def result(self, deadline_s: float) -> Json:
        """Wait for the result.

        Raises:
            AgentLost: the agent is gone or does not answer in time.
            Refused: the agent answered with an error.
        """
        patience_s = deadline_s + self._transport.notice_s
        if not self._done.wait(patience_s):
            seen = Phrase("agent.none-after", seconds=f"{patience_s:.0f}")
            raise AgentLost(self._name, self._waiting(seen))
        if self._reply is None:
            lost = self._waiting(with_words(Phrase("agent.gone"), self._transport.last_words()))
            if not self._name:
                lost = Phrase("errors.with-advice", problem=lost, advice=Phrase("agent.clean"))
            raise AgentLost(self._name, lost)
        if "error" in self._reply:
            what = Phrase("agent.refusal-of", method=self._method)
            refusal = decode(Refusal, self._reply["error"], what, agent=self._name)
            raise Refused(self._method, refusal.code, refusal.message, refusal.data)
        return self._reply.get("result")

    def _waiting(self, seen: Phrase) -> Phrase:
        who = Phrase("agent.agent-of", name=self._name) if self._name else Phrase("agent.the-agent")
        return Phrase("agent.waiting-for-answer", who=who, method=self._method, seen=seen)

    def read(self, shape: type[T], deadline_s: float) -> T:
        """Wait for the result and return it as `shape`.

        Raises:
            AgentLost: the agent is gone or does not answer in time.
            Refused: the agent answered with an error.
            BadAnswer: the result does not have that shape.
        """
        what = Phrase("agent.result-of", method=self._method)
        return decode(shape, self.result(deadline_s), what, agent=self._name)


class Agent:
    """One agent, ready for requests. Use as a context manager: leaving it undoes everything."""

    def __init__(
        self, transport: Transport, *, name: str = "", hello_deadline_s: float = HELLO_DEADLINE_S
    ) -> None:
        self.name = name
        """Of the machine whose kernel it is on; empty: this computer."""
        self._transport = transport
        self._ids = itertools.count(1)
        self._listeners: dict[str, Listener] = {}
        self._pending: dict[int, Pending] = {}
        self._lock = threading.Condition()
        self._gone = False
        self._hello = Pending("hello", transport, name)
        self._reader = threading.Thread(target=self._read, name="agent-reader", daemon=True)
        self._reader.start()
        greeting = self._hello.result(hello_deadline_s)
        self.hello = decode(Hello, greeting, Phrase("agent.hello"), agent=name)
        _refuse_other_version(self.hello.protocol)

    def __enter__(self) -> "Agent":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> Text:
        """Let the agent undo everything and end; return what went wrong, or an empty string."""
        return self._transport.close(GONE_DEADLINE_S if self._gone else UNDO_DEADLINE_S)

    @property
    def transport(self) -> Transport:
        """How it is reached."""
        return self._transport

    @property
    def gone(self) -> bool:
        """Whether nothing more can come from it."""
        return self._gone

    def last_words(self) -> Text:
        """Return the end of what it, or its machine, said."""
        return self._transport.last_words()

    # Requests ---------------------------------------------------------------------------------------------

    def begin(self, method: str, params: Mapping[str, Json]) -> Pending:
        """Send a request without waiting for its reply; waiting for it fails when the agent is gone.

        While as many as an agent may have are under way, it waits for one of them; after a time the agent decides.
        """
        pending = Pending(method, self._transport, self.name)
        with self._lock:
            self._lock.wait_for(lambda: self._gone or len(self._pending) < MOST_AT_ONCE, REPLY_SLACK_S)
            if self._gone:
                pending.settle(None)
                return pending
            number = next(self._ids)
            self._pending[number] = pending
            present = {name: value for name, value in params.items() if value is not None}
            request = {"jsonrpc": "2.0", "id": number, "method": method, "params": present}
            try:
                self._transport.send(json.dumps(request, separators=(",", ":")))
            except AgentError:
                self._gone = True
                self._pending.pop(number).settle(None)
        return pending

    def listen(self, subject: str, listener: Listener) -> None:
        """Give the notifications about a subject (their `id`) to a listener, the last one that asked for them."""
        with self._lock:
            if not self._gone:
                self._listeners[subject] = listener

    def ignore(self, subject: str, listener: Listener) -> None:
        """Give a listener nothing more; who has asked for the same subject since keeps listening."""
        with self._lock:
            if self._listeners.get(subject) == listener:
                del self._listeners[subject]

    def call(self, method: str, params: Mapping[str, Json], deadline_s: float = REPLY_SLACK_S) -> Json:
        """Send a request and wait for its result, whatever it is."""
        return self.begin(method, params).result(deadline_s)

    def ask(
        self, shape: type[T], method: str, params: Mapping[str, Json], deadline_s: float = REPLY_SLACK_S
    ) -> T:
        """Send a request and wait for its result, which has that shape."""
        return self.begin(method, params).read(shape, deadline_s)

    def ping(self) -> int:
        """Return the agent's monotonic time [ns]."""
        return self.ask(Pong, "agent.ping", {}).now_ns

    def lease(self, lab: str, resources: Sequence[Resource]) -> Leased:
        """Take a lease on all these resources, for a lab; what dead holders left is undone first.

        Raises:
            Refused: another agent holds one of them (`is_busy`).
        """
        wanted = [{"name": one.name, "shared": one.shared} for one in resources]
        params = {"lab": lab, "resources": wanted}
        return self.ask(Leased, "lease.take", params, UNDO_DEADLINE_S)

    def run(
        self,
        argv: Sequence[str],
        *,
        netns: str | None = None,
        timeout_ms: int = COMMAND_TIMEOUT_MS,
        undo: Json = None,
        undo_key: str | None = None,
    ) -> CommandResult:
        """Run a program to its end."""
        return self.run_all([(tuple(argv), netns)], timeout_ms=timeout_ms, undo=undo, undo_key=undo_key)[0]

    def run_all(
        self,
        commands: Sequence[tuple[tuple[str, ...], str | None]],
        *,
        timeout_ms: int = COMMAND_TIMEOUT_MS,
        undo: Json = None,
        undo_key: str | None = None,
    ) -> list[CommandResult]:
        """Run (argv, netns) pairs at the same time; return their results in order."""
        waiting = [
            self.begin(
                "command.run",
                {
                    "argv": list(argv),
                    "netns": netns,
                    "timeout_ms": timeout_ms,
                    "undo": undo,
                    "undo_key": undo_key,
                },
            )
            for argv, netns in commands
        ]
        deadline_s = timeout_ms / 1000 + REPLY_SLACK_S
        return [pending.read(CommandResult, deadline_s) for pending in waiting]

    def start(
        self,
        name: str,
        argv: Sequence[str],
        *,
        netns: str | None = None,
        environment: Mapping[str, str] | None = None,
        cpus: Sequence[int] = (),
        files: Sequence[Json] = (),
        own_user: Json = None,
        confined: Json = None,
        stdin: str = "",
        ready: Json = None,
        timeout_ms: int = 5_000,
        capture_bytes: int = 4 << 20,
    ) -> ProcessStarted:
        """Start a supervised process, and wait until it is ready.

        It runs on those CPUs alone where any are given, and as a user of its own where what this one reads and writes
        is given. With `confined` it reaches what is named there, and nothing else (contract, process.start).
        """
        params = {
            "id": name,
            "argv": list(argv),
            "netns": netns,
            "env": dict(environment) if environment else None,
            "cpus": list(cpus) or None,
            "files": list(files) or None,
            "own_user": own_user,
            "confined": confined,
            "stdin": stdin or None,
            "ready": ready,
            "timeout_ms": timeout_ms,
            "capture_bytes": capture_bytes,
        }
        return self.ask(ProcessStarted, "process.start", params, timeout_ms / 1000 + REPLY_SLACK_S)

    def wait(self, name: str, timeout_ms: int) -> ProcessEnded:
        """Wait for a supervised process to end, and collect it."""
        params = {"id": name, "timeout_ms": timeout_ms}
        return self.ask(ProcessEnded, "process.wait", params, timeout_ms / 1000 + REPLY_SLACK_S)

    def read_samples(self, netns: Sequence[str | None], samplers: Sequence[str] = ALL_SAMPLERS) -> Reading:
        """Read counters once."""
        raw = self.call("sample.read", {"samplers": list(samplers), "netns": list(netns)})
        reading = decode(Reading, raw, Phrase("agent.samples"), agent=self.name)
        return Reading(reading.observations, raw["observations"], self.name)

    def undo(
        self,
        journal: str = "self",
        keys: Sequence[str] | None = None,
        deadline_s: float = UNDO_DEADLINE_S,
    ) -> UndoReport:
        """Undo a journal, or the entries with these keys, in reverse order."""
        params = {"journal": journal, "keys": None if keys is None else list(keys)}
        return self.ask(UndoReport, "journal.undo", params, deadline_s)

    # Replies ----------------------------------------------------------------------------------------------

    def _read(self) -> None:
        while (line := self._transport.receive()) is not None:
            message = read_message(line)
            if message.get("method") == "hello":
                self._hello.settle({"result": message.get("params")})
            elif "method" in message:
                self._notify(message)
            else:
                self._settle(message)
        with self._lock:
            self._gone = True
            lost, listeners = list(self._pending.values()), dict(self._listeners)
            self._pending.clear()
            self._listeners.clear()
            self._lock.notify_all()
        for pending in [self._hello, *lost]:
            pending.settle(None)
        for subject, listener in listeners.items():
            listener(ENDED, {"id": subject, "reason": Phrase("agent.relaying-agent-gone")})

    def _notify(self, message: dict[str, Json]) -> None:
        params = message.get("params")
        subject = params.get("id") if isinstance(params, dict) else None
        with self._lock:
            listener = self._listeners.get(subject) if isinstance(subject, str) else None
        if listener is not None:
            listener(str(message["method"]), params)

    def _settle(self, message: dict[str, Json]) -> None:
        number = message.get("id")
        with self._lock:
            pending = self._pending.pop(number, None) if type(number) is int else None  # true is no 1
            self._lock.notify()
        if pending is not None:
            pending.settle(message)


def _refuse_other_version(spoken: str) -> None:
    """Raise unless an agent speaks our version or a newer minor one: an older one leaves out what figures need."""
    words = spoken.split(".")
    numbers = tuple(int(word) for word in words if word.isdecimal())
    if len(numbers) != len(words) or numbers[:1] != PROTOCOL[:1] or numbers < PROTOCOL:
        major, minor = PROTOCOL
        raise AgentError(Phrase("agent.other-protocol", spoken=spoken[:20], major=major, minor=minor))
