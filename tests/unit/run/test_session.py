"""Runs on fake agents: a machine with malformed answers fails its trials, and the run continues."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.fake_agent.agent import FakeAgent, Outcome
from tests.unit.plan.conftest import facts
from tests.wording import in_words

from iolab.agent.client import Agent
from iolab.clock import VirtualClock
from iolab.experiment import Resolver, parse
from iolab.lab.hosts.facts import Facts, InterfaceFact
from iolab.plan.planning import make_plan
from iolab.plan.types import Plan, Step
from iolab.run.agents import Agents
from iolab.run.session import Session
from iolab.store.folder import create_folder
from iolab.store.records import TrialRecord

FAR = """
title: Far
lab:
  machines:
    near: {kind: host}
    far: {kind: host, ssh: root@far}
  links:
    lan: {ends: [near.eth0, far.eth0], cable: true}
measure:
  tcp: {kind: stream, protocol: tcp, from: near, to: far, duration: 1s}
factors:
  tcp.parallel: [1, 2]
blocks: 1
"""
__all__ = ["facts"]

CARD = InterfaceFact(name="eth0", mtu=1500, up=True)
SHOWN = json.dumps([{"ifname": "eth0", "mtu": 1500, "flags": ["UP", "LOWER_UP"], "addr_info": []}])
NONSENSE = {
    "text for a number": {"exit_status": "0"},
    "no object": [],
    "a number that is not finite": {"end_ns": float("inf")},
    "half of it": {"exit_status": 0},
}


class Nonsense(FakeAgent):
    """An agent with a normal greeting that answers every command with the same malformed result."""

    def __init__(self, result: object) -> None:
        self._nonsense = result
        super().__init__()

    def send(self, line: str) -> None:
        """Answer."""
        request = json.loads(line)
        if request["method"] in ("command.run", "setting.read", "setting.write"):
            self._emit({"jsonrpc": "2.0", "id": request["id"], "result": self._nonsense})
        else:
            super().send(line)


class Recorded:
    """An observer that records its calls."""

    def __init__(self) -> None:
        self.records: list[TrialRecord] = []

    def run_begins(self, plan: Plan, steps: int, already: int) -> None:
        """See Observer."""

    def trial_begins(self, step: Step, cell: Mapping[str, str], left_ns: int) -> None:
        """See Observer."""

    def trial_ended(self, record: TrialRecord, left_ns: int) -> None:
        """See Observer."""
        self.records.append(record)

    def guests_start(self, names: Sequence[str]) -> None:
        """See Observer."""


@pytest.mark.parametrize("nonsense", NONSENSE.values(), ids=NONSENSE.keys())
def test_machine_with_malformed_answers_fails_only_its_trials(
    nonsense: object,
    facts: Facts,
    tmp_path: Path,
) -> None:
    """Record both trials as failed, with the machine's name, and continue."""
    experiment = parse(FAR, "far.yaml")
    here = replace(facts, interfaces=(CARD,))
    plan = make_plan(experiment, replace(here, hosts={"far": replace(here, hostname="far")}))
    assert len(plan.steps) == 2, plan.unsupported
    agents = Agents(Agent(FakeAgent(programs=lambda argv, netns: Outcome(stdout=SHOWN))))
    agents.add("far", Agent(Nonsense(nonsense), name="far"))
    observer = Recorded()
    folder = create_folder(tmp_path, "far", datetime(2026, 1, 1, tzinfo=UTC))
    session = Session(experiment, plan, agents, folder, VirtualClock(), observer)
    session.walk(plan.steps)
    folder.close()
    assert [record.result.status for record in observer.records] == ["failed", "failed"]
    reasons = [in_words(record.result.reason) for record in observer.records]
    assert all("agent of far" in reason for reason in reasons), reasons
    assert not any(record.sets_each_load for record in observer.records)


@pytest.mark.parametrize(("more", "known"), [("duration: 1s", False), ("duration: 1s, rate: 10Mbit", True)])
def test_load_per_direction_is_recorded_if_the_measure_has_a_rate(more: str, known: bool) -> None:
    """Store whether a sum over directions is a result."""
    experiment = parse(FAR.replace("duration: 1s", more), "far.yaml")
    measure = Resolver(experiment).setup({"tcp.parallel": "1"}).measures["tcp"]
    assert measure.sets_each_load is known
