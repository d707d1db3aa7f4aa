"""The fast search on simulated devices: accuracy, duration, variation; queues do not count as capacity."""

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

from iolab.messages.evidence import CpuStolen
from iolab.results.search import Found, Goal, LoadResult, StopReason
from iolab.trial.search.bisect import Bisect
from iolab.trial.search.evidence import AtLimit, Sustained, spent_ns, strict_fps
from iolab.trial.search.fast import Fast
from iolab.trial.search.ledger import settle
from iolab.trial.search.mlr import Mlr
from iolab.trial.search.simulated import Bench, Device
from iolab.trial.search.types import LoadTrial, Strategy
from iolab.units import NS_PER_S

GOAL = goal_for(CAPACITY_FPS)
TRUTH_FPS = CAPACITY_FPS / (1 - GOAL.loss_ratio)


@cache
def founds(device: Device, seeds: int = SEEDS) -> list[Found]:
    """Return the results of the fast search for each seed."""
    return [search(Fast(GOAL), device, seed) for seed in range(seeds)]


def rate(found: Found) -> float:
    """Return the rate, which must exist."""
    assert found.robust_fps is not None
    return found.robust_fps


def variation(rates: list[float]) -> float:
    """Return the coefficient of variation."""
    return statistics.pstdev(rates) / statistics.fmean(rates)


