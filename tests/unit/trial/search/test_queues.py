"""Deep queues, bursts and generators that fall short: no search takes them for the device's rate."""

import statistics

import pytest
from tests.unit.trial.search.conftest import results_of, search

from iolab.messages.evidence import CpuStolen
from iolab.results.search import Found, Goal, LoadResult, StopReason
from iolab.trial.search.bisect import Bisect
from iolab.trial.search.evidence import AtLimit, Sustained, strict_fps
from iolab.trial.search.fast import Fast
from iolab.trial.search.mlr import Mlr
from iolab.trial.search.simulated import Bench, Device
from iolab.trial.search.types import LoadTrial, Strategy
from iolab.units import NS_PER_S

NAMES = ["bisect", "mlr", "fast"]
FAST_FPS = 2e6
"""Of a generator that is no limit."""


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


def rate(found: Found) -> float:
    """Return the rate, which must be there."""
    assert found.robust_fps is not None
    return found.robust_fps


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
def test_a_queue_or_a_burst_is_no_part_of_the_rate(
    name: str, capacity_fps: int, queue_frames: int, burst_frames: int, loss_ratio: float
) -> None:
    """Within 1 % of what the device forwards without end, or of the load that loses the goal's ratio there."""
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
def test_fast_finds_a_bucket_in_15_s_on_a_host_that_takes_50_ms_of_each_second(
    burst_frames: int, of_sender: float
) -> None:
    """As kernels do from real-time threads that never rest: a trial of a second or more is hardly ever calm."""
    device = Device(
        capacity_fps=100_000, queue_frames=64, burst_frames=burst_frames, generator_fps=FAST_FPS,
        stalls_per_s=1.0, stall_ns=50_000_000, sender_stalls_ratio=of_sender,
    )  # fmt: skip
    founds = [search(Fast(goal_of(1e-3)), device, seed) for seed in range(5)]
    for found in founds:
        assert found.complete
        assert rate(found) == pytest.approx(100_100, rel=0.01)
    assert statistics.median(found.spent_ns for found in founds) < 15 * NS_PER_S


def test_a_load_that_passed_because_its_sender_was_held_up_is_no_pass() -> None:
    """104 000 were asked for and 98 800 offered in the mean; the bucket saved up credit for the rest."""
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
def test_what_was_seen_of_queue_and_burst_is_told(name: str) -> None:
    """A shaper with 5000 frames of queue and a burst of 2000."""
    device = Device(capacity_fps=25_000, queue_frames=5000, burst_frames=2000, generator_fps=FAST_FPS)
    found = search(strategy_of(name, goal_of(1e-3)), device, 1)
    assert found.sustained_fps == pytest.approx(25_000, rel=0.005)
    assert found.queue_frames == pytest.approx(5000, rel=0.05)
    assert found.burst_frames == pytest.approx(2000, rel=0.1)


@pytest.mark.parametrize("name", NAMES)
def test_a_burst_does_not_pass_for_the_line(name: str) -> None:
    """The highest load is a fifth above the capacity: a second of it is taken up, five are not."""
    device = Device(capacity_fps=80_000, queue_frames=0, burst_frames=20_000, generator_fps=FAST_FPS)
    found = search(strategy_of(name, goal_of(1e-3, max_fps=96_000)), device, 1)
    assert found.reason is StopReason.NARROW
    assert rate(found) == pytest.approx(80_000, rel=0.01)


def test_a_search_begins_again_where_a_load_had_passed_by_a_burst() -> None:
    """Bisection from below: 120 000 passes in 200 ms before the limit is seen, and is not believed afterwards."""
    device = Device(capacity_fps=100_000, queue_frames=0, burst_frames=6_000, generator_fps=FAST_FPS)
    goal = Goal(loss_ratio=1e-3, relative_width=0.01, min_fps=1000.0, max_fps=1.488e6, trial_ns=NS_PER_S // 5)
    strategy = Bisect(goal, start_fps=120_000, searches=1)
    results = results_of(strategy, device, 1)
    assert (results[0].intended_fps, results[0].lost_frames) == (120_000, 0)
    found = strategy.conclude(results)
    assert rate(found) == pytest.approx(100_000, rel=0.01)


def test_a_rate_above_the_sustained_one_is_marked() -> None:
    """By more than the width, and where a burst was seen; a device without one may forward less under overload."""
    goal = goal_of(1e-3)
    limit = AtLimit(fps=100_000.0, offered_fps=200_000.0, duration_ns=NS_PER_S)
    bucket = Sustained((limit,), burst_frames=6_000.0)
    assert bucket.exceeded_by(102_000.0, goal)
    assert not bucket.exceeded_by(100_900.0, goal)
    assert not Sustained((limit,)).exceeded_by(150_000.0, goal)
    assert not Sustained().exceeded_by(150_000.0, goal)


@pytest.mark.parametrize("shortage_ratio", [0.0005, 0.001, 0.05, 0.5])
@pytest.mark.parametrize("name", NAMES)
def test_frames_that_were_never_sent_are_no_loss_of_the_device(name: str, shortage_ratio: float) -> None:
    """A sender that leaves out a share of every load: the rate is what the device forwards all the same."""
    device = Device(capacity_fps=100_000, shortage_ratio=shortage_ratio, generator_fps=FAST_FPS)
    found = search(strategy_of(name, goal_of(1e-4)), device, 1)
    assert found.complete
    assert rate(found) == pytest.approx(100_000, rel=0.01)


@pytest.mark.parametrize("share", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("name", NAMES)
def test_a_generator_below_the_capacity_is_named_with_what_it_sent(name: str, share: float) -> None:
    """The rate is a lower bound, and it is what was sent: neither less nor more."""
    device = Device(capacity_fps=100_000, generator_fps=share * 100_000)
    found = search(strategy_of(name, goal_of(1e-4)), device, 1)
    assert found.reason is StopReason.GENERATOR
    assert found.lower_fps == pytest.approx(share * 100_000, rel=0.002)


def test_a_trial_that_the_host_held_up_does_not_raise_the_strict_figure() -> None:
    """40 000 frames/s were asked for and 32 000 offered in the mean: the strict figure is what was offered."""
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


def test_short_trials_are_not_added_up_to_a_long_one() -> None:
    """The highest load is believed when one trial of the length that the method promises has passed."""
    device = Device(capacity_fps=FAST_FPS, generator_fps=FAST_FPS)
    goal = goal_of(1e-4)
    results = results_of(Fast(goal), device, 1)
    assert Fast(goal).conclude(results).reason is StopReason.LINE
    assert max(result.duration_ns for result in results) >= 4.9 * NS_PER_S
    bench = Bench(device, 1)
    short = [bench.measure(LoadTrial(intended_fps=goal.max_fps, duration_ns=NS_PER_S)) for _ in range(8)]
    assert isinstance(Fast(goal).propose(short), LoadTrial)
