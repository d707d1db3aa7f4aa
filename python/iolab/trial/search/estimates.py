"""What all results together say to `fast`: decided loads, the capacity, and whether the two agree. Chooses nothing."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from iolab.results.search import Goal, LoadResult
from iolab.units import NS_PER_S

from .capacity import Capacity, Observation, estimate, falls_with_load
from .durations import deciding_frames, load_of, quick_excess, round_load
from .evidence import meets
from .ledger import Ledger, Reading
from .sustained import SLACK, Sustained
from .votes import Votes, count_votes, decided_bounds

NEAR = 1.10
"""Overload up to which the forwarded rate is taken for the capacity [per forwarded rate]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Everything that the results say."""

    readings: tuple[Reading, ...]
    """What counts, in its order."""
    sustained: Sustained
    """The device at its limit, as far as it was seen there."""
    top_fps: float
    """Highest load that can be offered [frames/s]."""
    generator_limited: bool
    """Whether the generator, not the goal, sets `top_fps`."""
    votes: tuple[Votes, ...]
    """Decided and undecided loads, lowest first."""
    capacity: Capacity | None
    """From trials near capacity; none yet, or none possible."""
    saturated: int
    """Trials near capacity that were overloaded."""
    contradicted: bool
    """The capacity does not explain what was decided: loss begins below it, or overload lowers the forwarding."""
    lower_fps: float | None
    """Highest load decided to meet the goal, below all that do not [frames/s]."""
    upper_fps: float | None
    """Lowest load decided not to meet it [frames/s]."""

    @property
    def results(self) -> tuple[LoadResult, ...]:
        """Return the results that count."""
        return tuple(reading.result for reading in self.readings)


def look(ledger: Ledger, goal: Goal) -> View:
    """Return what the readings say; what a burst hid from earlier trials, too."""
    readings = tuple(reread(reading, ledger.sustained, goal) for reading in ledger.readings)
    results = tuple(reading.result for reading in readings)
    short = [result.offered_fps for result in results if result.short_ratio > goal.unsent_ratio]
    top_fps = goal.max_fps
    if short and any(result.intended_fps >= goal.max_fps for result in results):
        top_fps = min(top_fps, round_load(max(result.offered_fps for result in results), goal))
    seen = observe(readings, ledger.sustained, goal)
    saturated = sum(each.saturated for each in seen)
    capacity = estimate(seen, finest(goal)) if saturated else None
    votes = count_votes(readings, goal, deciding_frames(goal))
    contradicted = capacity is not None and (
        falls_with_load(seen)
        or sum(collapses(each, load_of(capacity.median_fps, goal), goal) for each in results) >= 2
        or any(surprises(each, readings, ledger.sustained, goal) for each in votes if each.count >= 2)
    )
    rate = math.inf if capacity is None or contradicted else load_of(capacity.median_fps, goal)
    lower, upper = decided_bounds(votes, rate)
    return View(
        readings=readings,
        sustained=ledger.sustained,
        top_fps=top_fps,
        generator_limited=top_fps < goal.max_fps,
        votes=votes,
        capacity=capacity,
        saturated=saturated,
        contradicted=contradicted,
        lower_fps=lower,
        upper_fps=upper,
    )


def reread(reading: Reading, sustained: Sustained, goal: Goal) -> Reading:
    """Return a reading in the light of what was seen of the device later."""
    if not meets(reading.result, goal):
        return reading
    return replace(reading, hidden_loss_ratio=sustained.hides(reading.result, goal))


def finest(goal: Goal) -> float:
    """Return how finely the capacity is looked at, per capacity [ratio]."""
    return goal.relative_width / 50


def observe(readings: Sequence[Reading], sustained: Sustained, goal: Goal) -> tuple[Observation, ...]:
    """Return what the trials near capacity tell of it."""
    results = [reading.result for reading in readings]
    failed = [
        each for each in results if not meets(each, goal) and each.forwarded_frames and not each.began_late
    ]
    near = [each for each in failed if each.offered_fps <= near_ratio(sustained, goal) * each.sustained_fps]
    if not near:
        return ()
    # A device that loses a share of everything is "near capacity" at any load: the highest loads are meant.
    most = max(each.sustained_fps for each in near)
    near = [each for each in near if each.sustained_fps > 0.8 * most]
    least = min(each.sustained_fps for each in near)
    good = [each.result for each in readings if meets(each.result, goal) and not each.hidden]
    passed = [each for each in good if each.offered_fps >= least / NEAR]
    return (*(_at_limit(each) for each in near), *(_below(each, sustained) for each in passed))


def near_ratio(sustained: Sustained, goal: Goal) -> float:
    """Return the overload up to which the forwarded rate is the capacity; a burst needs more to be used up."""
    if sustained.fps is None:
        return NEAR
    return max(NEAR, 1.0 + 1.5 * quick_excess(sustained.fps, sustained.burst_frames, goal))


def _at_limit(result: LoadResult) -> Observation:
    share = result.steady.share_ratio if result.steady is not None and result.at_limit else 1.0
    seconds = share * result.duration_ns / NS_PER_S
    return Observation(result.offered_fps, result.sustained_fps * seconds, seconds, saturated=True)


def _below(result: LoadResult, sustained: Sustained) -> Observation:
    seconds = result.duration_ns / NS_PER_S
    frames = result.forwarded_fps * seconds - SLACK * sustained.burst_frames
    return Observation(result.offered_fps, max(0.0, frames), seconds, saturated=False)


def surprises(votes: Votes, readings: Sequence[Reading], sustained: Sustained, goal: Goal) -> bool:
    """Return whether a load went against what all other trials let expect.

    Trials beyond it are left out too: loss that begins early would else drag the estimate down with it.
    """
    load = votes.load_fps
    passes = votes.pass_s > votes.fail_s
    if passes:
        others = [
            each
            for each in readings
            if each.result.offered_fps < load or each.hidden or not meets(each.result, goal)
        ]
    else:
        others = [each for each in readings if each.result.offered_fps > load]
    seen = observe(others, sustained, goal)
    if not any(each.saturated for each in seen):
        return False
    capacity = estimate(seen, finest(goal))
    # Overloads are run at two standard deviations, often: that two in a row pass is no wonder before three.
    leeway_ratio = max(goal.relative_width / 4, (3 if passes else 1) * capacity.noise_ratio)
    return votes.contradicts(load_of(capacity.median_fps, goal), leeway_ratio)


def collapses(result: LoadResult, rate_fps: float, goal: Goal) -> bool:
    """Return whether hardly any overload took more than a tenth of what is forwarded."""
    slight = result.offered_fps <= (1 + (NEAR - 1) / 2) * rate_fps
    return slight and not meets(result, goal) and NEAR * result.sustained_fps < result.offered_fps
