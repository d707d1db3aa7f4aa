"""MLRsearch behind iolab's interface, compared with the library itself in its intended use."""

import json
from dataclasses import replace
from math import floor
from pathlib import Path

import pytest
from MLRsearch import AbstractMeasurer, Config, MeasurementResult, MultipleLossRatioSearch, SearchGoal
from tests.unit.trial.search.conftest import (
    CAPACITY_FPS,
    CLEAN,
    LINE_FPS,
    NOISY,
    STALLING,
    results_of,
    search,
)
from tests.wording import in_words

from iolab.results.search import Goal, LoadResult, StopReason
from iolab.trial.search.mlr import Mlr
from iolab.trial.search.simulated import Bench, Device
from iolab.trial.search.types import LoadTrial
from iolab.units import NS_PER_S

RECORDED = Path(__file__).parent / "data" / "mlr-trials.json"
GOAL = Goal(
    loss_ratio=1e-4, relative_width=0.01, min_fps=9001.0, max_fps=LINE_FPS, trial_ns=NS_PER_S // 2, reruns=0
)


class Direct(AbstractMeasurer):  # type: ignore[misc]  # the library publishes no types
    """A measurer in the library's form: it blocks until the trial is done."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.results: list[LoadResult] = []

    def measure(self, intended_duration: float, intended_load: float) -> MeasurementResult:
        """Measure at once."""
        trial = LoadTrial(intended_fps=intended_load, duration_ns=round(intended_duration * NS_PER_S))
        result = self.bench.measure(trial)
        self.results.append(result)
        return MeasurementResult(
            intended_duration=intended_duration,
            intended_load=intended_load,
            intended_count=result.offered_frames,
            offered_count=result.offered_frames,
            forwarding_count=floor(result.offered_frames * (1 - result.sustained_loss_ratio) + 0.5),
        )


def run_directly(device: Device, seed: int) -> tuple[list[LoadResult], float, float, float]:
    """Return trials, lower and upper bound and conditional throughput of the library's own blocking search."""
    goal = SearchGoal(
        loss_ratio=1e-4,
        exceed_ratio=0.5,
        relative_width=0.01,
        initial_trial_duration=0.5,
        final_trial_duration=0.5,
        duration_sum=5.0,
    )
    config = Config()
    config.goals = [goal]
    config.max_load, config.min_load, config.warmup_duration = LINE_FPS, 9001.0, 0.0
    measurer = Direct(Bench(device, seed))
    result = MultipleLossRatioSearch(config).search(measurer, debug=lambda _: None)[goal]
    lower, upper = result.relevant_lower_bound, result.relevant_upper_bound
    return measurer.results, float(lower), float(upper), float(result.conditional_throughput)


UNNOTICED = replace(STALLING, detected_ratio=0.0)
"""Explanations of a loss by the host, which the library does not know."""


@pytest.mark.parametrize("device", [CLEAN, NOISY, UNNOTICED], ids=["clean", "noisy", "stalling"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_wrapper_runs_the_same_trials_and_finds_the_same_bounds_as_the_library(
    device: Device, seed: int
) -> None:
    """Compare loads, durations, relevant bounds and conditional throughput."""
    trials, lower, upper, conditional = run_directly(device, seed)
    results = results_of(Mlr(goal=GOAL), device, seed)
    found = Mlr(goal=GOAL).conclude(results)
    assert results == trials
    assert (found.lower_fps, found.upper_fps) == (lower, upper)
    assert found.conditional_fps == pytest.approx(conditional, rel=1e-12)
    assert found.robust_fps == lower
    assert found.reason is StopReason.NARROW


def classify(results: list[LoadResult], load_fps: float) -> str:
    """Return the class of a load according to draft-15: half of 5 s of full trials, short ones excluded."""
    exceeding = sum(each.loss_ratio > 1e-4 for each in results if each.intended_fps == load_fps) * 0.5
    good = sum(each.loss_ratio <= 1e-4 for each in results if each.intended_fps == load_fps) * 0.5
    whole = max(5.0, good + exceeding)
    if exceeding > 0.5 * whole:
        return "upper bound"
    return "lower bound" if whole - good <= 0.5 * whole else "undecided"


def recorded() -> list[list[LoadResult]]:
    """Return the recorded searches: trials that the library ran on noisy and stalling devices."""
    return [
        [
            LoadResult(
                intended_fps=load,
                duration_ns=NS_PER_S // 2,
                intended_frames=intended,
                offered_frames=offered,
                forwarded_frames=forwarded,
                overhead_ns=50_000_000,
            )
            for load, intended, offered, forwarded in trials
        ]
        for trials in json.loads(RECORDED.read_text())
    ]


@pytest.mark.parametrize("at", range(6))
def test_recorded_trials_are_classified_as_in_the_mlrsearch_draft(at: int) -> None:
    """Compute the bounds after each recorded trial by hand."""
    results = recorded()[at]
    for count in range(1, len(results) + 1):
        seen = results[:count]
        classes = {load: classify(seen, load) for load in sorted({each.intended_fps for each in seen})}
        upper = min((load for load, kind in classes.items() if kind == "upper bound"), default=None)
        lowers = [load for load, kind in classes.items() if kind == "lower bound"]
        lower = max((load for load in lowers if upper is None or load < upper), default=None)
        assert Mlr(goal=GOAL).relevant_bounds(seen) == (lower, upper)


def test_bounds_are_kept_when_the_library_fails_because_no_frame_passes() -> None:
    """Keep the upper bound at the minimum load."""
    device = Device(capacity_fps=CAPACITY_FPS, loss_ratio=0.01)
    with pytest.raises(RuntimeError, match="No lower bound"):
        run_directly(device, 1)
    found = search(Mlr(goal=GOAL), device, 1)
    assert (found.reason, found.lower_fps, found.upper_fps) == (StopReason.NOTHING_PASSES, None, 9001.0)
    assert found.upper_trials


def test_search_ended_by_the_time_limit_keeps_its_coarse_bounds() -> None:
    """Use bounds of coarser targets, and name them so."""
    goal = Goal(
        loss_ratio=1e-4,
        relative_width=0.01,
        min_fps=9001.0,
        max_fps=LINE_FPS,
        trial_ns=NS_PER_S // 2,
        limit_ns=9 * NS_PER_S,
    )
    found = search(Mlr(goal=goal), NOISY, 1)
    assert (found.reason, found.complete) == (StopReason.TIME, False)
    assert found.lower_fps is not None
    assert found.upper_fps is not None
    assert found.lower_fps < CAPACITY_FPS < found.upper_fps
    assert found.method == "mlrsearch-coarse-bounds"
    assert "time limit of 9 s" in in_words(found.seen)


def test_unsent_frames_end_the_search_with_the_generator_as_reason() -> None:
    """Distinguish them from losses, unlike the library."""
    found = search(Mlr(goal=GOAL), Device(capacity_fps=CAPACITY_FPS, generator_fps=4e5), 1)
    assert found.reason is StopReason.GENERATOR
    assert found.lower_fps == pytest.approx(4e5, rel=0.02)


def test_results_of_a_different_goal_are_refused() -> None:
    """Prevent decisions on loads that were never requested."""
    results = results_of(Mlr(goal=GOAL), CLEAN, 1)
    other = Goal(loss_ratio=1e-4, relative_width=0.01, min_fps=9001.0, max_fps=1e6, trial_ns=NS_PER_S // 2)
    with pytest.raises(ValueError, match="start the search again"):
        Mlr(goal=other).propose(results)
