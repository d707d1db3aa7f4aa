"""Bisection, trial by trial, against what the study's rule says."""

import pytest
from tests.unit.trial.search.conftest import CAPACITY_FPS, NOISY, goal_for, results_of, search

from iolab.results.search import Goal, LoadResult, StopReason
from iolab.trial.search.bisect import Bisect
from iolab.trial.search.simulated import Device
from iolab.trial.search.types import LoadTrial

GOAL = Goal(loss_ratio=1e-4, relative_width=0.1, min_fps=10.0, max_fps=1600.0, reruns=0)


def answer(trial: LoadTrial, lost: int) -> LoadResult:
    """Return a trial of 100 000 frames with so many lost."""
    return LoadResult(
        intended_fps=trial.intended_fps,
        duration_ns=trial.duration_ns,
        intended_frames=100_000,
        offered_frames=100_000,
        forwarded_frames=100_000 - lost,
    )


def walk(strategy: Bisect, losses: list[int]) -> list[float]:
    """Return the loads tried while trials lose so many frames each."""
    results: list[LoadResult] = []
    for lost in losses:
        trial = strategy.propose(results)
        assert isinstance(trial, LoadTrial)
        results.append(answer(trial, lost))
    return [result.intended_fps for result in results]


def test_it_halves_on_loss_and_goes_half_way_up_without() -> None:
    """Start at 1000; loss at 1000 and 500; then half-way up from 250 to 500, and half-way to 1600 when all is well."""
    assert walk(Bisect(GOAL, start_fps=1000), [500, 500, 0, 0, 500]) == [1000, 500, 250, 375, 437.5]
    assert walk(Bisect(GOAL, start_fps=1000), [0, 0, 500]) == [1000, 1300, 1450]


def test_a_loss_equal_to_the_goal_is_one_too_many() -> None:
    """The study halves on loss of 0.01 % or more: 10 of 100 000 fail, 9 pass."""
    assert walk(Bisect(GOAL, start_fps=1000), [10, 0]) == [1000, 500]
    assert walk(Bisect(GOAL, start_fps=1000), [9, 0]) == [1000, 1300]


def test_the_mean_of_several_trials_decides() -> None:
    """Two trials of 0 and 18 lost frames pass together, of 0 and 22 they fail."""
    assert walk(Bisect(GOAL, start_fps=1000, trials=2), [0, 18, 0]) == [1000, 1000, 1300]
    assert walk(Bisect(GOAL, start_fps=1000, trials=2), [0, 22, 0]) == [1000, 1000, 500]


def test_whole_searches_are_repeated_and_spread() -> None:
    """Three searches, each from the start; the rate is their mean, and the interval Student's."""
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
def test_it_says_what_ended_it(device: Device, reason: StopReason) -> None:
    """The line, the generator, the lowest load, or the width."""
    assert search(Bisect(goal_for(3e5), searches=1), device, 2).reason is reason
