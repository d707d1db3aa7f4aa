"""Requirements of every load search: known devices, partial results, resuming; bisection, trial by trial."""

from dataclasses import replace

import pytest
from tests.unit.trial.search.conftest import CAPACITY_FPS, NOISY, STALLING, goal_for, results_of, search

from iolab.messages.evidence import CpuStolen
from iolab.results.search import Goal, LoadResult, StopReason
from iolab.trial.search.bisect import Bisect
from iolab.trial.search.evidence import meets, strict_fps
from iolab.trial.search.fast import Fast
from iolab.trial.search.mlr import Mlr
from iolab.trial.search.simulated import Bench, Device
from iolab.trial.search.types import LoadTrial, Strategy


def strategies(goal: Goal) -> dict[str, Strategy]:
    """Return every search for this goal."""
    return {"bisect": Bisect(goal), "mlr": Mlr(goal=goal), "fast": Fast(goal)}


NAMES = sorted(strategies(goal_for(1e5)))


@pytest.mark.parametrize("capacity_fps", [20_000, 100_000, 300_000])
@pytest.mark.parametrize("name", NAMES)
def test_every_search_finds_token_buckets_within_half_a_percent(name: str, capacity_fps: int) -> None:
    """Use known capacities, and a burst of 64 frames."""
    strategy = strategies(goal_for(capacity_fps, width=0.005))[name]
    found = search(strategy, Device(capacity_fps=capacity_fps, queue_frames=64), 1)
    assert found.complete
    assert found.robust_fps == pytest.approx(capacity_fps, rel=0.005)
    assert found.lower_fps is not None
    assert found.upper_fps is not None
    assert found.lower_fps <= capacity_fps * 1.002
    assert found.upper_fps >= capacity_fps


