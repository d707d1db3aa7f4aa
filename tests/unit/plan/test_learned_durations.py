"""Estimates from the durations of earlier runs on the host, within a stated factor."""

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
    """Return a trial of a lab with one guest and that overhead."""
    return Took(GUEST, "stream", started=started, first=first, beside_ns=round(seconds * S))


@pytest.fixture
def guests() -> Experiment:
    """Return an experiment with a guest that is started twice per block."""
    text = TEXT.replace("b: {kind: netns, forward: none}", "b: {kind: vm, forward: none}")
    return parse(text.replace("blocks: 3", "blocks: 1"), "guests.yaml")


@pytest.fixture
def able(facts: Facts) -> Facts:
    """Return a host that starts guests."""
    return replace(facts, images=(ImageFact(flavour="linux"),))


def test_estimate_uses_the_durations_of_earlier_runs(guests: Experiment, able: Facts) -> None:
    """Distinguish the start of all guests, restarts and trials; add the measuring time."""
    first = make_plan(guests, able)
    known = Learned().also(
        [took(200), took(40, first=False), *(took(each, started=False) for each in (4, 5, 4.5))]
    )
    plan = make_plan(guests, able, learned=known)
    measuring_s = sum(2 if step.measure == "tcp" else 1 for step in plan.steps)
    assert plan.estimate_ns == pytest.approx((200 + 40 + 4.5 * (len(plan.steps) - 2) + measuring_s) * S)
    assert (first.estimate_factor, plan.estimate_factor) == (GUESS_FACTOR, 1.3)
    assert plan.digest == first.digest


def test_early_end_of_a_program_gives_no_negative_duration(guests: Experiment, able: Facts) -> None:
    """Ignore trials that ended early when estimating shorter ones."""
    known = Learned().also([took(200), took(40, first=False), took(-9, started=False)])
    assert make_plan(guests, able, learned=known).estimate_ns >= 240 * S


def test_estimate_factor_follows_the_variation_of_earlier_runs(guests: Experiment, able: Facts) -> None:
    """Give a larger factor on a busy host, and for labs that never ran."""
    calm = [took(40, first=False), took(1, started=False)]
    known = Learned().also([*calm, took(100), took(200), took(300)])
    assert make_plan(guests, able, learned=known).estimate_factor == pytest.approx(2)
    assert make_plan(guests, able, learned=Learned().also(calm)).estimate_factor == GUESS_FACTOR


def test_estimate_factor_of_a_busy_host_is_larger_without_earlier_runs(
    guests: Experiment, able: Facts
) -> None:
    """Multiply the factor by nine threads per CPU; keep learned durations."""
    busy = replace(able, load_1min_milli=18_000)
    assert make_plan(guests, busy).estimate_factor == 9 * GUESS_FACTOR
    known = Learned().also([took(40), took(40, first=False), took(1, started=False)])
    assert make_plan(guests, busy, learned=known).estimate_factor == 1.3


def test_only_the_newest_durations_are_kept(tmp_path: Path) -> None:
    """Follow a host that became faster within a few runs."""
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
def test_damaged_duration_file_is_ignored_and_replaced(tmp_path: Path, text: str) -> None:
    """Rewrite it in the next run."""
    path = tmp_path / "durations.json"
    path.write_text(text)
    assert recall(path) == Learned()
    remember(path, [took(7)])
    assert recall(path) == Learned({f"start {GUEST}": (7 * S,)})


def test_unwritable_duration_file_is_not_an_error() -> None:
    """Never fail a run."""
    remember(Path("/proc/iolab/durations.json"), [took(1)])


def test_stored_durations_are_plain_json(tmp_path: Path) -> None:
    """Allow a person to read and delete it."""
    path = tmp_path / "durations.json"
    remember(path, [took(1.5, started=False)])
    assert json.loads(path.read_text()) == {f"trial {GUEST} stream": [1_500_000_000]}
    assert decode_learned({"x": [1]}) == Learned({"x": (1,)})
