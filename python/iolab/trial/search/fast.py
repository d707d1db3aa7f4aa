"""Our own search: fewest seconds for a given width, with a 95 % interval, not fooled by stalls.

One overload trial tells about where the capacity is; short trials just above it tell the capacity itself; one trial
just below and one just above show that the estimate holds. Where it does not (loss below capacity, forwarding that
collapses under overload) the bracket of decided loads is narrowed instead. The reasons are in docs/method/search.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from iolab.messages.searches import TrialsDisagree
from iolab.results.search import Found, Goal, LoadResult, StopReason
from iolab.trial.search.estimates import View, load_of, look
from iolab.trial.search.evidence import asked_for, limits_seen, out_of_time, places_at, spent_ns, strict_fps
from iolab.trial.search.ledger import settle
from iolab.trial.search.steps import follow
from iolab.trial.search.types import UNFINISHED, LoadTrial, Stop

MOST_TRIALS = 120
"""After so many the device is called unsteady; the slowest device simulated needs 60."""


@dataclass(frozen=True, slots=True)
class Fast:
    """The search."""

    goal: Goal
    """What is looked for; its `trial_ns` is not used."""
    fewest_saturated: int = 6
    """Overloaded trials before an interval is believed: in 97 % the median is between the least and largest of 6."""

    def __post_init__(self) -> None:
        """Refuse a goal that no number of frames can decide."""
        if self.goal.loss_ratio <= 0:
            raise ValueError(
                f"the fast search: loss_ratio {self.goal.loss_ratio} needs endless trials; allowed: above 0; "
                "take bisect or mlr for zero loss, or the strict figure of any search"
            )

    def propose(self, results: Sequence[LoadResult]) -> LoadTrial | Stop:
        """Return the next trial, or why there is none."""
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
        """Return the next trial within the limits of time and number."""
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
            # Between the decided loads, or there by less than the width; farther off the posterior explains nothing.
            rate = min(max(median, lower or 0.0), upper or math.inf)
            if abs(rate - median) <= self.goal.relative_width * median:
                return rate, (min(low, rate), max(high, rate)), "capacity-posterior"
        if lower is not None and upper is not None:
            return math.sqrt(lower * upper), (lower, upper), "bracket"
        return lower, None, "bracket"