@pytest.mark.parametrize("device", [NOISY, STALLING], ids=["noisy", "stalling"])
@pytest.mark.parametrize("name", NAMES)
def test_equal_seeds_and_results_give_equal_decisions(name: str, device: Device) -> None:
    """Compare two objects, in any trial."""
    goal = goal_for(CAPACITY_FPS)
    first, second = (results_of(strategies(goal)[name], device, 11) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("name", NAMES)
def test_interruption_after_any_trial_leaves_valid_bounds(name: str) -> None:
    """Keep lower below upper, at loads of trials, and incomplete until the end."""
    goal = goal_for(CAPACITY_FPS)
    strategy = strategies(goal)[name]
    results = results_of(strategy, NOISY, 12)
    for count in range(len(results)):
        found = strategy.conclude(results[:count])
        assert (found.trials, found.complete, found.reason) == (count, False, StopReason.UNFINISHED)
        loads = {result.intended_fps for result in results[:count]}
        assert {found.lower_fps, found.upper_fps} <= loads | {None}
        assert (found.lower_fps or 0) < (found.upper_fps or float("inf"))
    assert strategy.conclude(results).complete


@pytest.mark.parametrize("name", NAMES)
def test_resumed_search_continues_identically(name: str) -> None:
    """Compare each proposal with the next trial of the original search."""
    goal = goal_for(CAPACITY_FPS)
    results = results_of(strategies(goal)[name], STALLING, 13)
    for count, result in enumerate(results):
        trial = strategies(goal)[name].propose(results[:count])
        assert trial == LoadTrial(intended_fps=result.intended_fps, duration_ns=result.duration_ns)


@pytest.mark.parametrize("name", NAMES)
def test_strict_rate_counts_every_trial(name: str) -> None:
    """Use the highest load below the lowest failed one, perturbed trials included."""
    goal = goal_for(CAPACITY_FPS)
    results = results_of(strategies(goal)[name], STALLING, 14)
    strict = strategies(goal)[name].conclude(results).strict_fps
    lowest_failed = min(result.intended_fps for result in results if not meets(result, goal))
    below = [result.intended_fps for result in results if result.intended_fps < lowest_failed]
    assert strict == max(below, default=None)


def test_perturbed_failure_lowers_the_strict_rate_but_not_the_bounds() -> None:
    """Check a stall at half of the capacity."""
    goal = goal_for(CAPACITY_FPS)
    results = results_of(Fast(goal), Device(capacity_fps=CAPACITY_FPS), 15)
    calm = Fast(goal).conclude(results)
    low = Bench(Device(capacity_fps=CAPACITY_FPS), 1).measure(
        LoadTrial(intended_fps=300_000.0, duration_ns=400_000_000)
    )
    held_up = (CpuStolen(stolen_ns=5_000_000),)
    stalled = replace(low, forwarded_frames=low.forwarded_frames - 1500, perturbations=held_up)
    seen = [*results, stalled]
    assert calm.strict_fps == calm.lower_fps
    assert strict_fps(seen, goal) is None
    assert Fast(goal).conclude(seen).lower_fps == calm.lower_fps


def test_unsent_ratio_refers_to_intended_frames_and_loss_ratio_to_offered_frames() -> None:
    """Compute both ratios of one trial."""
    result = LoadResult(
        intended_fps=1000.0, duration_ns=10**9, intended_frames=1000, offered_frames=800, forwarded_frames=600
    )
    assert (result.lost_frames, result.unsent_frames) == (200, 200)
    assert (result.loss_ratio, result.unsent_ratio) == (0.25, 0.2)
    assert (result.offered_fps, result.forwarded_fps) == (800.0, 600.0)


def test_all_invalid_values_of_a_goal_are_reported_at_once() -> None:
    """Check loss, width, loads, duration and reruns in one message."""
    with pytest.raises(ValueError, match="loss_ratio 2") as caught:
        Goal(loss_ratio=2, relative_width=0, min_fps=5, max_fps=4, trial_ns=0, reruns=-1)
    assert str(caught.value).count(";") == 4


GOAL = Goal(loss_ratio=1e-4, relative_width=0.1, min_fps=10.0, max_fps=1600.0, reruns=0)


def answer(trial: LoadTrial, lost: int) -> LoadResult:
    """Return a trial of 100 000 frames with that many lost."""
    return LoadResult(
        intended_fps=trial.intended_fps,
        duration_ns=trial.duration_ns,
        intended_frames=100_000,
        offered_frames=100_000,
        forwarded_frames=100_000 - lost,
    )


def walk(strategy: Bisect, losses: list[int]) -> list[float]:
    """Return the tried loads, given the lost frames of each trial."""
    results: list[LoadResult] = []
    for lost in losses:
        trial = strategy.propose(results)
        assert isinstance(trial, LoadTrial)
        results.append(answer(trial, lost))
    return [result.intended_fps for result in results]


def test_bisection_halves_the_load_on_loss_and_moves_half_way_up_without_loss() -> None:
    """Start at 1000; after losses at 1000 and 500, go from 250 half-way to 500."""
    assert walk(Bisect(GOAL, start_fps=1000), [500, 500, 0, 0, 500]) == [1000, 500, 250, 375, 437.5]
    assert walk(Bisect(GOAL, start_fps=1000), [0, 0, 500]) == [1000, 1300, 1450]


def test_load_whose_loss_equals_the_goal_fails() -> None:
    """Fail 10 of 100 000 at a goal of 0.01 %; pass 9."""
    assert walk(Bisect(GOAL, start_fps=1000), [10, 0]) == [1000, 500]
    assert walk(Bisect(GOAL, start_fps=1000), [9, 0]) == [1000, 1300]


def test_bisection_decides_by_the_mean_loss_of_several_trials() -> None:
    """Pass 0 and 18 lost frames together; fail 0 and 22."""
    assert walk(Bisect(GOAL, start_fps=1000, trials=2), [0, 18, 0]) == [1000, 1000, 1300]
    assert walk(Bisect(GOAL, start_fps=1000, trials=2), [0, 22, 0]) == [1000, 1000, 500]


def test_repeated_bisections_give_a_mean_rate_with_an_interval() -> None:
    """Run three searches from the start, with Student's interval."""
    goal = goal_for(CAPACITY_FPS)
    results = results_of(Bisect(goal), NOISY, 1)
    found = Bisect(goal).conclude(results)
    assert len(found.searches_fps) == 3
    assert sum(result.intended_fps == goal.max_fps for result in results) == 3
    assert found.robust_fps == pytest.approx(sum(found.searches_fps) / 3)
    assert found.method == "t-of-searches"
    assert found.interval_fps is not None
    assert found.interval_fps[0] < min(found.searches_fps) <= max(found.searches_fps) < found.interval_fps[1]


@pytest.mark.parametrize(
    ("device", "reason"),
    [
        (Device(capacity_fps=2e6, generator_fps=2e6), StopReason.LINE),
        (Device(capacity_fps=2e6, generator_fps=5e5), StopReason.GENERATOR),
        (Device(capacity_fps=2e6, loss_ratio=0.01), StopReason.NOTHING_PASSES),
        (Device(capacity_fps=3e5), StopReason.NARROW),
    ],
)
def test_bisection_states_the_reason_for_its_end(device: Device, reason: StopReason) -> None:
    """Check the line, the generator, the minimum load, and the width."""
    assert search(Bisect(goal_for(3e5), searches=1), device, 2).reason is reason
