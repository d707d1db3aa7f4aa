"""What all results together say to `fast`: decided loads, the capacity, and whether the two agree. Chooses nothing."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .capacity import Capacity, Observation, estimate, falls_with_load
from .durations import deciding_frames, load_of, round_load
from .evidence import Reading, meets
from .types import NS_PER_S, Goal, LoadResult
from .votes import Votes, count_votes, decided_bounds

NEAR = 1.10
"""Overload up to which the forwarded rate is taken for the capacity [per forwarded rate]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Everything that the results say."""

    results: tuple[LoadResult, ...]
    """Those that count, in their order."""
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


def look(readings: Sequence[Reading], goal: Goal) -> View:
    """Return what the readings say."""
    results = tuple(reading.result for reading in readings)
    short = [result.offered_fps for result in results if result.unsent_ratio > goal.unsent_ratio]
    seen = observe(results, goal)
    saturated = sum(each.saturated for each in seen)
    capacity = estimate(seen, finest(goal)) if saturated else None
    votes = count_votes(results, goal, deciding_frames(goal))
    contradicted = capacity is not None and (
        falls_with_load(seen, capacity.queue_frames)
        or sum(collapses(each, load_of(capacity.median_fps, goal), goal) for each in results) >= 2
        or any(surprises(each, results, goal) for each in votes if each.count >= 2)
    )
    rate = math.inf if capacity is None or contradicted else load_of(capacity.median_fps, goal)
    lower, upper = decided_bounds(votes, rate)
    return View(
        results=results,
        top_fps=min([goal.max_fps, *(round_load(fps, goal) for fps in short)]),
        generator_limited=bool(short),
        votes=votes,
        capacity=capacity,
        saturated=saturated,
        contradicted=contradicted,
        lower_fps=lower,
        upper_fps=upper,
    )


def finest(goal: Goal) -> float:
    """Return how finely the capacity is looked at, per capacity [ratio]."""
    return goal.relative_width / 50


def observe(results: Sequence[LoadResult], goal: Goal) -> tuple[Observation, ...]:
    """Return what the trials near capacity tell of it."""
    failed = [each for each in results if not meets(each, goal) and each.forwarded_frames > 0]
    near = [each for each in failed if each.offered_fps <= NEAR * each.forwarded_fps]
    if not near:
        return ()
    # A device that loses a share of everything is "near capacity" at any load: the highest loads are meant.
    most = max(each.forwarded_fps for each in near)
    near = [each for each in near if each.forwarded_fps > 0.8 * most]
    least = min(each.forwarded_fps for each in near)
    passed = [each for each in results if meets(each, goal) and each.offered_fps >= least / NEAR]
    return tuple(
        Observation(
            offered_fps=each.offered_fps,
            forwarded_frames=each.forwarded_frames,
            duration_s=each.duration_ns / NS_PER_S,
            saturated=not meets(each, goal),
        )
        for each in (*near, *passed)
    )


def surprises(votes: Votes, results: Sequence[LoadResult], goal: Goal) -> bool:
    """Return whether a load went against what all other trials let expect.

    Trials beyond it are left out too: loss that begins early would else drag the estimate down with it.
    """
    load = votes.load_fps
    passes = votes.pass_s > votes.fail_s
    if passes:
        others = [each for each in results if each.offered_fps < load or not meets(each, goal)]
    else:
        others = [each for each in results if each.offered_fps > load]
    seen = observe(others, goal)
    if not any(each.saturated for each in seen):
        return False
    capacity = estimate(seen, finest(goal))
    # Overloads are run at two standard deviations, often: that two in a row pass is no wonder before three.
    leeway_ratio = max(goal.relative_width / 4, (3 if passes else 1) * capacity.noise_ratio)
    return votes.contradicts(load_of(capacity.median_fps, goal), leeway_ratio)


def collapses(result: LoadResult, rate_fps: float, goal: Goal) -> bool:
    """Return whether hardly any overload took more than a tenth of what is forwarded."""
    slight = result.offered_fps <= (1 + (NEAR - 1) / 2) * rate_fps
    return slight and not meets(result, goal) and NEAR * result.forwarded_fps < result.offered_fps
