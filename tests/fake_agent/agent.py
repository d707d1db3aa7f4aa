"""A simulated agent: speaks contract/agent-v1.md over a simulated host, for tests without a kernel.

It follows the rules that matter to a controller (journal, undo order, ids, errors) and runs no program: the
`Programs` function supplies the output of programs.
"""

import json
import queue
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.fake_agent.capture import FakeCaptures
from tests.fake_agent.machine import STATE_DIR, Behind, FakeRelays
from tests.fake_agent.traffic import FakeTraffic, Forwards, TrafficRefusal, forwards_all
from tests.fake_agent.watch import FakeWatches

from iolab.agent.messages import Json
from iolab.clock import VirtualClock
from iolab.errors import AgentError

FOREVER_MS = 1 << 40
METHOD_UNKNOWN, PARAMS_WRONG, OS_REFUSED, TIMED_OUT, NO_SUCH = -32601, -32602, -32001, -32002, -32004
EPERM, ENOENT, EEXIST = 1, 2, 17
KILLED = 9
WALLS = {"user": 65_520, "landlock_abi": 7, "seccomp": True}
USUAL_TIMEOUT_MS = 60_000
PER_NETNS = frozenset({"interfaces", "qdiscs", "drops", "sockets"})
"""Samplers that read each namespace separately."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a simulated program."""

    stdout: str = ""
    """Standard output."""
    exit_status: int | None = 0
    """Exit status; None: ended by `signal`."""
    signal: int | None = None
    """Signal that ends it."""
    stderr: str = ""
    """Standard error."""
    duration_ns: int = 1_000_000
    """Run time [ns]."""


Programs = Callable[[tuple[str, ...], str | None], Outcome | None]
"""Maps argv and namespace to an outcome; None: no such program."""


@dataclass
class FakeHost:
    """The state of a simulated host; it outlives its agents, like a kernel."""

    netns: set[str] = field(default_factory=set)
    """Namespace names."""
    settings: dict[tuple[str | None, str], str] = field(default_factory=dict)
    """Value by namespace and path."""
    ran: list[tuple[tuple[str, ...], str | None]] = field(default_factory=list)
    """Commands that were run, including undo, in order."""
    folders: set[str] = field(default_factory=set)
    """Names of scratch folders."""
    behind: dict[str, Behind] = field(default_factory=dict)
    """Peer at a socket or terminal, by its path."""
    files: dict[str, Json] = field(default_factory=dict)
    """Opened files passed to a process, by its ID."""
    lasting: dict[str, str] = field(default_factory=dict)
    """Journal key to the reason why that change cannot be undone."""


class _Refusal(Exception):
    def __init__(self, code: int, message: str, data: Json) -> None:
        super().__init__(message)
        self.reply = {"code": code, "message": message, "data": data}


def no_programs(_argv: tuple[str, ...], _netns: str | None) -> Outcome | None:
    """Return an empty success for every command."""
    return Outcome()


