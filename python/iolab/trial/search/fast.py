"""Search with the fast strategy: minimum time for a given width, with a 95 % interval, robust against stalls.

One overload trial gives a first estimate of the capacity. Short trials just above the estimate measure the capacity.
One trial just below and one trial just above confirm the estimate. If the estimate is contradicted (loss below
capacity, or forwarding that collapses under overload), the search narrows the bounds of decided loads instead. The
reasons are in docs/method/search.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from iolab.locale import Phrase
from iolab.messages.searches import (
    BoundsReached,
    GeneratorReached,
    HighestForwarded,
    IntervalReached,
    LowestLost,
    TrialsDisagree,
)
from iolab.results.search import Found, Goal, LoadResult, StopReason
from iolab.trial.search.capacity import Capacity
from iolab.trial.search.estimates import (
    EXPECTED_LOSSES,
    LONGEST_S,
    SHORTEST_S,
    View,
    deciding_s,
    load_of,
    look,
    overload_s,
    quick_excess,
    round_load,
    scout_s,
    trial_at,
)
from iolab.trial.search.evidence import (
    asked_for,
    limits_seen,
    meets,
    out_of_time,
    places_at,
    spent_ns,
    strict_fps,
)
from iolab.trial.search.ledger import Votes, proof_ns, settle
from iolab.trial.search.types import UNFINISHED, LoadTrial, Stop
from iolab.units import NS_PER_S

MOST_TRIALS = 120
"""Maximum number of trials, after which the device counts as unsteady; the slowest simulated device needs 60."""
BELOW, ABOVE = 0.2, 0.62
"""Distances of the confirming loads from the estimate [ratio of the width]: a pass always takes the same time, while a
failure takes less time at a higher load."""
QUICKEST = 0.02
"""Overload of estimating trials: high enough that the device is at its limit during the whole trial [ratio]."""
MORE_IF_NOISY = 4
"""Additional overload trials for a noisy device: six trials may agree by chance, ten trials hardly ever."""


@dataclass(frozen=True, slots=True)
class Fast:
    """The fast search strategy."""

    goal: Goal
    """Goal of the search; its `trial_ns` is not used."""
    fewest_saturated: int = 6
    """Minimum number of overload trials for an interval: the median is between minimum and maximum of 6 trials in 97 %
    of cases."""

    def __post_init__(self) -> None:
        """Reject a zero-loss goal, which no number of frames can decide."""
        if self.goal.loss_ratio <= 0:
            raise ValueError(Phrase("trial.fast-search-without-loss", loss_ratio=self.goal.loss_ratio))

    def propose(self, results: Sequence[LoadResult]) -> LoadTrial | Stop:
        """Return the next trial, or the stop."""
        ledger = settle(results, self.goal, proofs=False)
        return self._follow(results, ledger.rerun, look(ledger, self.goal))

    def conclude(self, results: Sequence[LoadResult]) -> Found:
        """Return the bounds and the estimate so far."""
        ledger = settle(results, self.goal, proofs=False)
        view = look(ledger, self.goal)
        following = self._follow(results, ledger.rerun, view)
        stop = following if isinstance(following, Stop) else UNFINISHED
        rate, interval, method = self._rate(view, stop.reason)
        return Found(
            lower_fps=view.lower_fps,
            upper_fps=view.upper_fps,
            lower_trials=places_at(results, view.lower_fps),
            upper_trials=places_at(results, view.upper_fps),
            robust_fps=rate,
            interval_fps=interval,
            method=method,
            strict_fps=strict_fps(results, self.goal, rate, view.lower_fps),
            trials=len(results),
            perturbed_trials=sum(result.perturbed for result in results),
            disturbed_loads=ledger.disturbed,
            spent_ns=spent_ns(results),
            reason=stop.reason,
            seen=stop.seen,
            **limits_seen(results, self.goal, rate),
        )

    def _follow(self, results: Sequence[LoadResult], rerun: LoadTrial | None, view: View) -> LoadTrial | Stop:
        """Return the next trial within the limits on time and number of trials, or the stop."""
        following = rerun or follow(view, self.goal, self.fewest_saturated)
        if isinstance(following, Stop):
            return following
        if rerun is None:
            asked_fps = asked_for(following.intended_fps, view.results, self.goal)
            following = replace(following, intended_fps=asked_fps)
        if len(results) >= MOST_TRIALS:
            return Stop(StopReason.UNSTEADY, TrialsDisagree(trials=len(results)))
        return out_of_time(results, self.goal, following) or following

    def _rate(self, view: View, reason: StopReason) -> tuple[float | None, tuple[float, float] | None, str]:
        """Return the rate, its interval and the method's name."""
        lower, upper = view.lower_fps, view.upper_fps
        if reason in {StopReason.LINE, StopReason.GENERATOR}:
            return lower, None, "limit"
        if view.capacity is not None and not view.contradicted:
            capacity = view.capacity
            low, median, high = (
                load_of(fps, self.goal) for fps in (capacity.low_fps, capacity.median_fps, capacity.high_fps)
            )
            # Limit the estimate to the decided bounds; if this changes the estimate by more than the width, discard the
            # posterior.
            rate = min(max(median, lower or 0.0), upper or math.inf)
            if abs(rate - median) <= self.goal.relative_width * median:
                return rate, (min(low, rate), max(high, rate)), "capacity-posterior"
        if lower is not None and upper is not None:
            return math.sqrt(lower * upper), (lower, upper), "bracket"
        return lower, None, "bracket"


