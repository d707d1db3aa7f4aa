"""Runs on a fake agent, step by step: existing resources, stored trials, and the state after a failure."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.plan.conftest import facts
from tests.unit.run.session_bench import Bench, netns_made
from tests.wording import in_words

from iolab.agent.client import AgentLost
from iolab.errors import LabError, TrialFailed
from iolab.lab.hosts.facts import Facts
from iolab.messages.failures import OtherFailure, ProgramFailed, ReadBack
from iolab.results.metric import Metrics
from iolab.results.trial import Status
from iolab.results.verdict import Limit, Verdict
from iolab.run.lab.standing_lab import StandingLab
from iolab.run.outcome import LabsUnmade
from iolab.trial.measurement import Failed, Measured

__all__ = ["facts"]


@pytest.fixture
def bench(facts: Facts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Provide a session of two steps that share a lab."""
    programs = dict.fromkeys(("iperf3", "ip", "tc", "ethtool"), "1")
    return Bench(replace(facts, programs=programs), tmp_path, monkeypatch)


@pytest.fixture
def unmakeable(facts: Facts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Provide a session of eight steps whose lab creation always fails for the same reason."""
    programs = dict.fromkeys(("iperf3", "ip", "tc", "ethtool"), "1")
    bench = Bench(replace(facts, programs=programs), tmp_path, monkeypatch, blocks=4)

    def refuse(*_: object) -> None:
        raise LabError("ip link add: Operation not supported")

    monkeypatch.setattr(StandingLab, "change_to", refuse)
    return bench


ENDED = ProgramFailed(program="iperf3", role="client", status=1, said="no route")


def test_each_trial_is_stored_before_the_next_begins_and_the_lab_is_undone_at_the_end(bench: Bench) -> None:
    """Create the common lab of two steps once."""
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


def test_random_seeds_of_each_emulated_link_restart_with_each_block(
    facts: Facts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Give all levels of a block the same draws in any order; keep the links."""
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


def test_verdict_is_stored_with_its_trial(bench: Bench) -> None:
    """Read it back from the folder."""
    verdict = Verdict(Limit.WINDOW)
    bench.measured = lambda: Measured(Metrics(), (), 1_000_000_000, (), {}, verdict=verdict)
    bench.walk()
    assert [one.result.verdict for one in bench.watched.records] == [verdict, verdict]
    lines = (bench.folder.path / "trials.jsonl").read_text().splitlines()
    assert all('"verdict":' in line and '"window"' in line for line in lines), lines


def test_change_by_another_program_makes_a_trial_invalid_and_the_lab_is_recreated(bench: Bench) -> None:
    """Report the read value; the next trial gets a new lab."""
    bench.wrong = [ReadBack(what="mtu of near.eth0", read="1400", applied="1500")]
    (first, reason), second = bench.walk()
    assert (first, second) == (Status.INVALID, (Status.OK, None))
    assert in_words(reason) == "after the trial, mtu of near.eth0 was set to 1500, but was read back as 1400"
    assert netns_made(bench) == 2


def test_failed_trial_is_recorded_with_its_reason_and_the_run_continues(bench: Bench) -> None:
    """Keep its lab, which is as applied."""
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


def test_loss_of_the_local_agent_ends_the_run_and_keeps_the_stored_trials(bench: Bench) -> None:
    """Store nothing of the current trial, which a resumed run repeats."""
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


def test_three_consecutive_labs_with_the_same_failure_end_the_run(unmakeable: Bench) -> None:
    """Store these three, and leave five for a later run."""
    with pytest.raises(LabsUnmade) as caught:
        unmakeable.walk(keep_going=False)
    assert in_words(caught.value.failure) == "ip link add: Operation not supported"
    assert len(unmakeable.watched.records) == 3


def test_keep_going_runs_all_trials_despite_failures(unmakeable: Bench) -> None:
    """Store each of the eight as failed."""
    assert {status for status, _ in unmakeable.walk()} == {Status.FAILED}
    assert len(unmakeable.watched.records) == 8


def test_labs_that_fail_for_different_reasons_do_not_end_the_run(
    unmakeable: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reset the count at each new reason."""
    reasons = iter(f"reason {number // 2}" for number in range(8))

    def refuse(*_: object) -> None:
        raise LabError(next(reasons))

    monkeypatch.setattr(StandingLab, "change_to", refuse)
    assert len(unmakeable.walk(keep_going=False)) == 8


def test_successfully_created_lab_resets_the_failure_count(
    unmakeable: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ignore failed trials on an existing lab."""
    made = iter(number % 3 == 2 for number in range(8))

    def refuse(*_: object) -> None:
        if not next(made):
            raise LabError("no")

    monkeypatch.setattr(StandingLab, "change_to", refuse)
    assert len(unmakeable.walk(keep_going=False)) == 8