class FakeAgent:
    """A Transport with a simulated agent."""

    notice_s = 0.0

    def __init__(
        self,
        host: FakeHost | None = None,
        programs: Programs = no_programs,
        clock: VirtualClock | None = None,
        forwards: Forwards = forwards_all,
        *,
        machine: bool = False,
    ) -> None:
        self.host = host or FakeHost()
        self._machine = machine
        self._relays = FakeRelays(self.host.behind, self._emit)
        self._programs = programs
        self._clock = clock or VirtualClock(now=1)
        self.traffic = FakeTraffic(self._clock, forwards)
        """Its ports and devices."""
        self.watches = FakeWatches(self._clock)
        """Its watches, which nothing passes."""
        self.captures = FakeCaptures(self._clock)
        """Its captures."""
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._journal: list[dict[str, Json]] = []
        self._sequence = 0
        self._processes: dict[str, tuple[Outcome, int]] = {}
        self._series: set[str] = set()
        self._dead = False
        self._emit({"jsonrpc": "2.0", "method": "hello", "params": self._greeting()})

    # Transport --------------------------------------------------------------------------------------------

    def send(self, line: str) -> None:
        """Receive one request and answer it at once."""
        if self._dead:
            raise AgentError("writing to the agent: the agent is gone")
        try:
            request = json.loads(line)
        except json.JSONDecodeError:
            self._emit(
                {
                    "jsonrpc": "2.0",
                    "id": None,
                    "error": {"code": -32700, "message": "not JSON", "data": {"seen": line[:80]}},
                }
            )
            return
        try:
            reply = {"result": self._answer(request["method"], request.get("params", {}))}
        except _Refusal as refusal:
            reply = {"error": refusal.reply}
        except TrafficRefusal as refusal:
            reply = {"error": {"code": refusal.code, "message": refusal.message, "data": refusal.data}}
        self._emit({"jsonrpc": "2.0", "id": request["id"], **reply})

    def receive(self) -> str | None:
        """Wait for the next line."""
        return self._lines.get()

    def close(self, deadline_s: float) -> str:
        """Undo everything, like the dead-man's switch."""
        if not self._dead:
            self._relays.close_all()
            self._undo(None)
            self.kill()
        return ""

    def last_words(self) -> str:
        """Return nothing: a simulated agent writes no log."""
        return ""

    def kill(self) -> None:
        """Die as by SIGKILL: nothing is undone."""
        self._dead = True
        self._lines.put(None)

    # Methods ----------------------------------------------------------------------------------------------

    def _answer(self, method: str, params: dict[str, Json]) -> Json:
        handlers: dict[str, Callable[[dict[str, Json]], Json]] = {
            "agent.ping": lambda _: {"now_ns": self._clock.now_ns()},
            "agent.exit": lambda _: self._undo(None),
            "lease.take": lambda _: {"number": 1, "ended": [], "undone": 0},
            "command.run": self._command_run,
            "process.start": self._process_start,
            "process.wait": self._process_collect,
            "process.stop": self._process_collect,
            "netns.create": self._netns_create,
            "netns.delete": self._netns_delete,
            "setting.read": lambda p: {"value": self._setting(p)},
            "setting.write": self._setting_write,
            "sample.read": self._sample,
            "sample.start": self._series_start,
            "sample.stop": self._series_stop,
            "facts.read": self._facts,
            "folder.create": self._folder_create,
            "folder.delete": self._folder_delete,
            "relay.open": self._relay_open,
            "relay.send": lambda p: self._relayed(p["id"], self._relays.send(p["id"], p["message"])),
            "relay.close": lambda p: self._relayed(p["id"], self._relays.close(p["id"])),
            "machine.power_off": self._power_off,
            **self.traffic.handlers(),
            **self.watches.handlers(),
            **self.captures.handlers(),
            "journal.list": lambda _: {"entries": list(self._journal)},
            "journal.undo": lambda p: self._undo(p.get("keys")),
        }
        if method not in handlers:
            raise _Refusal(METHOD_UNKNOWN, f"no method {method!r}", {"seen": method})
        return handlers[method](params)

    def _command_run(self, params: dict[str, Json]) -> Json:
        if params.get("undo"):
            self._remember(params.get("undo_key") or "", params["undo"])
        outcome = self._execute(params["argv"], params.get("netns"))
        begin_ns, limit_ns = self._clock.now_ns(), params.get("timeout_ms", USUAL_TIMEOUT_MS) * 1_000_000
        self._clock.advance(min(outcome.duration_ns, limit_ns))
        ended = _ended(outcome, begin_ns, self._clock.now_ns())
        if outcome.duration_ns > limit_ns:
            return {**ended, "exit_status": None, "signal": KILLED, "timed_out": True}
        return {**ended, "timed_out": False}

    def _process_start(self, params: dict[str, Json]) -> Json:
        if params["id"] in self._processes:
            raise _Refusal(PARAMS_WRONG, f"process id {params['id']!r} is taken", {"seen": params["id"]})
        outcome = self._execute(params["argv"], params.get("netns"))
        self.host.files[params["id"]] = params.get("files", [])
        now_ns = self._clock.now_ns()
        self._processes[params["id"]] = (outcome, now_ns)
        walls = {"walls": WALLS} if params.get("confined") else {}
        return {"pid": 1000 + len(self._processes), "begin_ns": now_ns, "ready_ns": now_ns, **walls}

    def _process_collect(self, params: dict[str, Json]) -> Json:
        if params["id"] not in self._processes:
            raise _Refusal(NO_SUCH, f"no process {params['id']!r}", {"id": params["id"]})
        outcome, begin_ns = self._processes[params["id"]]
        end_ns, now = begin_ns + outcome.duration_ns, self._clock.now
        self._clock.now = max(now, min(end_ns, now + params.get("timeout_ms", FOREVER_MS) * 1_000_000))
        if self._clock.now < end_ns:
            raise _Refusal(TIMED_OUT, f"process {params['id']!r} goes on", {})
        del self._processes[params["id"]]
        return {**_ended(outcome, begin_ns, end_ns), "cpu_user_ns": 0, "cpu_system_ns": 0}

    def _netns_create(self, params: dict[str, Json]) -> Json:
        name = params["name"]
        if name in self.host.netns:
            raise _Refusal(
                OS_REFUSED, f"creating namespace {name!r}: it exists", {"errno": EEXIST, "path": name}
            )
        self._remember(f"netns:{name}", {"kind": "netns", "name": name})
        self.host.netns.add(name)
        return {}

    def _netns_delete(self, params: dict[str, Json]) -> Json:
        if params["name"] not in self.host.netns:
            raise _Refusal(
                OS_REFUSED,
                f"deleting namespace {params['name']!r}: none",
                {"errno": ENOENT, "path": params["name"]},
            )
        self._undo([f"netns:{params['name']}"])
        return {}

    def _folder_create(self, params: dict[str, Json]) -> Json:
        name = params["name"]
        if name in self.host.folders:
            raise _Refusal(
                OS_REFUSED, f"creating folder {name!r}: it exists", {"errno": EEXIST, "path": name}
            )
        self._remember(f"folder:{name}", {"kind": "folder", "name": name})
        self.host.folders.add(name)
        return {"path": f"{STATE_DIR}/f/{name}"}

    def _folder_delete(self, params: dict[str, Json]) -> Json:
        if params["name"] not in self.host.folders:
            raise _Refusal(NO_SUCH, f"no folder {params['name']!r} of this agent", {"id": params["name"]})
        self._undo([f"folder:{params['name']}"])
        return {}

    def _relay_open(self, params: dict[str, Json]) -> Json:
        path, now_ns = params["at"]["path"], self._clock.now_ns()
        if not self._relays.open(params["id"], path):
            data = {"timeout_ms": params.get("timeout_ms", 10_000), "errno": ENOENT, "path": path}
            raise _Refusal(TIMED_OUT, f"opening relay {params['id']!r}: no socket {path}", data)
        return {"begin_ns": now_ns, "end_ns": now_ns}

    def _relayed(self, relay: str, done: bool) -> Json:
        if not done:
            raise _Refusal(NO_SUCH, f"no relay {relay!r}", {"id": relay})
        return {}

    def _power_off(self, _params: dict[str, Json]) -> Json:
        if not self._machine:
            raise _Refusal(
                OS_REFUSED, "switching off: this agent is no machine's first process", {"errno": EPERM}
            )
        return self._undo(None)

    def _setting(self, params: dict[str, Json]) -> str:
        return self.host.settings.get((params.get("netns"), params["path"]), "0")

    def _setting_write(self, params: dict[str, Json]) -> Json:
        original, netns, path = self._setting(params), params.get("netns"), params["path"]
        key = f"setting:{netns or ''}:{path}"
        if all(entry["undo_key"] != key for entry in self._journal):
            self._remember(key, {"kind": "write", "path": path, "value": original, "netns": netns})
        self.host.settings[(netns, path)] = params["value"]
        return {"original": original}

    def _sample(self, params: dict[str, Json]) -> Json:
        now_ns = self._clock.now_ns()
        window = {"begin_ns": now_ns, "end_ns": now_ns}
        observations = []
        for sampler in params["samplers"]:
            places = params["netns"] if sampler in PER_NETNS else [None]
            for place in places:
                rows = {"interfaces": self.traffic.interfaces(place)} if sampler == "interfaces" else {}
                observations.append({"sampler": sampler, "netns": place, **window, **rows})
        return {"observations": observations}

    def _series_start(self, params: dict[str, Json]) -> Json:
        self._series.add(params["series"])
        return {}

    def _series_stop(self, params: dict[str, Json]) -> Json:
        if params["series"] not in self._series:
            raise _Refusal(NO_SUCH, f"no series {params['series']!r}", {"id": params["series"]})
        self._series.remove(params["series"])
        return {"dropped": 0, "readings": []}

    def _facts(self, params: dict[str, Json]) -> Json:
        return {
            "hostname": "fake",
            "kernel": "6.1.0",
            "architecture": "x86_64",
            "os": "simulated",
            "cpu_model": "simulated",
            "microcode": None,
            "firmware": None,
            "cpus": 2,
            "memory_bytes": 1 << 30,
            "clocksource": "virtual",
            "virtualization": None,
            "load_1min_milli": 0,
            "interfaces": [],
            "programs": {name: f"{name} (simulated)" for name in params["programs"]},
            "features": dict.fromkeys(
                ("link:veth", "link:bridge", "link:vlan", "qdisc:htb", "qdisc:tbf", "filter:u32"), True
            ),
            "settings": {path: self._setting({"path": path}) for path in params["settings"]},
            "daemons": [],
            "processors": {"online": "0-1"},
        }

    # Journal ----------------------------------------------------------------------------------------------

    def _remember(self, key: str, undo: Json) -> None:
        self._sequence += 1
        self._journal.append({"sequence": self._sequence, "undo_key": key, "undo": undo})

    def _undo(self, keys: Sequence[str] | None) -> Json:
        chosen = [entry for entry in reversed(self._journal) if keys is None or entry["undo_key"] in keys]
        failed = []
        for entry in chosen:
            if reason := self.host.lasting.get(entry["undo_key"]):
                failed.append({**entry, "reason": reason})
                continue
            self._undo_one(entry["undo"])
            self._journal.remove(entry)
        return {"undone": len(chosen) - len(failed), "failed": failed}

    def _undo_one(self, undo: dict[str, Json]) -> None:
        match undo["kind"]:
            case "netns":
                self.host.netns.discard(undo["name"])
            case "folder":
                self.host.folders.discard(undo["name"])
            case "write":
                self.host.settings[(undo.get("netns"), undo["path"])] = undo["value"]
            case "command":
                self.host.ran.append((tuple(undo["argv"]), undo.get("netns")))

    def _execute(self, argv: Sequence[str], netns: str | None) -> Outcome:
        outcome = self._programs(tuple(argv), netns)
        if outcome is None:
            raise _Refusal(
                OS_REFUSED, f"starting program {argv[0]!r}: no such file", {"errno": ENOENT, "path": argv[0]}
            )
        self.host.ran.append((tuple(argv), netns))
        return outcome

    def _greeting(self) -> Json:
        groups = ["command", "process", "netns", "setting", "sample", "traffic", "device", "journal", "facts"]
        groups += ["folder", "relay", "files", "macvtap", *(["machine"] if self._machine else [])]
        return {
            "protocol": "1.6",
            "version": "0.1.0",
            "build": "fake",
            "pid": 1,
            "uid": 0,
            "rootless": False,
            "state_dir": STATE_DIR,
            "capabilities": groups,
            "limits": [],
            "busy_pid": None,
            "holders": [],
            "predecessors": [],
        }

    def _emit(self, message: Json) -> None:
        self._lines.put(json.dumps(message))


def _ended(outcome: Outcome, begin_ns: int, end_ns: int) -> dict[str, Json]:
    return {
        **{name: getattr(outcome, name) for name in ("exit_status", "signal", "stdout", "stderr")},
        **dict.fromkeys(("stdout_dropped_bytes", "stderr_dropped_bytes"), 0),
        "begin_ns": begin_ns,
        "end_ns": end_ns,
    }
