"""Measure one stream in a lab of two hops during each fault, and streams without any fault.

Usage: python -m benches.faults.stream_faults [ROUNDS]. Needs root, iperf3, and an idle machine. Each of the ROUNDS (20)
has 6 undisturbed streams of 1 s. Prints the undisturbed streams that have a disturbance warning. The faults are those
of faults.py.
"""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benches.faults.stream_cases import STREAM_LAB, UNDISTURBED, StreamFault
from benches.harness.arguments import Argument, arguments
from benches.harness.lab import standing
from benches.harness.programs import BUSY, output, within
from benches.harness.truth_words import named

from iolab.agent.client import Agent
from iolab.errors import AgentError
from iolab.experiment.model.measures import Stream
from iolab.report.locale import EN
from iolab.results.verdict import Limit
from iolab.run.hosts.host_agent import open_agent
from iolab.trial.lab_access import Site
from iolab.trial.measurement import TrialFailed
from iolab.trial.measuring import measure_once

ARGUMENTS = (Argument("rounds", 20, "streams of each kind"),)
FOREIGN = (
    "import socket,time\ns=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\nend=time.monotonic()+20\n"
    "while time.monotonic()<end:\n for _ in range(10):\n  s.sendto(bytes(1400),('{address}',9))\n time.sleep(0.002)\n"
)
"""Program that sends about 50 Mbit/s to the discard port, in bursts of ten datagrams with a sleep after each burst. It
ends by itself after 20 s, longer than any trial here, in case it is not killed."""
OF_THE_HOST = ("cpu-taken", "cpu-withheld")
"""Warnings about other work on the host."""
TRIES = 4
"""Maximum number of trials; the first one that the host does not disturb counts."""
MARKS = frozenset(
    {"program-stopped", "cpu-taken", "programs-share-cpu", "link-went-down", "shape-not-held", "foreign-traffic",
     "kernel-stood-still", "cpu-withheld", "stream-stood-still"}
)  # fmt: skip
"""Codes of the warnings about disturbances of a stream."""


@dataclass(frozen=True, slots=True)
class Said:
    """The conclusion on one stream."""

    right: bool
    """Whether the fault was named at its place."""
    wrong: bool
    """Whether a different cause was stated as certain."""
    text: str
    """Conclusion."""
    disturbed: bool = False
    """Whether interference on the host used CPUs, apart from the fault."""


@contextmanager
def stream_lab(
    agent: Agent, measure: str, duration: str = "3s", **parts: str
) -> Iterator[tuple[Site, Stream]]:
    """Build the lab of stream faults; remove it on exit."""
    text = STREAM_LAB.format(**{"a": "bridge", "shape": ""} | parts, measure=measure, duration=duration)
    with standing(agent, text, Stream) as made:
        yield made


def processes(agent: Agent) -> dict[str, int]:
    """Return the process IDs of iperf3, by their names in the trial."""
    rows = agent.read_samples([], ("threads",)).threads()
    return {row.process.partition("-")[0]: row.pid for row in rows if row.process}


def conclude_stream(agent: Agent, fault: StreamFault) -> Said:
    """Return the conclusion of a trial on a fault: of the first trial that other work on the host did not disturb."""
    for _ in range(TRIES):
        said = _once(agent, fault)
        if not said.disturbed:
            break
    return said


def _once(agent: Agent, fault: StreamFault) -> Said:
    """Build the lab, inject the fault, measure, and return the conclusion."""
    with stream_lab(agent, fault.measure, **fault.lab) as (site, measure):
        for machine, command in fault.commands:
            _inject(machine, command)
        with _meanwhile(site, fault):
            try:
                measured = measure_once(site, measure)
            except (TrialFailed, AgentError) as error:
                return Said(right=False, wrong=False, text=str(error))
    verdict = measured.verdict
    assert verdict is not None
    marks = [warning for warning in measured.warnings if warning.code in MARKS]
    blamed = named(verdict.limit, verdict.place)
    doubt = f" ({EN.said.say(verdict.doubt)})" if verdict.doubt is not None else ""
    shown = f"{blamed}: {EN.said.say_all(verdict.seen)}{doubt}"
    text = "; ".join([shown, *(f"{one.code}: {EN.said.say(one)}" for one in marks)])
    if fault.warning:
        right = any(one.code == fault.warning and fault.place in EN.said.say(one) for one in marks)
        wrong = not right and bool(marks)
    else:
        beside = [one for one in marks if one.code not in OF_THE_HOST]
        right = any(blamed.startswith(word) for word in fault.verdict) and not beside
        silent = verdict.limit is Limit.UNEXPLAINED or verdict.doubt is not None
        wrong = not right and not silent
    rate = measured.metrics["received_bps"].value / 1e6
    disturbed = not fault.hogs and any(one.code in OF_THE_HOST for one in marks)
    return Said(right, wrong, f"{text} [{rate:.0f} Mbit/s]", disturbed)


def undisturbed(agent: Agent, rounds: int) -> list[str]:
    """Run short streams without a fault; return the disturbance warnings, one entry per marked trial."""
    found = []
    for keys, shape in UNDISTURBED:
        with stream_lab(agent, keys, duration="1s", shape=shape) as (site, measure):
            for _ in range(rounds):
                measured = measure_once(site, measure)
                marks = [f"{one.code}: {EN.said.say(one)}" for one in measured.warnings if one.code in MARKS]
                if marks:
                    found.append(f"{keys}{shape}: {'; '.join(marks)}")
    return found


@contextmanager
def _meanwhile(site: Site, fault: StreamFault) -> Iterator[None]:
    """Run the actions of a fault while the stream runs."""
    children = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(fault.hogs)]
    if fault.foreign:
        target = next(one for one in site.topology.segments[0].endpoints if one.machine == "far")
        argv = within("iolab-other", sys.executable, "-c", FOREIGN.format(address=target.address))
        children.append(subprocess.Popen(argv))
    actor = threading.Thread(target=_act, args=(site.agent, fault))
    actor.start()
    try:
        yield
    finally:
        actor.join()
        for child in children:
            os.kill(child.pid, signal.SIGKILL)
            child.wait()


def _act(agent: Agent, fault: StreamFault) -> None:
    if not fault.at_1s:
        return
    # The fault is a disturbance during the stream: it begins after the first second, in which TCP finds its rate.
    time.sleep(1)
    known = processes(agent)
    for commands in (fault.at_1s, fault.at_2s):
        for machine, command in commands:
            _inject(machine, re.sub("@(client|server)", lambda word: str(known[word[1]]), command))
        if commands is fault.at_1s:
            time.sleep(fault.pause_s)  # the fault defines the duration of the disturbance


def _inject(machine: str, command: str) -> None:
    words = command.split()
    if words[:3] == ["sysctl", "-q", "-w"]:
        words = [*words[:3], " ".join(words[3:])]
    output(*within(machine and f"iolab-{machine}", *words))


def main() -> None:
    """Print the warnings of streams without a fault."""
    rounds = arguments(__doc__, *ARGUMENTS).rounds
    with open_agent() as agent:
        found = undisturbed(agent, rounds)
    print(*found, sep="\n")
    print(f"{len(found)} of {len(UNDISTURBED) * rounds} undisturbed streams marked (bound: 1 in 100)")


if __name__ == "__main__":
    main()