def follow(view: View, goal: Goal, fewest_saturated: int) -> LoadTrial | Stop:
    """Return the next trial or the stop, depending on the state of the search."""
    if not view.results:
        return trial_at(goal.max_fps, scout_s(goal.max_fps, goal), goal)
    if limit := reach_limit(view, goal):
        return limit
    if view.capacity is None:
        return scout(view, goal)
    if view.contradicted:
        return narrow(view, goal)
    return confirm(view, view.capacity, goal, fewest_saturated)


def reach_limit(view: View, goal: Goal) -> LoadTrial | Stop | None:
    """Return the next trial or the stop at either end of the allowed loads, else None; at the upper end a trial must
    outlast any queue."""
    # The generator's maximum differs slightly between trials.
    top_fps = view.top_fps * (1 - goal.unsent_ratio) if view.generator_limited else view.top_fps
    if view.lower_fps is not None and view.lower_fps >= top_fps:
        outlasted_s = max(each.longest_pass_s for each in view.votes if each.load_fps >= top_fps)
        wanted_s = max(4 * deciding_s(view.top_fps, goal), proof_ns(goal) / NS_PER_S)
        if outlasted_s < wanted_s:
            return trial_at(goal.max_fps, wanted_s, goal)
        if view.generator_limited:
            return Stop(StopReason.GENERATOR, GeneratorReached(sent_fps=view.top_fps))
        return Stop(StopReason.LINE, HighestForwarded(highest_fps=goal.max_fps))
    lowest = next((each for each in view.votes if each.load_fps <= goal.min_fps), None)
    if lowest and lowest.fails >= 2 and lowest.fail_s > lowest.pass_s:
        return Stop(StopReason.NOTHING_PASSES, LowestLost(lowest_fps=goal.min_fps))
    return None


def scout(view: View, goal: Goal) -> LoadTrial:
    """Return a trial just above the estimated capacity, or half-way between the bounds if estimates failed."""
    good = [each for each in view.readings if meets(each.result, goal) and not each.hidden]
    passed = max((each.result.offered_fps for each in good), default=None)
    failed = [each for each in view.results if not meets(each, goal)]
    if not failed or (passed is not None and passed >= view.top_fps):
        return trial_at(view.top_fps, deciding_s(view.top_fps, goal), goal)
    lowest = min(failed, key=lambda each: each.offered_fps)
    ceiling, load = lowest.offered_fps, 1.02 * lowest.sustained_fps
    floor = goal.min_fps if passed is None else passed
    if passed is None and (load <= goal.min_fps or ceiling <= 1.02 * goal.min_fps):
        load = goal.min_fps
    elif len(failed) > 4 or not floor * (1 + goal.relative_width / 2) < load < ceiling:
        load = math.sqrt(floor * ceiling)
    rate, burst = view.sustained.fps or load, view.sustained.burst_frames
    if burst:
        load = max(load, rate * (1 + max(quick_excess(rate, burst, goal), QUICKEST)))
        return trial_at(min(load, view.top_fps), overload_s(load, rate, burst, goal), goal)
    return trial_at(load, scout_s(load, goal), goal)


