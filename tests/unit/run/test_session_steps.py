"""Walking a plan on a fake agent, step by step: what stands, what is stored, and what a failure leaves."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.fake_agent.agent import FakeAgent, FakeHost, Outcome
from tests.unit.plan.conftest import facts
from tests.wording import in_words

from iolab.agent.client import Agent, AgentLost
from iolab.clock import VirtualClock
from iolab.errors import LabError, TrialFailed
from iolab.experiment import parse
from iolab.lab.hosts.facts import Facts
from iolab.messages.failures import Difference, Failure, OtherFailure, ProgramFailed, ReadBack
from iolab.plan.planning import make_plan
from iolab.plan.types import Plan, Step
from iolab.results.metric import Metrics
from iolab.results.trial import Status
from iolab.results.verdict import Limit, Verdict
from iolab.run.agents import Agents
from iolab.run.lab.standing_lab import StandingLab
from iolab.run.outcome import LabsUnmade
from iolab.run.session import Session
from iolab.store.folder import create_folder
from iolab.store.records import TrialRecord
from iolab.trial.measurement import Failed, Measured

LAB = """
lab:
  machines: {near: {kind: netns}, far: {kind: netns}}
  links: {lan: {ends: [near.eth0, far.eth0]}}
measure:
  tcp: {kind: stream, protocol: tcp, from: near, to: far, duration: 1s}
factors: {tcp.parallel: [1, 2]}
blocks: 1
"""
__all__ = ["facts"]


class Watched:
    """An observer that keeps the order of what happens."""

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
    """A session on a fake host, whose trials and read-backs a test decides."""

    def __init__(
        self, facts: Facts, parent: Path, monkeypatch: pytest.MonkeyPatch, blocks: int = 1, lab: str = LAB
    ) -> None:
        self.host, self.watched = FakeHost(), Watched()
        self.fake = FakeAgent(self.host, programs=lambda argv, netns: Outcome(stdout=""))
        self.measured: Callable[[], Measured] = lambda: Measured(Metrics(), (), 1_000_000_000, (), {})
        self.wrong: list[Difference] = []
        """What reading back after the next trial finds."""
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
        """Do all steps; return how each trial ended, and why."""
        self.session.walk(self.plan.steps, keep_going=keep_going)
        return [(one.result.status, one.result.reason) for one in self.watched.records]


@pytest.fixture
def bench(facts: Facts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A session of two steps that share a lab."""
    programs = dict.fromkeys(("iperf3", "ip", "tc", "ethtool"), "1")
    return Bench(replace(facts, programs=programs), tmp_path, monkeypatch)


