"""The fast search on simulated devices: how near, how soon, how steady, and what it does when it cannot."""

import statistics
from functools import cache

import pytest
from tests.unit.trial.search.conftest import (
    CAPACITY_FPS,
    CLEAN,
    LINE_FPS,
    NOISY,
    SEEDS,
    STALLING,
    goal_for,
    results_of,
    search,
)
from tests.wording import in_words

from iolab.results.search import Found, Goal, StopReason
from iolab.trial.search.evidence import spent_ns
from iolab.trial.search.fast import Fast
from iolab.trial.search.ledger import settle
from iolab.trial.search.mlr import Mlr
from iolab.trial.search.simulated import Bench, Device
from iolab.trial.search.types import LoadTrial
from iolab.units import NS_PER_S

GOAL = goal_for(CAPACITY_FPS)
TRUTH_FPS = CAPACITY_FPS / (1 - GOAL.loss_ratio)


@cache
def founds(device: Device, seeds: int = SEEDS) -> list[Found]:
    """Return what the fast search finds with each seed."""
    return [search(Fast(GOAL), device, seed) for seed in range(seeds)]


def rate(found: Found) -> float:
    """Return the rate, which must be there."""
    assert found.robust_fps is not None
    return found.robust_fps


def variation(rates: list[float]) -> float:
    """Return the coefficient of variation."""
    return statistics.pstdev(rates) / statistics.fmean(rates)


