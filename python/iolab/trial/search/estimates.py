"""Combine all results for `fast`: decided loads, the capacity, their consistency, and trial durations."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from iolab.results.search import Goal, LoadResult
from iolab.trial.search.capacity import Capacity, Observation, estimate, falls_with_load
from iolab.trial.search.evidence import SLACK, Sustained, meets
from iolab.trial.search.ledger import Ledger, Reading, Votes, count_votes, decided_bounds
from iolab.trial.search.types import LoadTrial
from iolab.units import NS_PER_S

EXPECTED_LOSSES = 10
"""Acceptable number of lost frames in a deciding trial; if fewer were acceptable, a single stray lost frame could
decide."""
SPARE = 1.0025
"""Margin of a deciding trial: loads are rounded to whole frames/s, and a sender may slip slightly."""
SHORTEST_S = 0.05
"""Minimum trial duration [s]; in shorter trials, the start and the end have too much weight."""
SCOUT_FRAMES = 5_000
"""Frames of an estimating trial: one frame changes the result by a fiftieth of a percent."""
SCOUT_S = 0.3
"""If a deciding trial takes longer than this, a shorter estimating trial saves time [s]."""
QUICK_S = 0.5
"""Maximum duration of a trial that only exhausts a burst; the load is raised until this time suffices [s]."""
LONGEST_S = 0.9
"""Maximum duration of a trial that exhausts a burst just above the rate [s].

In simulations with limits of 2 s and 4 s, searches of token buckets of 5000 to 100 000 frames find the same rate, but
take up to twice as long.
"""


def deciding_frames(goal: Goal) -> int:
    """Return the number of frames that a trial must send to decide that a load passes."""
    return math.ceil(EXPECTED_LOSSES / goal.loss_ratio)


def deciding_s(load_fps: float, goal: Goal) -> float:
    """Return the minimum duration of a trial that can decide that a load passes [s]."""
    return max(SHORTEST_S, SPARE * deciding_frames(goal) / load_fps)


def scout_s(load_fps: float, goal: Goal) -> float:
    """Return the duration of an estimating trial [s]."""
    enough_s = SCOUT_FRAMES / load_fps
    return max(min(deciding_s(load_fps, goal), max(SCOUT_S, enough_s)), min(SCOUT_S, enough_s))


def overload_s(load_fps: float, rate_fps: float, burst_frames: float, goal: Goal) -> float:
    """Return the duration of an overload trial [s]: about twice the time in which the burst is exhausted."""
    excess_fps = max(load_fps - rate_fps, goal.relative_width / 10 * rate_fps)
    wanted_s = 2 * burst_frames / excess_fps + 3 * EXPECTED_LOSSES / excess_fps
    longest_s = max(4 * deciding_s(load_fps, goal), LONGEST_S if burst_frames else 0.0)
    return min(max(scout_s(load_fps, goal), wanted_s), longest_s)


def quick_excess(rate_fps: float, burst_frames: float, goal: Goal) -> float:
    """Return the overload, relative to the rate, that exhausts a burst in half of a short trial [ratio]."""
    quick_s = max(QUICK_S, scout_s(rate_fps, goal))
    return 2 * burst_frames / (quick_s * rate_fps)


def trial_at(load_fps: float, duration_s: float, goal: Goal) -> LoadTrial:
    """Return a trial within the allowed loads, with a duration in whole microseconds."""
    load = round_load(min(max(load_fps, goal.min_fps), goal.max_fps), goal)
    return LoadTrial(intended_fps=load, duration_ns=math.ceil(duration_s * 1e6) * (NS_PER_S // 1_000_000))


def round_load(load_fps: float, goal: Goal) -> float:
    """Return the load in whole frames/s if that is precise enough; the ends of the allowed range are not rounded."""
    whole = load_fps * goal.relative_width >= 100 and load_fps not in (goal.min_fps, goal.max_fps)
    return float(round(load_fps)) if whole else load_fps


def load_of(capacity_fps: float, goal: Goal) -> float:
    """Return the load at which a device of this capacity has exactly the acceptable loss [frames/s]."""
    return capacity_fps / (1 - goal.loss_ratio)


NEAR = 1.10
"""Maximum ratio of the load to the forwarded rate at which the forwarded rate counts as the capacity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Combined information from all results."""

    readings: tuple[Reading, ...]
    """Readings on which the decisions are based, in order."""
    sustained: Sustained
    """Known limit of the device."""
    top_fps: float
    """Highest load that can be offered [frames/s]."""
    generator_limited: bool
    """Whether the generator, not the goal, determines `top_fps`."""
    votes: tuple[Votes, ...]
    """Votes on all loads, decided and undecided, lowest load first."""
    capacity: Capacity | None
    """Capacity estimate from trials near capacity; None if there are no such trials."""
    saturated: int
    """Number of overload trials near capacity."""
    contradicted: bool
    """Whether the capacity contradicts decided loads, because loss starts below it, or overload reduces the forwarded
    rate."""
    lower_fps: float | None
    """Highest load that was decided to meet the goal, below all loads that do not meet the goal [frames/s]."""
    upper_fps: float | None
    """Lowest load that was decided not to meet the goal [frames/s]."""

    @property
    def results(self) -> tuple[LoadResult, ...]:
        """Return the results on which the decisions are based."""
        return tuple(reading.result for reading in self.readings)


def look(ledger: Ledger, goal: Goal) -> View:
    """Return the combined information; losses that a burst hid in earlier trials are included."""
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
    """Return a reading updated with later information about the device's limit."""
    if not meets(reading.result, goal):
        return reading
    return replace(reading, hidden_loss_ratio=sustained.hides(reading.result, goal))


