"""Search by plain bisection, as RFC 2544 testers do: on loss, move the load half-way down to the lower bound, else
half-way up.

The search can be repeated; the result is then the mean, minimum and maximum of all searches. The strategy has no model
and keeps no data between searches. See docs/method/search.md.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from iolab.locale import Phrase
from iolab.messages.searches import (
    HighestForwarded,
    LowestLost,
    PlainSearchEnd,
    SearchEnd,
    SearchesEnded,
    WidthReached,
)
from iolab.results.search import Found, Goal, LoadResult, StopReason
from iolab.trial.search.evidence import (
    asked_for,
    limits_seen,
    load_counted,
    out_of_time,
    places_at,
    spent_ns,
    strict_fps,
)
from iolab.trial.search.ledger import Ledger, Reading, prove, settle
from iolab.trial.search.types import UNFINISHED, LoadTrial, Stop

T_95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""The 97.5 % quantiles of Student's t distribution for 1 to 9 degrees of freedom."""


@dataclass(frozen=True, slots=True)
class Bracket:
    """Bounds of one search."""

    lower_fps: float | None = None
    """Highest load that met the goal [frames/s]."""
    upper_fps: float | None = None
    """Lowest load that did not meet the goal [frames/s]."""
    next_fps: float | None = None
    """Next load to try [frames/s]; None if the search has stopped."""
    limited: bool = False
    """Whether the generator could not send the next load above the lower bound."""


