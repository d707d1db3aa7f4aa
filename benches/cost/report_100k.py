"""Measure time and memory of `show` and `report` for a run of 100 000 trials, as whole processes.

Usage: python -m benches.cost.report_100k [CELLS]. The trials are made up (log-normal rates, 2 % spread).
"""

import random
import resource
import subprocess
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benches.harness.arguments import Argument, arguments
from benches.harness.run import IOLAB

from iolab.experiment import parse
from iolab.lab.hosts.facts import Facts
from iolab.plan.planning import make_plan
from iolab.plan.types import Plan
from iolab.results.metric import Metric, Metrics
from iolab.results.trial import Status, TrialResult
from iolab.store.codec import encode_trial
from iolab.store.folder import create_folder
from iolab.store.records import TRIALS, TrialRecord

ARGUMENTS = (Argument("cells", 33_334, "cells of the run, about, in three blocks each"),)
WALL = datetime(2026, 1, 1, tzinfo=UTC)
BLOCKS = 3
LEVELS = 8
METRICS = {
    "sent_bps": "bit/s",
    "retransmits": "count",
    "rtt_mean_ns": "ns",
    "cpu_from_ratio": "ratio",
    "cpu_to_ratio": "ratio",
    "host_cpu_ratio": "ratio",
    "host_steal_ratio": "ratio",
}


def experiment_text(cells: int) -> str:
    """Return an experiment of about that many cells: four factors of eight levels, and one factor for the rest."""
    steps = range(1, LEVELS + 1)
    return f"""
title: Many cells
lab:
  machines: {{near: {{kind: netns}}, far: {{kind: netns}}}}
  links: {{lan: {{ends: [near.eth0, far.eth0]}}}}
measure:
  tcp: {{kind: stream, from: near, to: far}}
factors:
  links.lan.mtu: {[1400 + 100 * step for step in steps]}
  tcp.window: {[f"{64 * step}K" for step in steps]}
  tcp.length: {[1024 * step for step in steps]}
  tcp.rate: {[f"{100 * step}Mbit" for step in steps]}
  tcp.parallel: {[*range(1, max(1, -(-cells // LEVELS**4)) + 1)]}
baseline: {{links.lan.mtu: 1500}}
blocks: {BLOCKS}
"""


def facts() -> tuple[Facts, dict[str, object]]:
    """Return facts of a host that supports everything that the experiment needs."""
    from tests.fake_agent.agent import FakeAgent

    from iolab.agent.client import Agent
    from iolab.run.hosts.host_facts import read_facts

    return read_facts(Agent(FakeAgent()))


def make_run(parent: Path, cells: int) -> tuple[Path, Plan]:
    """Write a run folder of that many cells; return it and its plan."""
    text = experiment_text(cells)
    known, raw = facts()
    plan = make_plan(parse(text, "bench"), known)
    folder = create_folder(parent, plan.title, WALL)
    folder.write_decision(text, plan, raw)
    folder.close()
    write_trials(folder.path / TRIALS, plan)
    return folder.path, plan


def write_trials(path: Path, plan: Plan) -> None:
    """Write one synthetic trial per step, without an fsync per trial, whose cost is not measured here."""
    chance = random.Random(1)
    with path.open("w") as file:
        for number, step in enumerate(plan.steps):
            rate = 1e9 * (1 + 0.1 * step.levels[0]) * chance.lognormvariate(0, 0.02)
            others = (Metric(name, unit, chance.random()) for name, unit in METRICS.items())
            metrics = Metrics((Metric("received_bps", "bit/s", rate), *others))
            result = TrialResult(status=Status.OK, metrics=metrics, begin_ns=0, end_ns=2, measured_ns=1)
            record = TrialRecord(
                key=step.key,
                measure=step.measure,
                kind="stream",
                block=step.block,
                cell=plan.cell(step),
                wall=(WALL + timedelta(seconds=number)).isoformat(),
                result=result,
            )
            file.write(f"{encode_trial(record)}\n")


def main() -> None:
    """Measure each command as a whole process."""
    cells = arguments(__doc__, *ARGUMENTS).cells
    with tempfile.TemporaryDirectory() as parent:
        folder, plan = make_run(Path(parent), cells)
        print(f"{len(plan.steps)} trials")
        commands = (
            ["show"],
            ["show", "--json"],
            *(["report", "--format", form] for form in ("html", "md", "csv")),
        )
        for command in commands:
            begin = time.monotonic()
            argv = [str(IOLAB), command[0], str(folder), *command[1:]]
            subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
            spent = time.monotonic() - begin
            peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
            print(f"{' '.join(command):22} {spent:6.1f} s (bound 20), peak so far {peak} MiB")


if __name__ == "__main__":
    main()
