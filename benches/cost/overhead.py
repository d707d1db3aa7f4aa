"""Measure iolab's own cost: lab set-up and teardown, agent round trip, samplers, overhead per trial.

Usage: python -m benches.cost.overhead [samplers | commands]. Needs root and iperf3; takes about 190 s. With a word,
only that part runs (`commands`: the overhead of user programs, 40 s). Figures are medians of one run.
"""

import itertools
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benches.harness.arguments import Argument, arguments
from benches.harness.lab import built, setup_of
from benches.harness.programs import output

from iolab.agent.client import ALL_SAMPLERS, Agent
from iolab.clock import SystemClock
from iolab.experiment import parse
from iolab.lab.compose import compose
from iolab.plan.planning import make_plan
from iolab.results.trial import TrialResult
from iolab.run import folder_work as execute
from iolab.run.agents import Agents
from iolab.run.hosts.host_agent import open_agent
from iolab.run.hosts.host_facts import read_facts
from iolab.run.lab.standing_lab import StandingLab
from iolab.store.read import load_run
from iolab.trial.instruments.samplers import SAMPLERS

ARGUMENTS = (Argument("only", "", "the one part to measure", allowed=("samplers", "commands")),)
LAB = """
title: Overhead
lab:
  machines:
    a: {kind: netns}
    b: {kind: netns}
    c: {kind: netns}
  links:
    lan: {ends: [a.eth0, b.eth0, c.eth0]}
measure:
  tcp: {kind: stream, protocol: tcp, from: a, to: b, duration: 1s}
factors:
  links.lan.mtu: [1500, 9000]
blocks: 8
"""
COMMAND = """
title: Command
lab:
  machines:
    a: {kind: netns}
    b: {kind: netns}
  links:
    lan: {ends: [a.eth0, b.eth0]}
measure:
  wait: {kind: command, on: a, run: [sleep, 0.2]}
blocks: 20
"""
COMMANDS = {
    "alone": COMMAND,
    "on a lab that is changed": COMMAND + "factors: {links.lan.mtu: [1500, 9000]}\n",
    "with a server": COMMAND.replace(
        "0.2]}", "0.2], servers: {s: {on: b, run: [iperf3, -s], ready: {listens: 5201}}}}"
    ),
}
"""User programs whose overhead is measured."""
ROUNDS = 3
"""Alternating runs of iolab and of the plain program."""

NETNS = ("iolab-a", "iolab-b", "iolab-c")


class Silent:
    """An observer that prints nothing."""

    def run_begins(self, *_: object) -> None:
        """See Observer."""

    trial_begins = trial_ended = guests_start = run_begins


def build_and_remove(agent: Agent, rounds: int = 15) -> float:
    """Return the median time to create, read back and remove the three-namespace lab [s]."""
    setup, spent = setup_of(LAB), []
    for _ in range(rounds):
        lab = StandingLab(Agents(agent), lambda _: None)
        begin = time.perf_counter()
        lab.change_to(compose(setup.lab))
        built = time.perf_counter()
        assert lab.mismatches() == []
        checked = time.perf_counter()
        lab.take_down()
        spent.append((built - begin, checked - built, time.perf_counter() - checked))
    parts = [statistics.median(part) for part in zip(*spent, strict=True)]
    print(
        f"lab of three namespaces: build {parts[0]:.3f} s, read back {parts[1]:.3f} s, take down {parts[2]:.3f} s"
    )
    return statistics.median(sum(part) for part in spent)


def round_trip(agent: Agent, rounds: int = 2000) -> float:
    """Return the median round trip of a ping [s]."""
    spent = []
    for _ in range(rounds):
        begin = time.perf_counter()
        agent.ping()
        spent.append(time.perf_counter() - begin)
    return statistics.median(spent)


@contextmanager
def programs_of_a_stream(agent: Agent) -> Iterator[None]:
    """Create the lab with two waiting programs, like those of a stream."""
    with built(Agents(agent), setup_of(LAB)):
        for netns in NETNS[:2]:
            agent.start(netns, ("iperf3", "-s"), netns=netns)
        yield
        for netns in NETNS[:2]:
            agent.call("process.stop", {"id": netns})


