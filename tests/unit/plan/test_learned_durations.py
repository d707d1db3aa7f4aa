"""Estimates: from what earlier runs on the host took, within a factor that is stated."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.plan.conftest import TEXT

from iolab.experiment import parse
from iolab.experiment.experiment import Experiment
from iolab.lab.hosts.facts import Facts, ImageFact
from iolab.plan.durations import GUESS_FACTOR, KEPT, Learned, Took, decode_learned
from iolab.plan.planning import make_plan
from iolab.run.durations_file import recall, remember

S = 1_000_000_000
GUEST = "1xqemu:-:auto:host"


def took(seconds: float, *, started: bool = True, first: bool = True) -> Took:
    """Return a trial of a lab with one guest that took so long beside its measuring."""
    return Took(GUEST, "stream", started=started, first=first, beside_ns=round(seconds * S))


@pytest.fixture
def guests() -> Experiment:
    """Give an experiment with a guest that is started twice in a block."""
    text = TEXT.replace("b: {kind: netns, forward: none}", "b: {kind: vm, forward: none}")
    return parse(text.replace("blocks: 3", "blocks: 1"), "guests.yaml")


@pytest.fixture
def able(facts: Facts) -> Facts:
    """Give a host that starts guests."""
    return replace(facts, images=(ImageFact(flavour="linux"),))


def test_the_estimate_is_what_earlier_runs_took(guests: Experiment, able: Facts) -> None:
    """The start of all guests, starts within a run and trials each have their own; measuring is added."""
    first = make_plan(guests, able)
    known = Learned().also(
        [took(200), took(40, first=False), *(took(each, started=False) for each in (4, 5, 4.5))]
    )
    plan = make_plan(guests, able, learned=known)
    measuring_s = sum(2 if step.measure == "tcp" else 1 for step in plan.steps)
    assert plan.estimate_ns == pytest.approx((200 + 40 + 4.5 * (len(plan.steps) - 2) + measuring_s) * S)
    assert (first.estimate_factor, plan.estimate_factor) == (GUESS_FACTOR, 1.3)
    assert plan.digest == first.digest


def test_a_program_that_ended_early_makes_no_time_below_nothing(guests: Experiment, able: Facts) -> None:
    """Trials that were planned for longer than they took say nothing of shorter ones."""
    known = Learned().also([took(200), took(40, first=False), took(-9, started=False)])
    assert make_plan(guests, able, learned=known).estimate_ns >= 240 * S


def test_the_factor_is_what_earlier_runs_scattered_by(guests: Experiment, able: Facts) -> None:
    """A host that is sometimes busy says so; labs that were never run are a guess."""
    calm = [took(40, first=False), took(1, started=False)]
    known = Learned().also([*calm, took(100), took(200), took(300)])
    assert make_plan(guests, able, learned=known).estimate_factor == pytest.approx(2)
    assert make_plan(guests, able, learned=Learned().also(calm)).estimate_factor == GUESS_FACTOR


def test_a_guess_on_a_busy_host_says_how_far_it_may_lie_off(guests: Experiment, able: Facts) -> None:
    """Nine threads for each CPU: everything takes as many times longer; what was learned is as it was learned."""
    busy = replace(able, load_1min_milli=18_000)
    assert make_plan(guests, busy).estimate_factor == 9 * GUESS_FACTOR
    known = Learned().also([took(40), took(40, first=False), took(1, started=False)])
    assert make_plan(guests, busy, learned=known).estimate_factor == 1.3


def test_the_newest_times_are_kept_from_run_to_run(tmp_path: Path) -> None:
    """A host that became faster is known as such after a few runs."""
    path = tmp_path / "iolab" / "durations.json"
    for seconds in range(KEPT + 3):
        remember(path, [took(seconds)])
    assert recall(path).times[f"start {GUEST}"] == tuple(S * each for each in range(3, KEPT + 3))
    assert [each.name for each in path.parent.iterdir()] == ["durations.json"]


@pytest.mark.parametrize(
    "text",
    ["", "{", "[1]", '{"start x": []}', '{"start x": ["1"]}', '{"start x": [1e999]}', '{"start x": [NaN]}',
     '{"start x": [99999999999999999999]}', '{"start x": {"a": 1}}', "[" * 100_000, "\x00" * 10],
)  # fmt: skip
def test_a_damaged_file_is_as_none(tmp_path: Path, text: str) -> None:
    """Nothing fails, and the next run writes it whole."""
    path = tmp_path / "durations.json"
    path.write_text(text)
    assert recall(path) == Learned()
    remember(path, [took(7)])
    assert recall(path) == Learned({f"start {GUEST}": (7 * S,)})


def test_where_nothing_can_be_written_nothing_is_learned() -> None:
    """A run never fails for it."""
    remember(Path("/proc/iolab/durations.json"), [took(1)])


def test_what_is_stored_is_plain_json(tmp_path: Path) -> None:
    """A person can read it, and delete it."""
    path = tmp_path / "durations.json"
    remember(path, [took(1.5, started=False)])
    assert json.loads(path.read_text()) == {f"trial {GUEST} stream": [1_500_000_000]}
    assert decode_learned({"x": [1]}) == Learned({"x": (1,)})
