"""Race real agents for leases; kill or stop some of them while they hold one.

Usage: python -m benches.faults.leases RACES [PROCESSES [SEED]]

Each process starts an agent, takes a lease on one to three of six resources, holds the lease for some milliseconds, and
ends the agent: normally, by SIGKILL, or by SIGSTOP, after which other agents must kill it. The check does not use the
leases: while a lease is held, the process creates a marker file for each of its resources with O_EXCL. An existing
marker means two holders. A lease number that does not increase means a stale lease. A lease that is not granted within
a minute counts as lost. Finally, no journal and no program may be left, and every resource must be free. Prints counts;
exits with 1 if one is wrong.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benches.harness.arguments import Argument, arguments

from iolab.agent.transport import find_agent

ARGUMENTS = (
    Argument("races", 1000, "leases that are taken, all processes together"),
    Argument("processes", 8, "that take them"),
    Argument("seed", 1, "of resources, times and ends"),
)
RESOURCES = tuple(f"port:eth{index}" for index in range(6))
SHARED = "page-cache"
STOPPED_MS = 200
"""Time for which an agent must be stopped before another agent kills it."""
HELD_S = 0.005
PATIENCE_S = 60.0
KILLED, STOPPED = 0.1, 0.03
"""Shares of the agents that are killed and stopped."""
MARK = "31415.9"
"""Unique sleep time of the programs of these agents [s]."""
BUSY = -32003


@dataclass
class RawAgent:
    """An agent, addressed without iolab's client."""

    state: Path
    last_id: int = 0
    process: "subprocess.Popen[str]" = field(init=False)

    def __post_init__(self) -> None:
        self.process = subprocess.Popen(
            [find_agent()],
            env={**os.environ, "IOLAB_STATE_DIR": str(self.state)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._line()

    def ask(self, method: str, params: Mapping[str, object]) -> dict[str, Any]:
        """Return the complete answer to a request."""
        assert self.process.stdin is not None
        self.last_id += 1
        request = {"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        while (answer := self._line()).get("id") != self.last_id:
            pass
        return answer

    def end(self, how: signal.Signals | None) -> None:
        """End the agent normally or by a signal; a stopped agent is left to the other agents."""
        if how is not None:
            self.process.send_signal(how)
        if how != signal.SIGSTOP:
            self.process.communicate()

    def _line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        message: dict[str, Any] = json.loads(self.process.stdout.readline())
        return message


def main() -> int:
    """Race, then check the remaining state; return the exit code."""
    given = arguments(__doc__, *ARGUMENTS)
    races, processes, seed = given.races, given.processes, given.seed
    with tempfile.TemporaryDirectory(prefix="iolab-leases-") as name:
        state, markers = Path(name, "state"), Path(name, "markers")
        state.mkdir(mode=0o700)
        markers.mkdir()
        begun = time.monotonic()
        found: Counter[str] = Counter()
        with ProcessPoolExecutor(processes) as workers:
            share = [(state, markers, races // processes, seed * 1000 + index) for index in range(processes)]
            for counted in workers.map(race_all, *zip(*share, strict=True)):
                found += counted
        found += what_is_left(state)
        print(f"{races} races by {processes} processes in {time.monotonic() - begun:.0f} s, seed {seed}")
    for what, count in sorted(found.items()):
        print(f"{what}: {count}")
    return 1 if any(what.startswith("WRONG") for what in found) else 0


def race_all(state: Path, markers: Path, races: int, seed: int) -> "Counter[str]":
    """Take that many leases one after the other; return the observations."""
    draws, found = random.Random(seed), Counter[str]()
    stopped: list[RawAgent] = []
    for _ in range(races):
        wanted = draws.sample(RESOURCES, draws.randint(1, 3))
        agent = RawAgent(state)
        leased = take(agent, wanted, found, draws)
        if leased is None:
            found["WRONG lost leases"] += 1
            agent.end(None)
            continue
        hold(agent, markers, wanted, leased["number"], found, draws)
        how = draws.choices([None, signal.SIGKILL, signal.SIGSTOP], [1 - KILLED - STOPPED, KILLED, STOPPED])[
            0
        ]
        found[f"ended by {'closing' if how is None else how.name}"] += 1
        agent.end(how)
        if how == signal.SIGSTOP:
            stopped.append(agent)
    until = time.monotonic() + PATIENCE_S
    for agent in stopped:
        while agent.process.poll() is None and time.monotonic() < until:
            free_all(state)
    found["WRONG stopped agents that nobody ended"] += sum(one.process.poll() is None for one in stopped)
    for one in stopped:
        one.process.kill()
    return +found


def take(
    agent: RawAgent, wanted: list[str], found: "Counter[str]", draws: random.Random
) -> dict[str, Any] | None:
    """Request a lease until it is granted; return None after a minute."""
    resources = [{"name": name, "shared": False} for name in wanted] + [{"name": SHARED, "shared": True}]
    params = {"lab": str(os.getpid()), "resources": resources, "stopped_ms": STOPPED_MS}
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        answer = agent.ask("lease.take", params)
        if "result" in answer:
            result: dict[str, Any] = answer["result"]
            found["stopped holders ended"] += len(result["ended"])
            found["changes undone of dead holders"] += result["undone"]
            return result
        if answer["error"]["code"] != BUSY:
            found[f"WRONG answer: {answer['error']['message']}"] += 1
            return None
        found["refused"] += 1
        time.sleep(draws.uniform(0, HELD_S))  # like a waiting controller
    return None


def hold(
    agent: RawAgent,
    markers: Path,
    wanted: list[str],
    number: int,
    found: "Counter[str]",
    draws: random.Random,
) -> None:
    """Hold a lease for a while, with a program running; check whether another process holds the same resource."""
    mine = []
    for name in wanted:
        try:
            os.close(os.open(markers / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            mine.append(name)
        except FileExistsError:
            found["WRONG double holders"] += 1
    for name in mine:
        last = markers / f"{name}.number"
        if last.exists() and int(last.read_text()) >= number:
            found["WRONG numbers that did not rise"] += 1
        last.write_text(str(number))
    if "error" in agent.ask("process.start", {"id": "p", "argv": ["sleep", MARK]}):
        found["WRONG changes refused"] += 1
    time.sleep(draws.uniform(0, HELD_S))  # other agents request the lease during this time
    found["leases held"] += 1
    for name in mine:
        (markers / name).unlink()


def free_all(state: Path) -> None:
    """Lease everything once, which ends stopped agents."""
    agent = RawAgent(state)
    resources = [{"name": name, "shared": False} for name in RESOURCES]
    agent.ask("lease.take", {"lab": "all", "resources": resources, "stopped_ms": STOPPED_MS})
    time.sleep(STOPPED_MS / 1000)  # a stopped holder is ended after this time
    agent.ask("lease.take", {"lab": "all", "resources": resources, "stopped_ms": STOPPED_MS})
    agent.end(None)


def what_is_left(state: Path) -> "Counter[str]":
    """Return what is left after all agents have ended: journals, programs, resources that cannot be leased."""
    found = Counter[str]()
    agent = RawAgent(state)
    resources = [{"name": name, "shared": False} for name in (*RESOURCES, SHARED)]
    answer = agent.ask("lease.take", {"lab": "last", "resources": resources, "stopped_ms": STOPPED_MS})
    found["WRONG resources that are not free"] += "error" in answer
    agent.end(None)
    found["WRONG journals left"] += len(list((state / "journal").iterdir()))
    for each in Path("/proc").iterdir():
        with suppress(OSError):
            if each.name.isdigit() and MARK.encode() in (each / "cmdline").read_bytes().split(b"\0"):
                found["WRONG programs left"] += 1
    return +found


if __name__ == "__main__":
    sys.exit(main())