@pytest.fixture
def unmakeable(facts: Facts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A session of eight steps whose lab cannot be made, always for the same reason."""
    programs = dict.fromkeys(("iperf3", "ip", "tc", "ethtool"), "1")
    bench = Bench(replace(facts, programs=programs), tmp_path, monkeypatch, blocks=4)

    def refuse(*_: object) -> None:
        raise LabError("ip link add: Operation not supported")

    monkeypatch.setattr(StandingLab, "change_to", refuse)
    return bench


ENDED = ProgramFailed(program="iperf3", role="client", status=1, said="no route")


def netns_made(bench: Bench) -> int:
    """Return how often the lab's first namespace was made."""
    lines = (bench.folder.path / "commands.jsonl").read_text().splitlines()
    return sum('"ip","netns","add","iolab-near"' in line for line in lines)


def test_each_trial_is_stored_before_the_next_begins_and_the_lab_goes_last(bench: Bench) -> None:
    """Steps that share a lab have it made once; at the end nothing stands."""
    assert bench.walk() == [(Status.OK, None)] * 2
    first, second = (bench.plan.cell(step)["tcp.parallel"] for step in bench.plan.steps)
    assert bench.watched.seen == [
        "run of 2, 0 done already",
        f"trial {first} begins", f"trial {first} ended ok",
        f"trial {second} begins", f"trial {second} ended ok",
    ]  # fmt: skip
    assert netns_made(bench) == 1
    assert bench.host.netns == set()
    assert len((bench.folder.path / "trials.jsonl").read_text().splitlines()) == 2


WIRED = """
lab:
  machines: {near: {kind: netns}, mid: {kind: netns, forward: route}, far: {kind: netns}}
  links:
    one: {ends: [near.eth0, mid.eth0], wire: {loss: 1%}}
    two: {ends: [mid.eth1, far.eth0], wire: {loss: 1%}}
measure:
  tcp: {kind: stream, protocol: tcp, from: near, to: far, duration: 1s}
factors:
  links.one.wire.loss: [1%, 2%]
  tcp.parallel: [1, 2]
blocks: 3
"""


def test_each_trial_restarts_the_draws_of_its_block_on_each_link(
    facts: Facts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All levels of a block have the same draws, whatever their order; the wires stand all the time."""
    programs = dict.fromkeys(("iperf3", "ip", "tc", "ethtool"), "1")
    bench = Bench(replace(facts, programs=programs), tmp_path, monkeypatch, blocks=3, lab=WIRED)
    assert bench.walk() == [(Status.OK, None)] * 12
    draws = bench.fake.traffic.draws
    assert [wire for wire, _ in draws] == ["wire:one", "wire:two"] * 12
    of_block = [{(wire, *seeds) for wire, seeds in draws[block * 8 : block * 8 + 8]} for block in range(3)]
    assert [len(found) for found in of_block] == [2, 2, 2]
    assert len({seeds for found in of_block for _, *seeds_ in found for seeds in seeds_}) == 6
    log = (bench.folder.path / "commands.jsonl").read_text()
    assert log.count('"wire.start"') == 2


def test_what_limited_a_trial_is_stored_with_it(bench: Bench) -> None:
    """And read back from the folder."""
    verdict = Verdict(Limit.WINDOW)
    bench.measured = lambda: Measured(Metrics(), (), 1_000_000_000, (), {}, verdict=verdict)
    bench.walk()
    assert [one.result.verdict for one in bench.watched.records] == [verdict, verdict]
    lines = (bench.folder.path / "trials.jsonl").read_text().splitlines()
    assert all('"verdict":' in line and '"window"' in line for line in lines), lines


def test_what_somebody_changed_makes_a_trial_invalid_and_the_lab_is_made_again(bench: Bench) -> None:
    """The trial says what was seen; the next one does not stand on it."""
    bench.wrong = [ReadBack(what="mtu of near.eth0", read="1400", applied="1500")]
    (first, reason), second = bench.walk()
    assert (first, second) == (Status.INVALID, (Status.OK, None))
    assert in_words(reason) == "after the trial, mtu of near.eth0 was set to 1500, but was read back as 1400"
    assert netns_made(bench) == 2


def test_a_failed_trial_is_a_record_with_its_reason_and_the_run_goes_on(bench: Bench) -> None:
    """Its lab stands as applied, so it is kept."""
    once = iter([Failed(ENDED), TrialFailed("what another package says")])

    def measured() -> Measured:
        if error := next(once, None):
            raise error
        return Measured(Metrics(), (), 1_000_000_000, (), {})

    bench.measured = measured
    assert bench.walk() == [
        (Status.FAILED, failure) for failure in (ENDED, OtherFailure(said="what another package says"))
    ]
    assert netns_made(bench) == 1


def test_the_loss_of_this_computers_agent_ends_the_run_with_what_was_stored(bench: Bench) -> None:
    """The trial under way is no record: a resumed run does it again."""
    calls = iter((False, True))

    def measured() -> Measured:
        if next(calls):
            bench.fake.kill()
            raise AgentLost("", "the agent ended")
        return Measured(Metrics(), (), 1_000_000_000, (), {})

    bench.measured = measured
    with pytest.raises(AgentLost):
        bench.walk()
    assert [one.result.status for one in bench.watched.records] == [Status.OK]
    assert len((bench.folder.path / "trials.jsonl").read_text().splitlines()) == 1


def test_three_labs_in_a_row_that_fail_alike_end_the_run_with_the_reason(unmakeable: Bench) -> None:
    """The three are stored; the five others are left for when the cause is gone."""
    with pytest.raises(LabsUnmade) as caught:
        unmakeable.walk(keep_going=False)
    assert in_words(caught.value.failure) == "ip link add: Operation not supported"
    assert len(unmakeable.watched.records) == 3


def test_a_run_that_is_to_keep_going_does_all_trials_whatever_fails(unmakeable: Bench) -> None:
    """Each of the eight is stored as failed."""
    assert {status for status, _ in unmakeable.walk()} == {Status.FAILED}
    assert len(unmakeable.watched.records) == 8


def test_labs_that_fail_for_different_reasons_do_not_end_a_run(
    unmakeable: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another reason begins the count again."""
    reasons = iter(f"reason {number // 2}" for number in range(8))

    def refuse(*_: object) -> None:
        raise LabError(next(reasons))

    monkeypatch.setattr(StandingLab, "change_to", refuse)
    assert len(unmakeable.walk(keep_going=False)) == 8


def test_a_lab_that_could_be_made_begins_the_count_again(
    unmakeable: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trials that fail on a lab that stands say nothing of the next lab."""
    made = iter(number % 3 == 2 for number in range(8))

    def refuse(*_: object) -> None:
        if not next(made):
            raise LabError("no")

    monkeypatch.setattr(StandingLab, "change_to", refuse)
    assert len(unmakeable.walk(keep_going=False)) == 8
