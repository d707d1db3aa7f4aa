"""A session on a fake host, whose trials and read-backs a test controls."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.fake_agent.agent import FakeAgent, FakeHost, Outcome

from iolab.agent.client import Agent
from iolab.clock import VirtualClock
from iolab.experiment import parse
from iolab.lab.hosts.facts import Facts
from iolab.messages.failures import Difference, Failure
from iolab.plan.planning import make_plan
from iolab.plan.types import Plan, Step
from iolab.results.metric import Metrics
from iolab.results.trial import Status
from iolab.run.agents import Agents
from iolab.run.lab.standing_lab import StandingLab
from iolab.run.session import Session
from iolab.store.folder import create_folder
from iolab.store.records import TrialRecord
from iolab.trial.measurement import Measured

LAB = """
lab:
  machines: {near: {kind: netns}, far: {kind: netns}}
  links: {lan: {ends: [near.eth0, far.eth0]}}
measure:
  tcp: {kind: stream, protocol: tcp, from: near, to: far, duration: 1s}
factors: {tcp.parallel: [1, 2]}
blocks: 1
"""


class Watched:
    """An observer that records the order of events."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.records: list[TrialRecord] = []

    def run_begins(self, plan: Plan, steps: int, already: int) -> None:
        """See Observer."""
        self.seen.append(f"run of {steps}, {already} done already")

    def trial_begins(self, step: Step, cell: Mapping[str, str], left_ns: int) -> None:
        """See Observer."""
        self.seen.append(f"trial {cell['tcp.parallel']} begins")

    def trial_ended(self, record: TrialRecord, left_ns: int) -> None:
        """See Observer."""
        self.seen.append(f"trial {record.cell['tcp.parallel']} ended {record.result.status.value}")
        self.records.append(record)

    def guests_start(self, names: Sequence[str]) -> None:
        """See Observer."""


class Bench:
    """A session on a fake host, whose trials and read-backs a test controls."""

    def __init__(
        self, facts: Facts, parent: Path, monkeypatch: pytest.MonkeyPatch, blocks: int = 1, lab: str = LAB
    ) -> None:
        self.host, self.watched = FakeHost(), Watched()
        self.fake = FakeAgent(self.host, programs=lambda argv, netns: Outcome(stdout=""))
        self.measured: Callable[[], Measured] = lambda: Measured(Metrics(), (), 1_000_000_000, (), {})
        self.wrong: list[Difference] = []
        """Differences that the read-back after the next trial reports."""
        monkeypatch.setattr("iolab.run.lab.actions.extract", lambda *_: "original")
        monkeypatch.setattr("iolab.run.session.measure_once", lambda *_: self.measured())
        monkeypatch.setattr(StandingLab, "mismatched", lambda _: [])
        monkeypatch.setattr(StandingLab, "mismatches", lambda _: [self.wrong.pop()] if self.wrong else [])
        experiment = parse(lab, "lab.yaml")
        self.plan = make_plan(experiment, facts, blocks=blocks)
        self.folder = create_folder(parent, "lab", datetime(2026, 1, 1, tzinfo=UTC))
        agents = Agents(Agent(self.fake))
        self.session = Session(experiment, self.plan, agents, self.folder, VirtualClock(), self.watched)

    def walk(self, *, keep_going: bool = True) -> list[tuple[Status, Failure | None]]:
        """Run all steps; return status and reason of each trial."""
        self.session.walk(self.plan.steps, keep_going=keep_going)
        return [(one.result.status, one.result.reason) for one in self.watched.records]


def netns_made(bench: Bench) -> int:
    """Return how often the lab's first namespace was created."""
    lines = (bench.folder.path / "commands.jsonl").read_text().splitlines()
    return sum('"ip","netns","add","' in line and '-near"' in line for line in lines)