@pytest.mark.parametrize("device", [CLEAN, NOISY, STALLING], ids=["clean", "noisy", "stalling"])
def test_it_needs_ten_seconds_at_most_and_half_of_mlr_with_equal_goals(device: Device) -> None:
    """The median time over seeds, overhead of 50 ms per trial included; of MLRsearch, which is slow, over fewer."""
    ours = statistics.median(found.spent_ns for found in founds(device))
    theirs = statistics.median(search(Mlr(goal=GOAL), device, seed).spent_ns for seed in range(SEEDS // 4))
    assert ours <= 10 * NS_PER_S
    assert ours <= theirs / 2


@pytest.mark.parametrize("capacity_fps", [17_000, 20_333, 21_500, 23_000, 24_567, 25_000, 28_000, 45_000])
def test_a_slow_device_is_found_in_few_trials_whatever_its_rate(capacity_fps: int) -> None:
    """Loads are whole frames/s: no trial may miss the frames that decide by one, and be run for ever."""
    found = search(Fast(goal_for(capacity_fps)), Device(capacity_fps=capacity_fps), 1)
    assert found.complete
    assert found.trials <= 15
    assert capacity_fps < 21_000 or found.spent_ns <= 10 * NS_PER_S


def test_it_scatters_by_half_a_percent_at_most_when_the_capacity_scatters_by_one() -> None:
    """Coefficient of variation of the found rate over seeds."""
    found = founds(NOISY)
    assert all(each.complete for each in found)
    assert variation([rate(each) for each in found]) <= 0.005


def test_its_interval_holds_the_truth_as_often_as_it_says() -> None:
    """95 % nominal; with 40 seeds chance alone brings it below 88 % once in twenty times."""
    held = 0
    for found in founds(NOISY):
        assert found.interval_fps is not None
        held += found.interval_fps[0] <= TRUTH_FPS <= found.interval_fps[1]
    assert held / SEEDS >= 0.88


def test_stalls_of_the_host_never_move_it_by_a_percent() -> None:
    """5 ms at 0.2 per second, of which one in twenty goes unnoticed: every run is within 1 % of the truth."""
    found = founds(STALLING, seeds=max(SEEDS, 100))
    assert all(each.complete for each in found)
    assert max(abs(rate(each) / TRUTH_FPS - 1) for each in found) <= 0.01
    assert any(each.perturbed_trials for each in found)


def test_frequent_stalls_on_a_noisy_device_do_not_move_it_far() -> None:
    """Ten times as many stalls, and noise: still complete, and the mean within half a percent."""
    device = Device(capacity_fps=CAPACITY_FPS, noise_ratio=0.01, stalls_per_s=2.0)
    found = founds(device, seeds=10)
    assert statistics.fmean(rate(each) for each in found) == pytest.approx(TRUTH_FPS, rel=0.005)


def test_a_clean_device_is_bracketed_by_trials_within_the_width() -> None:
    """The bounds are loads at which trials were run, and the rate lies between them."""
    results = results_of(Fast(GOAL), CLEAN, 1)
    found = Fast(GOAL).conclude(results)
    assert found.lower_fps is not None
    assert found.upper_fps is not None
    assert found.lower_fps < TRUTH_FPS < found.upper_fps
    assert (found.upper_fps - found.lower_fps) / found.upper_fps <= GOAL.relative_width
    assert {results[at].intended_fps for at in found.lower_trials} == {found.lower_fps}
    assert {results[at].intended_fps for at in found.upper_trials} == {found.upper_fps}


@pytest.mark.parametrize("seed", range(5))
def test_no_load_passes_on_fewer_than_ten_expected_losses(seed: int) -> None:
    """A lower bound stands on trials of 10/loss_ratio frames; an upper one on more losses than these may have."""
    results = results_of(Fast(GOAL), NOISY, seed)
    found = Fast(GOAL).conclude(results)
    assert max(results[at].offered_frames for at in found.lower_trials) >= 10 / GOAL.loss_ratio
    assert max(results[at].lost_frames for at in found.upper_trials) > 10


@pytest.mark.parametrize("queue_frames", [0, 64, 256, 1000, 2000])
def test_a_queue_is_not_taken_for_capacity(queue_frames: int) -> None:
    """1000 frames of queue are 1 % of a short trial, but no part of what is forwarded without end."""
    device = Device(capacity_fps=CAPACITY_FPS, queue_frames=queue_frames)
    assert rate(search(Fast(GOAL), device, 3)) == pytest.approx(TRUTH_FPS, rel=0.002)


@pytest.mark.parametrize("livelock", [0.2, 1.0, 5.0])
def test_a_device_that_collapses_under_overload_is_measured_below_it(livelock: float) -> None:
    """The forwarding rate under overload is far below capacity; the search climbs back."""
    found = search(Fast(GOAL), Device(capacity_fps=CAPACITY_FPS, livelock=livelock), 2)
    assert found.complete
    assert rate(found) == pytest.approx(TRUTH_FPS, rel=0.01)


def test_loss_that_begins_below_capacity_is_followed_down() -> None:
    """1e-2 at capacity and ten times less each 2 % below it: 1e-4 is 4 % below, and forwarding never tells."""
    device = Device(capacity_fps=CAPACITY_FPS, onset_ratio=0.02)
    for found in founds(device, seeds=10):
        assert found.complete
        assert found.method == "bracket"
        assert rate(found) == pytest.approx(0.96 * CAPACITY_FPS, rel=0.01)


def test_a_drifting_device_is_found_near_its_mean() -> None:
    """A tenth of a percent per second, over some seconds."""
    device = Device(capacity_fps=CAPACITY_FPS, drift_ratio_per_s=0.001)
    assert rate(search(Fast(GOAL), device, 5)) == pytest.approx(TRUTH_FPS, rel=0.005)


def test_a_generator_that_cannot_send_more_is_named() -> None:
    """Nothing is lost, much is unsent: the bound is what the generator sent."""
    device = Device(capacity_fps=CAPACITY_FPS, generator_fps=500_000)
    found = search(Fast(GOAL), device, 6)
    assert found.reason is StopReason.GENERATOR
    assert found.lower_fps == pytest.approx(500_000, rel=1e-4)
    assert f"{found.lower_fps:.0f}" in in_words(found.seen)


def test_a_device_faster_than_the_line_is_not_given_a_rate_above_it() -> None:
    """The highest load allowed passes, in a trial long enough to overflow any queue."""
    found = search(Fast(GOAL), Device(capacity_fps=2e6, generator_fps=2e6), 7)
    assert (found.reason, found.lower_fps, found.upper_fps) == (StopReason.LINE, LINE_FPS, None)
    almost = search(Fast(GOAL), Device(capacity_fps=0.998 * LINE_FPS, generator_fps=2e6), 7)
    assert almost.reason is StopReason.NARROW


@pytest.mark.parametrize(
    "device",
    [Device(capacity_fps=CAPACITY_FPS, loss_ratio=1e-3), Device(capacity_fps=0.0, queue_frames=0)],
    ids=["fixed-loss", "dead"],
)
def test_a_device_that_loses_at_every_load_has_no_lower_bound(device: Device) -> None:
    """It ends at the lowest load allowed, and says so."""
    found = search(Fast(GOAL), device, 8)
    assert found.reason is StopReason.NOTHING_PASSES
    assert found.lower_fps is None
    assert found.upper_fps == GOAL.min_fps


def test_a_loss_below_the_goal_does_not_stop_it() -> None:
    """Half of the acceptable loss at every load."""
    device = Device(capacity_fps=CAPACITY_FPS, loss_ratio=5e-5)
    assert rate(search(Fast(GOAL), device, 9)) == pytest.approx(TRUTH_FPS, rel=0.005)


def test_perturbed_trials_are_kept_and_run_again_as_often_as_allowed() -> None:
    """With a stall in every trial: two re-runs each, all of them in the results."""
    device = Device(capacity_fps=CAPACITY_FPS, stalls_per_s=200.0, detected_ratio=1.0)
    bench, strategy = Bench(device, 1), Fast(GOAL)
    first = strategy.propose([])
    assert isinstance(first, LoadTrial)
    results = [bench.measure(first)]
    assert results[0].perturbed
    for _ in range(GOAL.reruns):
        assert strategy.propose(results) == first
        results.append(bench.measure(first))
    assert strategy.propose(results) != first
    (reading,) = settle(results, GOAL).readings
    assert reading.places == (0, 1, 2)
    assert reading.result.loss_ratio == min(each.loss_ratio for each in results)


def test_the_time_limit_leaves_partial_bounds() -> None:
    """It stops before the limit, incomplete, with what the trials say so far."""
    goal = goal_for(CAPACITY_FPS, limit_s=1)
    results = results_of(Fast(goal), CLEAN, 0)
    found = Fast(goal).conclude(results)
    assert spent_ns(results) <= 1.1 * NS_PER_S
    assert (found.reason, found.complete) == (StopReason.TIME, False)
    assert found.upper_fps is not None
    assert rate(found) == pytest.approx(TRUTH_FPS, rel=0.01)


def test_zero_loss_is_refused_with_a_way_out() -> None:
    """No number of frames shows that none will ever be lost."""
    goal = Goal(loss_ratio=0.0, relative_width=0.01, min_fps=1.0, max_fps=2.0)
    with pytest.raises(ValueError, match="take bisect or mlr"):
        Fast(goal)