@dataclass(frozen=True, slots=True)
class Bisect:
    """Bisection with acceptable loss."""

    goal: Goal
    """Goal of the search."""
    start_fps: float | None = None
    """First load [frames/s]; None: the highest allowed load."""
    trials: int = 1
    """Number of trials per load; their mean loss decides about the load."""
    searches: int = 3
    """Number of whole searches, each from the start."""
    _first: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Check the parameters and limit the first load to the allowed range."""
        if self.trials < 1 or self.searches < 1:
            raise ValueError(Phrase("trial.bisection-of-nothing", count=self.trials, searches=self.searches))
        first = self.goal.max_fps if self.start_fps is None else self.start_fps
        object.__setattr__(self, "_first", min(max(first, self.goal.min_fps), self.goal.max_fps))

    def propose(self, results: Sequence[LoadResult]) -> LoadTrial | Stop:
        """Return the next trial, or the stop."""
        ledger = settle(results, self.goal)
        return self._next(results, ledger, self._walk(ledger.readings))

    def conclude(self, results: Sequence[LoadResult]) -> Found:
        """Return the bounds so far; with several searches, the mean of their lower bounds and its spread."""
        ledger = settle(results, self.goal)
        brackets = self._walk(ledger.readings)
        done = [bracket for bracket in brackets if bracket.next_fps is None]
        shown = done or brackets
        lowers = [bracket.lower_fps for bracket in shown if bracket.lower_fps is not None]
        uppers = [bracket.upper_fps for bracket in shown if bracket.upper_fps is not None]
        rates = tuple(bracket.lower_fps or 0.0 for bracket in done)
        # A search without a failed load has no upper bound, so the mean may exceed the upper bounds of the other
        # searches.
        lower = min(lowers, default=None)
        upper = max(uppers) if uppers and len(uppers) == len(shown) else None
        rate = statistics.mean(rates) if rates else lower
        following = self._next(results, ledger, brackets)
        stop = following if isinstance(following, Stop) else UNFINISHED
        return Found(
            lower_fps=lower,
            upper_fps=upper,
            lower_trials=places_at(results, lower),
            upper_trials=places_at(results, upper),
            robust_fps=rate or None,
            interval_fps=self._interval(rates, lower, upper),
            method="t-of-searches" if len(rates) > 1 else "bracket",
            strict_fps=strict_fps(results, self.goal, rate, lower),
            searches_fps=rates,
            trials=len(results),
            perturbed_trials=sum(result.perturbed for result in results),
            disturbed_loads=ledger.disturbed,
            spent_ns=spent_ns(results),
            reason=stop.reason,
            seen=stop.seen,
            **limits_seen(results, self.goal, rate),
        )

    def _next(
        self, results: Sequence[LoadResult], ledger: Ledger, brackets: Sequence[Bracket]
    ) -> LoadTrial | Stop:
        """Return the next trial, or the stop; a search without a failed load needs a proof trial before the next
        search."""
        load = brackets[-1].next_fps
        proof = None
        if any(each.next_fps is None and each.upper_fps is None for each in brackets):
            proof = prove(ledger, self.goal)
        if load is None and proof is None:
            return self._end(brackets)
        trial = ledger.rerun or proof
        if trial is None:
            assert load is not None
            asked = asked_for(load, [reading.result for reading in ledger.readings], self.goal)
            trial = LoadTrial(intended_fps=asked, duration_ns=self.goal.trial_ns)
        return out_of_time(results, self.goal, trial) or trial

    def _walk(self, readings: Sequence[Reading]) -> list[Bracket]:
        """Return the bounds of each search; the last search is the current one."""
        brackets = [Bracket(next_fps=self._first)]
        for begin in range(0, len(readings), self.trials):
            load = readings[begin : begin + self.trials]
            if len(load) < self.trials:
                break
            if brackets[-1].next_fps is None:
                brackets.append(Bracket(next_fps=self._first))
            brackets[-1] = self._step(brackets[-1], load)
        if brackets[-1].next_fps is None and len(brackets) < self.searches:
            brackets.append(Bracket(next_fps=self._first))
        return brackets

    def _step(self, bracket: Bracket, readings: Sequence[Reading]) -> Bracket:
        """Return the bounds after the trials of one load; the load does not include unsent frames."""
        goal, wanted = self.goal, bracket.next_fps
        assert wanted is not None
        loss = statistics.fmean(reading.loss_ratio for reading in readings)
        load = statistics.fmean(load_counted(reading.result, goal) for reading in readings)
        lower, upper = bracket.lower_fps, bracket.upper_fps
        # This is the rule of published studies: a loss equal to the goal fails, but zero loss never fails.
        if loss >= goal.loss_ratio and loss > 0:
            upper = load if lower is None or load > lower else max(wanted, readings[0].asked.intended_fps)
            return Bracket(lower, upper, self._half_way(lower, upper))
        load = load if upper is None or load < upper else wanted
        short = statistics.fmean(reading.result.short_ratio for reading in readings) > goal.unsent_ratio
        if short and readings[0].asked.intended_fps >= goal.max_fps:
            return Bracket(max(load, lower or 0.0), upper, None, limited=True)
        lower = max(load, lower or 0.0)
        return Bracket(lower, upper, self._half_way(lower, upper))

    def _half_way(self, lower: float | None, upper: float | None) -> float | None:
        """Return the load half-way to the upper or lower bound; None if the bounds are close enough or at a limit."""
        goal = self.goal
        if lower is None and upper is not None:
            return None if upper <= goal.min_fps else max(upper / 2, goal.min_fps)
        if lower is not None and upper is None:
            return None if lower >= goal.max_fps else self._up(lower)
        if lower is None or upper is None or upper - lower <= goal.relative_width * upper:
            return None
        return (lower + upper) / 2

    def _up(self, lower: float) -> float:
        """Return the load half-way to the maximum, or the maximum if it is close."""
        highest = self.goal.max_fps
        return highest if highest - lower <= self.goal.relative_width * highest else (lower + highest) / 2

    def _end(self, brackets: Sequence[Bracket]) -> Stop:
        """Return the stop of the last search."""
        reason, last = self._end_of(brackets[-1])
        rates = tuple(bracket.lower_fps or 0.0 for bracket in brackets)
        return Stop(reason, SearchesEnded(searches=len(brackets), rates_fps=rates, last=last))

    def _end_of(self, last: Bracket) -> tuple[StopReason, SearchEnd]:
        """Return the stop reason of one search."""
        if last.limited:
            return StopReason.GENERATOR, PlainSearchEnd(code="generator-at-its-limit")
        if last.upper_fps is None:
            return StopReason.LINE, HighestForwarded(highest_fps=self.goal.max_fps)
        if last.lower_fps is None:
            return StopReason.NOTHING_PASSES, LowestLost(lowest_fps=self.goal.min_fps)
        return StopReason.NARROW, WidthReached(width_ratio=self.goal.relative_width)

    def _interval(
        self, rates: Sequence[float], lower: float | None, upper: float | None
    ) -> tuple[float, float] | None:
        """Return the 95 % interval over whole searches, or the bounds of a single search."""
        if len(rates) > 1:
            t = T_95[len(rates) - 2] if len(rates) - 2 < len(T_95) else 1.96
            half = t * statistics.stdev(rates) / len(rates) ** 0.5
            mean = statistics.mean(rates)
            return max(0.0, mean - half), mean + half
        return None if lower is None or upper is None else (lower, upper)
