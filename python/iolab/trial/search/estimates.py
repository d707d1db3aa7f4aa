"""What all results together say to `fast`: decided loads, the capacity, and whether they agree; how long trials are."""

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
"""Frames that may be lost in a trial that decides: with fewer, one stray frame would decide."""
SPARE = 1.0025
"""Loads are rounded to whole frames/s and a sender may slip a little: a trial must not miss a frame to decide."""
SHORTEST_S = 0.05
"""No trial is shorter: its start and end would weigh [s]."""
SCOUT_FRAMES = 5_000
"""Frames of a trial that only estimates: one more or less is a fiftieth of a percent."""
SCOUT_S = 0.3
"""From which duration on it is worth while to estimate in less than a deciding trial [s]."""
QUICK_S = 0.5
"""How long a trial may be that only uses up a burst: the load is as high as it takes [s]."""
LONGEST_S = 0.9
"""How long a trial may be that uses up a burst just above the rate: simulated with 2 and 4 s, searches of token buckets
of 5000 to 100 000 frames find the same rate, and take up to twice as long [s]."""


def deciding_frames(goal: Goal) -> int:
    """Return the frames that a trial needs to pass a load."""
    return math.ceil(EXPECTED_LOSSES / goal.loss_ratio)


def deciding_s(load_fps: float, goal: Goal) -> float:
    """Return how long a trial that can pass must be [s]."""
    return max(SHORTEST_S, SPARE * deciding_frames(goal) / load_fps)


def scout_s(load_fps: float, goal: Goal) -> float:
    """Return how long a trial that estimates must be [s]."""
    enough_s = SCOUT_FRAMES / load_fps
    return max(min(deciding_s(load_fps, goal), max(SCOUT_S, enough_s)), min(SCOUT_S, enough_s))


def overload_s(load_fps: float, rate_fps: float, burst_frames: float, goal: Goal) -> float:
    """Return how long an overload must last until a burst is used up, and the rest of it as long again [s]."""
    excess_fps = max(load_fps - rate_fps, goal.relative_width / 10 * rate_fps)
    wanted_s = 2 * burst_frames / excess_fps + 3 * EXPECTED_LOSSES / excess_fps
    longest_s = max(4 * deciding_s(load_fps, goal), LONGEST_S if burst_frames else 0.0)
    return min(max(scout_s(load_fps, goal), wanted_s), longest_s)


def quick_excess(rate_fps: float, burst_frames: float, goal: Goal) -> float:
    """Return the overload at which a burst is used up in half of a quick trial [per rate]."""
    quick_s = max(QUICK_S, scout_s(rate_fps, goal))
    return 2 * burst_frames / (quick_s * rate_fps)


def trial_at(load_fps: float, duration_s: float, goal: Goal) -> LoadTrial:
    """Return a trial within the loads allowed, of whole microseconds."""
    load = round_load(min(max(load_fps, goal.min_fps), goal.max_fps), goal)
    return LoadTrial(intended_fps=load, duration_ns=math.ceil(duration_s * 1e6) * (NS_PER_S // 1_000_000))


def round_load(load_fps: float, goal: Goal) -> float:
    """Return whole frames/s where that is fine enough; the ends of the loads allowed stay as they are."""
    whole = load_fps * goal.relative_width >= 100 and load_fps not in (goal.min_fps, goal.max_fps)
    return float(round(load_fps)) if whole else load_fps


def load_of(capacity_fps: float, goal: Goal) -> float:
    """Return the load at which a device of this capacity loses just what the goal allows [frames/s]."""
    return capacity_fps / (1 - goal.loss_ratio)


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
