"""Our own search: fewest seconds for a given width, with a 95 % interval, not fooled by stalls.

One overload trial tells about where the capacity is; short trials just above it tell the capacity itself; one trial
just below and one just above show that the estimate holds. Where it does not (loss below capacity, forwarding that
collapses under overload) the bracket of decided loads is narrowed instead. The reasons are in docs/method/search.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .capacity import Capacity, Observation, estimate
from .evidence import Reading, meets, out_of_time, places_at, settle, spent_ns, strict_fps
from .types import NS_PER_S, Found, Goal, LoadResult, LoadTrial, Stop, StopReason
from .votes import Votes, count_votes, decided_bounds

EXPECTED_LOSSES = 10
"""Frames that may be lost in a trial that decides: with fewer one stray frame would decide."""
SHORTEST_S = 0.05
"""No trial is shorter: its start and end would weigh [s]."""
SCOUT_FRAMES, SCOUT_S = 20_000, 0.5
"""A trial that only estimates needs no more than both of these."""
NEAR = 1.10
"""Overload up to which the forwarded rate is taken for the capacity [per forwarded rate]."""
MOST_TRIALS = 120
"""After so many the device is called unsteady."""


@dataclass(frozen=True, slots=True)
class View:
    """Everything that the readings say."""

    readings: tuple[Reading, ...]
    """What counts."""
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
    """Decided loads contradict the capacity: it is not what limits the loss."""
    lower_fps: float | None
    """Highest load decided to meet the goal, below all that do not [frames/s]."""
    upper_fps: float | None
    """Lowest load decided not to meet it [frames/s]."""


@dataclass(frozen=True, slots=True)
class Fast:
    """The search."""

    goal: Goal
    """What is looked for; its `trial_ns` is not used."""
    fewest_saturated: int = 3
    """Overloaded trials near capacity before an interval is believed."""

    def __post_init__(self) -> None:
        """Refuse a goal that no number of frames can decide."""
        if self.goal.loss_ratio <= 0:
            raise ValueError(
                "the fast search: loss_ratio 0 would need endless trials; allowed: above 0; "
                "take bisect or mlr for zero loss, or the strict figure of any search"
            )

    @property
    def deciding_frames(self) -> int:
        """Frames that a trial needs to pass a load."""
        return math.ceil(EXPECTED_LOSSES / self.goal.loss_ratio)

    def propose(self, results: Sequence[LoadResult]) -> LoadTrial | Stop:
        """Return the next trial, or why there is none."""
        ledger = settle(results, self.goal)
        following = ledger.rerun or self._follow(self.view(ledger.readings))
        if isinstance(following, Stop):
            return following
        if len(results) >= MOST_TRIALS:
            return Stop(StopReason.UNSTEADY, f"{len(results)} trials did not agree; see the load curve of the device")
        return out_of_time(results, self.goal, following) or following

    def conclude(self, results: Sequence[LoadResult]) -> Found:
        """Return the bounds and the estimate so far."""
        view = self.view(settle(results, self.goal).readings)
        following = self.propose(results)
        stop = following if isinstance(following, Stop) else Stop(StopReason.UNFINISHED, "more trials are wanted")
        rate, interval, method = self._rate(view, stop.reason)
        return Found(
            lower_fps=view.lower_fps,
            upper_fps=view.upper_fps,
            lower_trials=places_at(results, view.lower_fps),
            upper_trials=places_at(results, view.upper_fps),
            robust_fps=rate,
            interval_fps=interval,
            method=method,
            strict_fps=strict_fps(results, self.goal),
            trials=len(results),
            perturbed_trials=sum(result.perturbed for result in results),
            spent_ns=spent_ns(results),
            reason=stop.reason,
            text=stop.text,
        )

    def _rate(self, view: View, reason: StopReason) -> tuple[float | None, tuple[float, float] | None, str]:
        """Return the rate, its interval and the method's name."""
        lower, upper = view.lower_fps, view.upper_fps
        if reason in {StopReason.LINE, StopReason.GENERATOR}:
            return lower, None, "limit"
        if view.capacity is not None and not view.contradicted:
            rate, low, high = (
                self._load_of(fps)
                for fps in (view.capacity.median_fps, view.capacity.low_fps, view.capacity.high_fps)
            )
            return rate, (low, high), "capacity-posterior"
        if lower is not None and upper is not None:
            return math.sqrt(lower * upper), (lower, upper), "bracket"
        return lower, None, "bracket"

    def view(self, readings: tuple[Reading, ...]) -> View:
        """Return what the readings say."""
        goal, results = self.goal, [reading.result for reading in readings]
        short = [result.offered_fps for result in results if result.unsent_ratio > goal.unsent_ratio]
        top = min([goal.max_fps, *(self._round(fps) for fps in short)])
        observations = self._observations(results)
        saturated = sum(each.saturated for each in observations)
        capacity = estimate(observations, goal.relative_width / 50) if saturated else None
        rate = math.inf if capacity is None else self._load_of(capacity.median_fps)
        votes = count_votes(results, goal, self.deciding_frames)
        contradicted = capacity is not None and any(
            each.against_surprise(rate, goal.relative_width) for each in votes
        )
        lower, upper = decided_bounds(votes, math.inf if contradicted else rate)
        return View(readings, top, bool(short), votes, capacity, saturated, contradicted, lower, upper)

    def _observations(self, results: Sequence[LoadResult]) -> list[Observation]:
        """Return what the trials near capacity tell of it."""
        goal = self.goal
        failed = [result for result in results if not meets(result, goal) and result.forwarded_frames > 0]
        near = [result for result in failed if result.offered_fps <= NEAR * result.forwarded_fps]
        if not near:
            return []
        least = min(result.forwarded_fps for result in near)
        passed = [result for result in results if meets(result, goal) and result.offered_fps >= least / NEAR]
        seconds = [(result, result.duration_ns / NS_PER_S) for result in (*near, *passed)]
        return [Observation(result.forwarded_frames, time, not meets(result, goal)) for result, time in seconds]

    def _follow(self, view: View) -> LoadTrial | Stop:
        """Return the next step."""
        if not view.readings:
            return self._trial(self.goal.max_fps, self._scout_s(self.goal.max_fps))
        if limit := self._limit(view):
            return limit
        if view.capacity is None:
            return self._scout(view)
        if view.contradicted:
            return self._narrow(view)
        return self._confirm(view, view.capacity)

    def _limit(self, view: View) -> Stop | None:
        """Return the stop at either end of the loads allowed."""
        goal = self.goal
        if view.lower_fps is not None and view.lower_fps >= view.top_fps:
            if view.generator_limited:
                text = f"the generator sends no more than {view.top_fps:.0f} frames/s, and all of it is forwarded"
                return Stop(StopReason.GENERATOR, text)
            return Stop(StopReason.LINE, f"the highest load allowed, {goal.max_fps:.0f} frames/s, is forwarded")
        lowest = next((each for each in view.votes if each.load_fps <= goal.min_fps), None)
        if lowest and lowest.fails >= 2 and lowest.fail_s > lowest.pass_s:
            return Stop(StopReason.NOTHING_PASSES, f"the lowest load allowed, {goal.min_fps:.0f} frames/s, loses too much")
        return None

    def _scout(self, view: View) -> LoadTrial:
        """Look for a load just above capacity: where forwarding leads, or half-way when it misleads."""
        goal, results = self.goal, [reading.result for reading in view.readings]
        passed = max((each.offered_fps for each in results if meets(each, goal)), default=None)
        failed = [each for each in results if not meets(each, goal)]
        if not failed or (passed is not None and passed >= view.top_fps):
            return self._trial(view.top_fps, self._deciding_s(view.top_fps))
        ceiling = min(each.offered_fps for each in failed)
        floor = goal.min_fps if passed is None else passed
        load = 1.02 * max(each.forwarded_fps for each in failed)
        if len(failed) > 4 or not floor < load < ceiling:
            load = math.sqrt(floor * ceiling)
        load = min(max(load, goal.min_fps), view.top_fps)
        if ceiling - load <= goal.relative_width * ceiling and passed is None and load < 1.01 * goal.min_fps:
            load = goal.min_fps
        return self._trial(load, self._scout_s(load))

    def _confirm(self, view: View, capacity: Capacity) -> LoadTrial | Stop:
        """Show that the estimate holds on either side, then narrow its interval."""
        goal = self.goal
        rate = self._load_of(capacity.median_fps)
        margin = max(0.45 * goal.relative_width, min(2 * capacity.noise_ratio, 0.03))
        above, below = min(rate * (1 + margin), view.top_fps), max(rate * (1 - margin), goal.min_fps)
        hanging = next((each for each in view.votes if each.load_fps == view.readings[-1].result.intended_fps), None)
        if hanging and hanging.verdict(rate) is None and hanging.count < 3:
            longer = 3 if hanging.load_fps > rate else 1
            return self._trial(hanging.load_fps, longer * self._deciding_s(hanging.load_fps))
        if view.saturated < self.fewest_saturated:
            return self._trial(above, self._overload_s(above, rate, capacity))
        lower, upper = view.lower_fps, view.upper_fps
        if lower is None or lower < rate * (1 - 1.6 * margin):
            return self._trial(below, self._deciding_s(below))
        if upper is None or upper > rate * (1 + 1.6 * margin):
            return self._trial(above, self._overload_s(above, rate, capacity))
        width = (capacity.high_fps - capacity.low_fps) / capacity.high_fps
        if width > goal.relative_width:
            return self._trial(above, self._overload_s(above, rate, capacity))
        text = f"95 % interval of {width:.2%} around {rate:.0f} frames/s, shown by trials at {lower:.0f} and {upper:.0f}"
        return Stop(StopReason.NARROW, text)

    def _narrow(self, view: View) -> LoadTrial | Stop:
        """Narrow the bracket of decided loads; each failure is seen twice."""
        goal, lower, upper = self.goal, view.lower_fps, view.upper_fps
        hanging = next((each for each in view.votes if each.verdict(math.inf) is None and each.count < 3), None)
        if hanging and (upper is None or hanging.load_fps < upper) and (lower is None or hanging.load_fps > lower):
            return self._trial(hanging.load_fps, self._deciding_s(hanging.load_fps))
        if lower is not None and upper is not None:
            if upper - lower <= goal.relative_width * upper:
                text = f"loads of {lower:.0f} and {upper:.0f} frames/s decided; loss does not begin at the capacity"
                return Stop(StopReason.NARROW, text)
            load = math.sqrt(lower * upper)
        elif upper is not None:
            steps = sum(each.load_fps >= upper and each.fails >= 2 for each in view.votes)
            load = max(upper * (1 - min(0.5, goal.relative_width * 2**steps)), goal.min_fps)
        else:
            steps = sum(each.passes > 0 for each in view.votes)
            load = min((lower or goal.min_fps) * (1 + goal.relative_width * 2**steps), view.top_fps)
        return self._trial(load, self._deciding_s(load))

    def _load_of(self, capacity_fps: float) -> float:
        """Return the load at which a device of this capacity loses just what the goal allows [frames/s]."""
        return capacity_fps / (1 - self.goal.loss_ratio)

    def _deciding_s(self, load_fps: float) -> float:
        """Return how long a trial that decides must be [s]."""
        return max(SHORTEST_S, (self.deciding_frames + 1) / load_fps)

    def _scout_s(self, load_fps: float) -> float:
        """Return how long a trial that estimates must be [s]."""
        return min(self._deciding_s(load_fps), max(SCOUT_S, SCOUT_FRAMES / load_fps))

    def _overload_s(self, load_fps: float, rate_fps: float, capacity: Capacity) -> float:
        """Return how long an overload must last until it has outlasted the queue and shown itself [s]."""
        excess_fps = max(load_fps - rate_fps, self.goal.relative_width / 10 * rate_fps)
        outlast_s = (1.5 * capacity.queue_frames + 3 * EXPECTED_LOSSES) / excess_fps
        return min(max(self._scout_s(load_fps), outlast_s), 4 * self._deciding_s(load_fps))

    def _trial(self, load_fps: float, duration_s: float) -> LoadTrial:
        """Return a trial within the loads allowed."""
        load = self._round(min(max(load_fps, self.goal.min_fps), self.goal.max_fps))
        return LoadTrial(intended_fps=load, duration_ns=math.ceil(duration_s * 1000) * (NS_PER_S // 1000))

    def _round(self, load_fps: float) -> float:
        """Return whole frames/s where that is fine enough; the ends of the loads allowed stay as they are."""
        whole = load_fps * self.goal.relative_width >= 100 and load_fps not in (self.goal.min_fps, self.goal.max_fps)
        return float(round(load_fps)) if whole else load_fps