def finest(goal: Goal) -> float:
    """Return the resolution of the capacity estimate, relative to the capacity [ratio]."""
    return goal.relative_width / 50


def observe(readings: Sequence[Reading], sustained: Sustained, goal: Goal) -> tuple[Observation, ...]:
    """Return the observations from trials at loads near the capacity."""
    results = [reading.result for reading in readings]
    failed = [
        each for each in results if not meets(each, goal) and each.forwarded_frames and not each.began_late
    ]
    near = [each for each in failed if each.offered_fps <= near_ratio(sustained, goal) * each.sustained_fps]
    if not near:
        return ()
    # A device with a constant loss ratio is "near capacity" at every load: only the highest loads count.
    most = max(each.sustained_fps for each in near)
    near = [each for each in near if each.sustained_fps > 0.8 * most]
    least = min(each.sustained_fps for each in near)
    good = [each.result for each in readings if meets(each.result, goal) and not each.hidden]
    passed = [each for each in good if each.offered_fps >= least / NEAR]
    return (*(_at_limit(each) for each in near), *(_below(each, sustained) for each in passed))


def near_ratio(sustained: Sustained, goal: Goal) -> float:
    """Return the maximum overload ratio at which the forwarded rate is the capacity; exhausting a burst needs a higher
    ratio."""
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
    """Whether the decision at a load contradicts the estimate from all other trials.

    Trials at loads beyond this load are excluded too, because loss that starts early would also reduce the estimate.
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
    # Overload trials run two standard deviations above the estimate; two passes in a row are surprising only above
    # three.
    leeway_ratio = max(goal.relative_width / 4, (3 if passes else 1) * capacity.noise_ratio)
    return votes.contradicts(load_of(capacity.median_fps, goal), leeway_ratio)


def collapses(result: LoadResult, rate_fps: float, goal: Goal) -> bool:
    """Whether a slight overload reduced the forwarded rate by more than a tenth."""
    slight = result.offered_fps <= (1 + (NEAR - 1) / 2) * rate_fps
    return slight and not meets(result, goal) and NEAR * result.sustained_fps < result.offered_fps
