"""The controller's client of one agent: requests, replies matched by ID, and a time limit for every wait."""

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
"""Time limit of the greeting; the agent sends it within milliseconds, on a busy host within seconds."""
REPLY_SLACK_S = 30.0
"""Time added to a request's own deadline before the agent counts as lost; busy hosts stall for seconds."""
COMMAND_TIMEOUT_MS = 60_000
"""Time limit of configuration commands, which take milliseconds; a nested guest on a busy host may need 10 s to
load a bridge's module. The limit detects kernels that hang."""
UNDO_DEADLINE_S = 60.0
"""Time limit of an undo; a large lab takes about a second. The limit detects kernels that hang."""
MOST_AT_ONCE = 448
"""Maximum number of requests in flight: an agent processes 512 requests at once and rejects more. The setup of a lab
with hundreds of machines needs thousands of requests."""
GONE_DEADLINE_S = 5.0
"""Time limit for the exit of an agent that has closed its output."""
ENDED = "relay.ended"
"""Notification that a relay is closed."""
T = TypeVar("T")
ALL_SAMPLERS = ("cpu", "threads", "softirq", "softnet", "interfaces", "qdiscs")


Listener = Callable[[str, Json], None]
"""Callback for notifications, with method and parameters; the reader thread calls it, so it must not block."""


class AgentLost(AgentError):
    """The agent is lost, or does not answer."""

    def __init__(self, name: str, message: Text) -> None:
        super().__init__(message)
        self.name = name
        """Machine of the agent; empty: the local host."""


class Pending:
    """A request in flight."""

    def __init__(self, method: str, transport: Transport, name: str = "") -> None:
        self._method = method
        self._transport = transport
        self._name = name
        self._done = threading.Event()
        self._reply: Json = None

    def settle(self, reply: Json) -> None:
        """Store the reply, or None if the agent is lost; later calls are ignored."""
        if not self._done.is_set():
            self._reply = reply
            self._done.set()

    def settled_within(self, limit_s: float) -> bool:
        """Wait for the reply or the agent's end, up to a time limit; return whether the reply arrived."""
        return self._done.wait(limit_s)

    def result(self, deadline_s: float) -> Json:
        """Wait for the result and return it.

        Raises:
            AgentLost: the agent is lost or does not answer in time.
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
        """Wait for the result and decode it to the type `shape`.

        Raises:
            AgentLost: the agent is lost or does not answer in time.
            Refused: the agent answered with an error.
            BadAnswer: the result does not fit this type.
        """
        what = Phrase("agent.result-of", method=self._method)
        return decode(shape, self.result(deadline_s), what, agent=self._name)


class Agent:
    """A connected agent. Use the agent as a context manager: leaving the context undoes all changes."""

    def __init__(
        self, transport: Transport, *, name: str = "", hello_deadline_s: float = HELLO_DEADLINE_S
    ) -> None:
        self.name = name
        """Machine whose kernel the agent manages; empty: the local host."""
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
        """Let the agent undo all changes and exit; return the errors as text, or an empty string."""
        return self._transport.close(GONE_DEADLINE_S if self._gone else UNDO_DEADLINE_S)

    @property
    def transport(self) -> Transport:
        """Transport of the agent."""
        return self._transport

    @property
    def gone(self) -> bool:
        """Whether the connection to the agent has ended."""
        return self._gone

    def last_words(self) -> Text:
        """Return the last output of the agent, or of its machine."""
        return self._transport.last_words()

    # Requests ---------------------------------------------------------------------------------------------

    def begin(self, method: str, params: Mapping[str, Json]) -> Pending:
        """Send a request without waiting for its reply; the wait for the reply raises an error if the agent is lost.

        If the maximum number of requests is in flight, wait for one of them; after a time limit, send the request
        anyway.
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
        """Deliver the notifications about a subject (their `id`) to a listener, which replaces an earlier one."""
        with self._lock:
            if not self._gone:
                self._listeners[subject] = listener

    def ignore(self, subject: str, listener: Listener) -> None:
        """Stop the delivery to a listener; a newer listener for the same subject is unaffected."""
        with self._lock:
            if self._listeners.get(subject) == listener:
                del self._listeners[subject]

    def call(self, method: str, params: Mapping[str, Json], deadline_s: float = REPLY_SLACK_S) -> Json:
        """Send a request, wait for its result, and return the result undecoded."""
        return self.begin(method, params).result(deadline_s)

    def ask(
        self, shape: type[T], method: str, params: Mapping[str, Json], deadline_s: float = REPLY_SLACK_S
    ) -> T:
        """Send a request, wait for its result, and decode the result to the type `shape`."""
        return self.begin(method, params).read(shape, deadline_s)

    def ping(self) -> int:
        """Return the agent's monotonic time [ns]."""
        return self.ask(Pong, "agent.ping", {}).now_ns

    def lease(self, lab: str, resources: Sequence[Resource]) -> Leased:
        """Lease all these resources for a lab; the agent first undoes the changes of earlier holders that were killed.

        Raises:
            Refused: a different agent holds one of the resources (`is_busy`).
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
        """Run programs, given as (argv, netns) pairs, in parallel; return their results in the same order."""
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

        If `cpus` is given, the process runs only on these CPUs. With `own_user`, which lists readable and writable
        paths, it runs as a dedicated user. With `confined`, it can access only the objects that `confined` lists
        (contract, process.start).
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
        """Wait until a supervised process exits, and return its result."""
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
            # isinstance() would accept the ID `true`, which is equal to 1.
            pending = self._pending.pop(number, None) if type(number) is int else None
            self._lock.notify()
        if pending is not None:
            pending.settle(message)


def _refuse_other_version(spoken: str) -> None:
    """Raise an error unless the agent has the same protocol version or a newer minor one.

    Older agents omit values from which figures are computed.
    """
    words = spoken.split(".")
    numbers = tuple(int(word) for word in words if word.isdecimal())
    if len(numbers) != len(words) or numbers[:1] != PROTOCOL[:1] or numbers < PROTOCOL:
        major, minor = PROTOCOL
        raise AgentError(Phrase("agent.other-protocol", spoken=spoken[:20], major=major, minor=minor))