def confirm(view: View, capacity: Capacity, goal: Goal, fewest_saturated: int) -> LoadTrial | Stop:
    """Return a trial that confirms the estimate on one side or narrows its interval; return a stop if nothing is left
    to do."""
    rate = load_of(capacity.median_fps, goal)
    spread = min(2 * capacity.noise_ratio, 0.03)
    burst = view.sustained.burst_frames
    margin, leeway = max(BELOW * goal.relative_width, spread), max(ABOVE * goal.relative_width, 1.25 * spread)
    if repeat := repeat_surprise(view, rate, goal):
        return repeat
    # At a load closer to the rate, exhausting a burst would take too long.
    above, below = (
        min(rate * (1 + max(leeway, 2 * burst / (LONGEST_S * rate))), view.top_fps),
        max(rate * (1 - margin), goal.min_fps),
    )
    overload = trial_at(above, overload_s(above, rate, burst, goal), goal)
    lower, upper = view.lower_fps, view.upper_fps
    enough = fewest_saturated + (MORE_IF_NOISY if is_noisy(capacity, goal) else 0)
    if view.saturated < enough or is_vague(capacity, goal):
        # A load closer to the rate needs more time to exhaust a burst, and passes more often by chance.
        quick = quick_excess(rate, burst, goal)
        load = min(rate * (1 + max(leeway, quick, QUICKEST)), view.top_fps)
        return trial_at(load, overload_s(load, rate, burst, goal), goal)
    if lower is None or lower < rate * (1 - 1.5 * margin):
        return trial_at(below, deciding_s(below, goal), goal)
    if upper is None or upper > rate + 1.1 * (above - rate):
        return overload
    seen = IntervalReached(width_ratio=capacity.width_ratio, rate_fps=rate, lower_fps=lower, upper_fps=upper)
    return Stop(StopReason.NARROW, seen)


def repeat_surprise(view: View, rate_fps: float, goal: Goal) -> LoadTrial | None:
    """Return a repeat of the last load if its result was unexpected, three times as long if a queue may have hidden
    the loss; else None."""
    last = view.results[-1].intended_fps
    votes = next((each for each in view.votes if each.load_fps == last), None)
    if votes is None or votes.verdict(rate_fps) is not None or votes.count >= 3:
        return None
    return trial_at(last, (3 if last > rate_fps else 1) * votes.longest_s, goal)


def is_vague(capacity: Capacity, goal: Goal) -> bool:
    """Whether more trials are needed to narrow the interval."""
    return capacity.width_ratio > goal.relative_width


def is_noisy(capacity: Capacity, goal: Goal) -> bool:
    """Whether the capacity varies between trials by more than an eighth of the width."""
    return capacity.noise_ratio > goal.relative_width / 8


def narrow(view: View, goal: Goal) -> LoadTrial | Stop:
    """Return a trial that narrows the bounds of decided loads; a failure must occur twice, and a pass must outlast a
    queue."""
    lower, upper = view.lower_fps, view.upper_fps
    if hanging := next((each for each in view.votes if hangs(each, lower, upper)), None):
        return trial_at(hanging.load_fps, hanging.longest_s, goal)
    if lower is not None and upper is not None:
        if upper - lower <= goal.relative_width * upper:
            return Stop(StopReason.NARROW, BoundsReached(lower_fps=lower, upper_fps=upper))
        load = math.sqrt(lower * upper)
    elif upper is not None:
        return descend(view, upper, goal)
    else:
        steps = sum(each.passes > 0 for each in view.votes)
        load = min((lower or goal.min_fps) * (1 + goal.relative_width * 2**steps), view.top_fps)
    return trial_at(load, 2 * deciding_s(load, goal), goal)


def hangs(votes: Votes, lower: float | None, upper: float | None) -> bool:
    """Whether a load between the bounds is undecided and one more trial may decide it."""
    between = (upper is None or votes.load_fps < upper) and (lower is None or votes.load_fps > lower)
    return between and votes.verdict(math.inf) is None and votes.count < 3


def descend(view: View, upper: float, goal: Goal) -> LoadTrial:
    """Return a trial at a lower load; steps grow, and the duration is just long enough to detect the loss ratio of
    higher loads."""
    steps = sum(each.load_fps >= upper and each.fails >= 2 for each in view.votes)
    load = max(upper * (1 - min(0.5, goal.relative_width * 2**steps)), goal.min_fps)
    losses = [each.loss_ratio for each in view.results if each.intended_fps == upper] or [1.0]
    highest = [each.loss_ratio for each in view.results if upper < each.intended_fps <= 1.2 * upper] or [1.0]
    if steps >= 3 and min(losses) > 0.5 * min(highest):
        load = goal.min_fps  # the loss does not fall with the load
    load = round_load(load, goal)
    if any(each.intended_fps == load for each in view.results):  # the short trial decided nothing
        return trial_at(load, 2 * deciding_s(load, goal), goal)
    enough_s = 1.5 * EXPECTED_LOSSES / max(min(losses), goal.loss_ratio) / load
    return trial_at(load, min(deciding_s(load, goal), max(SHORTEST_S, enough_s)), goal)