@pytest.mark.parametrize("device", [CLEAN, NOISY, STALLING], ids=["clean", "noisy", "stalling"])
def test_fast_search_needs_at_most_10_s_and_half_the_time_of_mlr(device: Device) -> None:
    """Include 50 ms of overhead per trial; use fewer seeds for MLRsearch, which is slow."""
    ours = statistics.median(found.spent_ns for found in founds(device))
    theirs = statistics.median(search(Mlr(goal=GOAL), device, seed).spent_ns for seed in range(SEEDS // 4))
    assert ours <= 10 * NS_PER_S
    assert ours <= theirs / 2


@pytest.mark.parametrize("capacity_fps", [17_000, 20_333, 21_500, 23_000, 24_567, 25_000, 28_000, 45_000])
def test_slow_device_is_found_in_few_trials_at_any_rate(capacity_fps: int) -> None:
    """Use whole frames/s, so that no trial misses the decision by one frame."""
    found = search(Fast(goal_for(capacity_fps)), Device(capacity_fps=capacity_fps), 1)
    assert found.complete
    assert found.trials <= 15
    assert capacity_fps < 21_000 or found.spent_ns <= 10 * NS_PER_S


def test_found_rate_varies_by_at_most_half_a_percent_if_the_capacity_varies_by_1_percent() -> None:
    """Compute the coefficient of variation over seeds."""
    found = founds(NOISY)
    assert all(each.complete for each in found)
    assert variation([rate(each) for each in found]) <= 0.005


def test_confidence_interval_contains_the_true_rate_at_the_nominal_frequency() -> None:
    """Expect 95 %; chance gives below 88 % with 40 seeds once in twenty times."""
    held = 0
    for found in founds(NOISY):
        assert found.interval_fps is not None
        held += found.interval_fps[0] <= TRUTH_FPS <= found.interval_fps[1]
    assert held / SEEDS >= 0.88


def test_host_stalls_change_the_found_rate_by_less_than_1_percent() -> None:
    """Check stalls of 5 ms at 0.2 per second, one in twenty of which is unnoticed."""
    found = founds(STALLING, seeds=max(SEEDS, 100))
    assert all(each.complete for each in found)
    assert max(abs(rate(each) / TRUTH_FPS - 1) for each in found) <= 0.01
    assert any(each.perturbed_trials for each in found)


def test_frequent_stalls_on_a_noisy_device_change_the_mean_rate_by_half_a_percent_at_most() -> None:
    """Check ten times as many stalls with noise."""
    device = Device(capacity_fps=CAPACITY_FPS, noise_ratio=0.01, stalls_per_s=2.0)
    found = founds(device, seeds=10)
    assert statistics.fmean(rate(each) for each in found) == pytest.approx(TRUTH_FPS, rel=0.005)


def test_deterministic_device_is_bracketed_by_trials_within_the_width() -> None:
    """Use loads of trials as bounds."""
    results = results_of(Fast(GOAL), CLEAN, 1)
    found = Fast(GOAL).conclude(results)
    assert found.lower_fps is not None
    assert found.upper_fps is not None
    assert found.lower_fps < TRUTH_FPS < found.upper_fps
    assert (found.upper_fps - found.lower_fps) / found.upper_fps <= GOAL.relative_width
    assert {results[at].intended_fps for at in found.lower_trials} == {found.lower_fps}
    assert {results[at].intended_fps for at in found.upper_trials} == {found.upper_fps}


@pytest.mark.parametrize("seed", range(5))
def test_lower_bound_needs_trials_with_at_least_ten_expected_losses(seed: int) -> None:
    """Require trials of 10/loss_ratio frames, and more losses for an upper bound."""
    results = results_of(Fast(GOAL), NOISY, seed)
    found = Fast(GOAL).conclude(results)
    assert max(results[at].offered_frames for at in found.lower_trials) >= 10 / GOAL.loss_ratio
    assert max(results[at].lost_frames for at in found.upper_trials) > 10


@pytest.mark.parametrize("queue_frames", [0, 64, 256, 1000, 2000])
def test_queue_does_not_raise_the_found_rate(queue_frames: int) -> None:
    """Exclude 1000 queued frames, 1 % of a short trial."""
    device = Device(capacity_fps=CAPACITY_FPS, queue_frames=queue_frames)
    assert rate(search(Fast(GOAL), device, 3)) == pytest.approx(TRUTH_FPS, rel=0.002)


@pytest.mark.parametrize("livelock", [0.2, 1.0, 5.0])
def test_device_that_collapses_under_overload_is_measured_below_overload(livelock: float) -> None:
    """Start from the low rate under overload."""
    found = search(Fast(GOAL), Device(capacity_fps=CAPACITY_FPS, livelock=livelock), 2)
    assert found.complete
    assert rate(found) == pytest.approx(TRUTH_FPS, rel=0.01)


def test_loss_that_begins_below_capacity_lowers_the_found_rate() -> None:
    """Find 1e-4 at 4 % below capacity, which the forwarding rate does not show."""
    device = Device(capacity_fps=CAPACITY_FPS, onset_ratio=0.02)
    for found in founds(device, seeds=10):
        assert found.complete
        assert found.method == "bracket"
        assert rate(found) == pytest.approx(0.96 * CAPACITY_FPS, rel=0.01)


def test_drifting_device_is_found_near_its_mean_rate() -> None:
    """Check a tenth of a percent per second."""
    device = Device(capacity_fps=CAPACITY_FPS, drift_ratio_per_s=0.001)
    assert rate(search(Fast(GOAL), device, 5)) == pytest.approx(TRUTH_FPS, rel=0.005)


def test_slow_generator_is_named_as_the_limit() -> None:
    """Use the sent rate as the bound, without loss."""
    device = Device(capacity_fps=CAPACITY_FPS, generator_fps=500_000)
    found = search(Fast(GOAL), device, 6)
    assert found.reason is StopReason.GENERATOR
    assert found.lower_fps == pytest.approx(500_000, rel=1e-4)
    assert f"{found.lower_fps:.0f}" in in_words(found.seen)


def test_found_rate_never_exceeds_the_line_rate() -> None:
    """Pass the maximum load in a trial that would overflow any queue."""
    found = search(Fast(GOAL), Device(capacity_fps=2e6, generator_fps=2e6), 7)
    assert (found.reason, found.lower_fps, found.upper_fps) == (StopReason.LINE, LINE_FPS, None)
    almost = search(Fast(GOAL), Device(capacity_fps=0.998 * LINE_FPS, generator_fps=2e6), 7)
    assert almost.reason is StopReason.NARROW


@pytest.mark.parametrize(
    "device",
    [Device(capacity_fps=CAPACITY_FPS, loss_ratio=1e-3), Device(capacity_fps=0.0, queue_frames=0)],
    ids=["fixed-loss", "dead"],
)
def test_device_that_loses_frames_at_every_load_has_no_lower_bound(device: Device) -> None:
    """End at the minimum load."""
    found = search(Fast(GOAL), device, 8)
    assert found.reason is StopReason.NOTHING_PASSES
    assert found.lower_fps is None
    assert found.upper_fps == GOAL.min_fps


def test_loss_below_the_goal_does_not_end_the_search() -> None:
    """Check half of the acceptable loss at every load."""
    device = Device(capacity_fps=CAPACITY_FPS, loss_ratio=5e-5)
    assert rate(search(Fast(GOAL), device, 9)) == pytest.approx(TRUTH_FPS, rel=0.005)


def test_perturbed_trials_are_kept_and_rerun_up_to_the_limit() -> None:
    """Check two reruns of each trial, all with stalls."""
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


def test_search_ended_by_the_time_limit_has_partial_bounds() -> None:
    """Stop before the limit."""
    goal = goal_for(CAPACITY_FPS, limit_s=1)
    results = results_of(Fast(goal), CLEAN, 0)
    found = Fast(goal).conclude(results)
    assert spent_ns(results) <= 1.1 * NS_PER_S
    assert (found.reason, found.complete) == (StopReason.TIME, False)
    assert found.upper_fps is not None
    assert rate(found) == pytest.approx(TRUTH_FPS, rel=0.01)


def test_zero_loss_goal_is_refused_with_alternatives() -> None:
    """Explain that no number of frames proves zero loss."""
    goal = Goal(loss_ratio=0.0, relative_width=0.01, min_fps=1.0, max_fps=2.0)
    with pytest.raises(ValueError, match="use bisect or mlr"):
        Fast(goal)


NAMES = ["bisect", "mlr", "fast"]
FAST_FPS = 2e6
"""Rate of a generator that is not the limit."""


def goal_of(loss_ratio: float, *, max_fps: float = 1.488e6) -> Goal:
    """Return a goal with trials of one second."""
    return Goal(
        loss_ratio=loss_ratio, relative_width=0.01, min_fps=1000.0, max_fps=max_fps, trial_ns=NS_PER_S
    )


def strategy_of(name: str, goal: Goal) -> Strategy:
    """Return a search by name."""
    if name == "bisect":
        return Bisect(goal, searches=1)
    return Mlr(goal=goal) if name == "mlr" else Fast(goal)


@pytest.mark.parametrize("loss_ratio", [1e-5, 1e-2])
@pytest.mark.parametrize(
    ("capacity_fps", "queue_frames", "burst_frames"),
    [
        (25_000, 1250, 5),
        (25_000, 5_000, 64),
        (30_000, 0, 256),
        (100_000, 0, 20_000),
        (25_000, 0, 100_000),
        (100_000, 100_000, 0),
        (1_000_000, 20_000, 20_000),
        (1_000_000, 0, 100_000),
    ],
)
@pytest.mark.parametrize("name", NAMES)
def test_queue_or_burst_does_not_raise_the_found_rate(
    name: str, capacity_fps: int, queue_frames: int, burst_frames: int, loss_ratio: float
) -> None:
    """Stay within 1 % of the sustained rate, or of the load with the goal's loss."""
    device = Device(
        capacity_fps=capacity_fps,
        queue_frames=queue_frames,
        burst_frames=burst_frames,
        generator_fps=FAST_FPS,
    )
    found = search(strategy_of(name, goal_of(loss_ratio)), device, 1)
    assert found.complete
    assert not found.taken_up
    assert 0.99 * capacity_fps <= rate(found) <= 1.01 * capacity_fps / (1 - loss_ratio)


@pytest.mark.parametrize("of_sender", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("burst_frames", [0, 20_000])
def test_fast_search_finds_a_token_bucket_in_15_s_despite_realtime_throttling(
    burst_frames: int, of_sender: float
) -> None:
    """Check 50 ms of each second, as kernels throttle real-time threads."""
    device = Device(
        capacity_fps=100_000, queue_frames=64, burst_frames=burst_frames, generator_fps=FAST_FPS,
        stalls_per_s=1.0, stall_ns=50_000_000, sender_stalls_ratio=of_sender,
    )  # fmt: skip
    founds = [search(Fast(goal_of(1e-3)), device, seed) for seed in range(5)]
    for found in founds:
        assert found.complete
        assert rate(found) == pytest.approx(100_100, rel=0.01)
    assert statistics.median(found.spent_ns for found in founds) < 15 * NS_PER_S


def test_load_that_passed_only_because_of_a_sender_stall_does_not_count() -> None:
    """Check 104 000 intended and 98 800 offered frames through a token bucket."""
    bucket = Sustained(
        (AtLimit(fps=100_000.0, offered_fps=200_000.0, duration_ns=NS_PER_S),), burst_frames=1_000.0
    )
    held = LoadResult(
        intended_fps=104_000.0,
        duration_ns=NS_PER_S,
        intended_frames=104_000,
        offered_frames=98_800,
        forwarded_frames=98_800,
        perturbations=(CpuStolen(stolen_ns=5_000_000),),
        held_ns=50_000_000,
        excused_frames=5_200,
    )
    assert bucket.hides(held, goal_of(1e-3)) == pytest.approx(1 - 100 / 104)


@pytest.mark.parametrize("name", NAMES)
def test_queue_size_and_burst_size_of_a_shaper_are_estimated(name: str) -> None:
    """Check a shaper with 5000 queued frames and a burst of 2000."""
    device = Device(capacity_fps=25_000, queue_frames=5000, burst_frames=2000, generator_fps=FAST_FPS)
    found = search(strategy_of(name, goal_of(1e-3)), device, 1)
    assert found.sustained_fps == pytest.approx(25_000, rel=0.005)
    assert found.queue_frames == pytest.approx(5000, rel=0.05)
    assert found.burst_frames == pytest.approx(2000, rel=0.1)


@pytest.mark.parametrize("name", NAMES)
def test_load_that_passed_only_through_a_burst_is_not_taken_as_the_capacity(name: str) -> None:
    """Overload the capacity by a fifth: the burst lasts a second, not five."""
    device = Device(capacity_fps=80_000, queue_frames=0, burst_frames=20_000, generator_fps=FAST_FPS)
    found = search(strategy_of(name, goal_of(1e-3, max_fps=96_000)), device, 1)
    assert found.reason is StopReason.NARROW
    assert rate(found) == pytest.approx(80_000, rel=0.01)


def test_search_restarts_if_a_load_passed_only_through_a_burst() -> None:
    """Pass 120 000 in 200 ms, before the limit is known, and reject it later."""
    device = Device(capacity_fps=100_000, queue_frames=0, burst_frames=6_000, generator_fps=FAST_FPS)
    goal = Goal(loss_ratio=1e-3, relative_width=0.01, min_fps=1000.0, max_fps=1.488e6, trial_ns=NS_PER_S // 5)
    strategy = Bisect(goal, start_fps=120_000, searches=1)
    results = results_of(strategy, device, 1)
    assert (results[0].intended_fps, results[0].lost_frames) == (120_000, 0)
    found = strategy.conclude(results)
    assert rate(found) == pytest.approx(100_000, rel=0.01)


def test_rate_above_the_sustained_rate_is_marked() -> None:
    """Require a burst, and more than the width; a device without one may slow down under overload."""
    goal = goal_of(1e-3)
    limit = AtLimit(fps=100_000.0, offered_fps=200_000.0, duration_ns=NS_PER_S)
    bucket = Sustained((limit,), burst_frames=6_000.0)
    assert bucket.exceeded_by(102_000.0, goal)
    assert not bucket.exceeded_by(100_900.0, goal)
    assert not Sustained((limit,)).exceeded_by(150_000.0, goal)
    assert not Sustained().exceeded_by(150_000.0, goal)


@pytest.mark.parametrize("shortage_ratio", [0.0005, 0.001, 0.05, 0.5])
@pytest.mark.parametrize("name", NAMES)
def test_unsent_frames_are_not_counted_as_loss(name: str, shortage_ratio: float) -> None:
    """Check a sender that omits a share of every load."""
    device = Device(capacity_fps=100_000, shortage_ratio=shortage_ratio, generator_fps=FAST_FPS)
    found = search(strategy_of(name, goal_of(1e-4)), device, 1)
    assert found.complete
    assert rate(found) == pytest.approx(100_000, rel=0.01)


@pytest.mark.parametrize("share", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("name", NAMES)
def test_rate_limited_by_the_generator_equals_the_sent_rate(name: str, share: float) -> None:
    """Give an exact lower bound."""
    device = Device(capacity_fps=100_000, generator_fps=share * 100_000)
    found = search(strategy_of(name, goal_of(1e-4)), device, 1)
    assert found.reason is StopReason.GENERATOR
    assert found.lower_fps == pytest.approx(share * 100_000, rel=0.002)


def test_stall_in_a_trial_does_not_raise_the_strict_rate() -> None:
    """Use 32 000 offered frames/s, not 40 000 intended."""
    held = LoadResult(
        intended_fps=40_000.0,
        duration_ns=NS_PER_S,
        intended_frames=40_000,
        offered_frames=32_000,
        forwarded_frames=32_000,
        perturbations=(CpuStolen(stolen_ns=5_000_000),),
        held_ns=200_000_000,
        excused_frames=8_000,
    )
    assert strict_fps([held], goal_of(1e-4)) == pytest.approx(32_000)


def test_several_short_trials_do_not_replace_a_long_trial() -> None:
    """Require one trial of the promised length at the highest load."""
    device = Device(capacity_fps=FAST_FPS, generator_fps=FAST_FPS)
    goal = goal_of(1e-4)
    results = results_of(Fast(goal), device, 1)
    assert Fast(goal).conclude(results).reason is StopReason.LINE
    assert max(result.duration_ns for result in results) >= 4.9 * NS_PER_S
    bench = Bench(device, 1)
    short = [bench.measure(LoadTrial(intended_fps=goal.max_fps, duration_ns=NS_PER_S)) for _ in range(8)]
    assert isinstance(Fast(goal).propose(short), LoadTrial)