def sampler_share(agent: Agent, samplers: Sequence[str], period_ms: int, duration_s: float) -> float:
    """Return the CPU time of the agent while it samples [ratio of one CPU]; a period of 0 means no sampling."""
    before = cpu_time_s(agent.hello.pid)
    params = {"series": "bench", "period_ms": period_ms, "samplers": list(samplers), "netns": list(NETNS)}
    if period_ms:
        agent.call("sample.start", params)
    time.sleep(duration_s)  # the measured span, not a wait for readiness
    if period_ms:
        agent.call("sample.stop", {"series": "bench"})
    return (cpu_time_s(agent.hello.pid) - before) / duration_s


def cpu_time_s(pid: int) -> float:
    """Return the CPU time of a process, including ended threads [s].

    The kernel scales these ticks to the exact run time of the whole process, so they are accurate to one tick.
    """
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def results_of(agent: Agent, text: str) -> list[TrialResult]:
    """Return the results of a run."""
    facts, raw = read_facts(agent)
    experiment = parse(text, "overhead")
    with tempfile.TemporaryDirectory() as parent:
        plan = make_plan(experiment, facts)
        path = execute.create(experiment, plan, raw, Path(parent), SystemClock())
        execute.work_on(path, experiment, Agents(agent), SystemClock(), Silent())
        results = [record.result for record in load_run(path).trials]
    assert all(result.status == "ok" for result in results), [result.reason for result in results]
    return results


def spans_s(agent: Agent, text: str, *, measuring: bool) -> list[float]:
    """Return each trial's time since the end of the previous trial, with or without measuring time [s]."""
    return [
        (later.end_ns - earlier.end_ns - (0 if measuring else later.measured_ns)) / 1e9
        for earlier, later in itertools.pairwise(results_of(agent, text))
    ]


def print_commands(agent: Agent) -> None:
    """Print the additional time of a trial over the plain program, with both run in alternation."""
    for name, text in COMMANDS.items():
        plain, beside = [], []
        for _ in range(ROUNDS):
            for _ in range(5):
                begin = time.perf_counter()
                output("sleep", "0.2")
                plain.append(time.perf_counter() - begin)
            beside += spans_s(agent, text, measuring=True)
        beyond_ms = (statistics.median(beside) - statistics.median(plain)) * 1e3
        print(f"trial of a program of the user's own, {name}: {beyond_ms:.0f} ms beyond it (bound 50)")


def print_samplers(agent: Agent) -> None:
    """Print the cost of sampling with its limits."""
    with programs_of_a_stream(agent):
        once = sampler_share(agent, ALL_SAMPLERS, 1000, 30)
        print(f"every sampler at 1 Hz: {once:.4f} of one CPU (bound 0.005)")
        often, idle = sampler_share(agent, SAMPLERS, 100, 60), sampler_share(agent, SAMPLERS, 0, 60)
        print(f"samplers of a trial at 10 Hz: {often:.4f} of one CPU (bound 0.005); without: {idle:.4f}")


def main() -> None:
    """Print every figure with its limit."""
    only = arguments(__doc__, *ARGUMENTS).only
    with open_agent() as agent:
        if only == "commands":
            print_commands(agent)
            return
        print_samplers(agent)
        if only == "samplers":
            return
        print(f"lab up and down: {build_and_remove(agent):.3f} s (bound 0.5)")
        print(f"agent round trip: {round_trip(agent) * 1e3:.3f} ms (bound 1)")
        overheads = spans_s(agent, LAB, measuring=False)
        median_ms, largest_ms = statistics.median(overheads) * 1e3, max(overheads) * 1e3
        print(f"overhead per trial: {median_ms:.0f} ms median, {largest_ms:.0f} ms at most (bound 150)")
        print_commands(agent)


if __name__ == "__main__":
    main()
