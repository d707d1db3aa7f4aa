"""MLRsearch (draft-ietf-bmwg-mlrsearch, the PyPI library) as a strategy.

The library measures by calling a blocking function. Here the whole search is run again for every decision, from the
stored results, and broken off where they end: no thread, no clock, and resuming is the same as going on. What the
library throws away when it gives up stays in the database that it filled. See docs/method/search.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from MLRsearch import AbstractMeasurer, Config, MeasurementResult, MultipleLossRatioSearch, SearchGoal
from MLRsearch.measurement_database import MeasurementDatabase
from MLRsearch.target_spec import TargetSpec

from .evidence import Ledger, meets, out_of_time, places_at, settle, spent_ns, strict_fps
from .types import NS_PER_S, Found, Goal, LoadResult, LoadTrial, Stop, StopReason

FOREVER_S = 1e12
"""The library's own time limit reads a clock; ours counts the trials' time [s]."""


class _Wanted(Exception):
    """The stored results are used up; the library wants this trial."""

    def __init__(self, trial: LoadTrial) -> None:
        super().__init__(trial)
        self.trial = trial


class _Replay(AbstractMeasurer):  # type: ignore[misc]  # the library publishes no types
    """Answers the library from stored results."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._used = 0

    def measure(self, intended_duration: float, intended_load: float) -> MeasurementResult:
        """Return the stored result of the trial, or break off."""
        wanted = LoadTrial(intended_fps=intended_load, duration_ns=round(intended_duration * NS_PER_S))
        if self._used == len(self._ledger.readings):
            raise _Wanted(self._ledger.rerun or wanted)
        result = self._ledger.readings[self._used].result
        self._used += 1
        if (result.intended_fps, result.duration_ns) != (wanted.intended_fps, wanted.duration_ns):
            raise ValueError(
                f"replaying a load search: trial {self._used} is stored with {result.intended_fps} frames/s for "
                f"{result.duration_ns} ns, but the search wants {wanted.intended_fps} for {wanted.duration_ns}; "
                "the goal or the library is another than when it was stored: start the search anew"
            )
        return MeasurementResult(
            intended_duration=intended_duration,
            intended_load=intended_load,
            intended_count=result.intended_frames,
            offered_count=result.offered_frames,
            forwarding_count=result.forwarded_frames,
        )


@dataclass(frozen=True, slots=True)
class _State:
    """Where the library stands after the stored results."""

    following: LoadTrial | Stop
    """What it wants next."""
    lower_fps: float | None
    """Its relevant lower bound [frames/s]."""
    upper_fps: float | None
    """Its relevant upper bound [frames/s]."""
    conditional_fps: float | None
    """Its conditional throughput: the rate forwarded at the lower bound [frames/s]."""
    coarse_lower_fps: float | None = None
    """The lower bound, or where there is none yet that of a coarser target [frames/s]."""
    coarse_upper_fps: float | None = None
    """The upper bound, likewise [frames/s]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mlr:
    """MLRsearch with one goal."""

    goal: Goal
    """What is looked for."""
    exceed_ratio: float = 0.5
    """Share of a load's trials, by time, that may fail while the load still passes [ratio]."""
    duration_sum_ns: int = 5 * NS_PER_S
    """Time of trials after which a load is decided [ns]."""
    initial_ns: int | None = None
    """Duration of the first, coarse trials [ns]; none: as the full ones."""
    preceding_targets: int = 2
    """Coarser searches before the final one."""
    warm_up_ns: int = 0
    """A first trial at the highest load whose result is ignored [ns]; 0: none."""

    def propose(self, results: Sequence[LoadResult]) -> LoadTrial | Stop:
        """Return the next trial, or why there is none."""
        following = self._replay(settle(results, self.goal)).following
        if isinstance(following, Stop):
            return following
        return out_of_time(results, self.goal, following) or following

    def conclude(self, results: Sequence[LoadResult]) -> Found:
        """Return the library's relevant bounds; partial ones when it gave up or was broken off."""
        ledger = settle(results, self.goal)
        state = self._replay(ledger)
        stop: LoadTrial | Stop = state.following
        if isinstance(stop, LoadTrial):
            unfinished = Stop(StopReason.UNFINISHED, "more trials are wanted")
            stop = out_of_time(results, self.goal, stop) or unfinished
        if stop.reason is StopReason.NARROW and self._limited(results, state.upper_fps):
            stop = Stop(StopReason.GENERATOR, "the generator could not send the load of the upper bound")
        lower, upper = state.coarse_lower_fps, state.coarse_upper_fps
        rate = lower if state.conditional_fps is None else state.conditional_fps
        final = (lower, upper) == (state.lower_fps, state.upper_fps)
        return Found(
            lower_fps=lower,
            upper_fps=upper,
            lower_trials=places_at(results, lower),
            upper_trials=places_at(results, upper),
            robust_fps=rate,
            interval_fps=None if lower is None or upper is None else (lower, upper),
            method="mlrsearch-bounds" if final else "mlrsearch-coarse-bounds",
            strict_fps=strict_fps(results, self.goal, rate, lower),
            trials=len(results),
            perturbed_trials=sum(result.perturbed for result in results),
            disturbed_loads=ledger.disturbed,
            spent_ns=spent_ns(results),
            reason=stop.reason,
            text=stop.text,
        )

    def relevant_bounds(self, results: Sequence[LoadResult]) -> tuple[float | None, float | None]:
        """Return the relevant lower and upper bound of the goal itself, as the library classifies them."""
        state = self._replay(settle(results, self.goal))
        return state.lower_fps, state.upper_fps

    def _limited(self, results: Sequence[LoadResult], upper_fps: float | None) -> bool:
        """Return whether the upper bound is one because frames were not sent: the library calls them lost."""
        above = [result for result in results if result.intended_fps == upper_fps]
        return bool(above) and all(
            meets(result, self.goal) and result.unsent_ratio > self.goal.unsent_ratio for result in above
        )

    def _replay(self, ledger: Ledger) -> _State:
        """Run the library's search over the stored results."""
        search = MultipleLossRatioSearch(self._config())
        following: LoadTrial | Stop
        try:
            search.search(_Replay(ledger), debug=_ignore)
        except _Wanted as wanted:
            following = wanted.trial
        except RuntimeError as error:
            # The library knows one error for all: no lower bound, and what it calls an internal error.
            following = Stop(StopReason.UNSTEADY, f"MLRsearch gave up: {error}")
        else:
            following = Stop(StopReason.NARROW, "MLRsearch reached its goal")
        return self._read(search, following)

    def _read(self, search: MultipleLossRatioSearch, following: LoadTrial | Stop) -> _State:
        """Return the relevant bounds in the library's database, full as it may be."""
        if search.database is None:
            return _State(following, None, None, None)
        (target,) = search.scaling.goal_to_final_target.values()
        bounds = search.database.get_relevant_bounds(target)
        lower = None if bounds.clo is None else float(bounds.clo)
        upper = None if bounds.chi is None else float(bounds.chi)
        conditional = None
        if bounds.clo is not None:
            (stat,) = bounds.clo.target_to_stat.values()
            conditional = float(bounds.clo) * (1.0 - float(stat.pessimistic_loss_ratio))
        if isinstance(following, Stop):
            following = self._explain(following, lower, upper)
        return _State(following, lower, upper, conditional, *_coarse_bounds(search.database, target))

    def _explain(self, stop: Stop, lower: float | None, upper: float | None) -> Stop:
        """Return the stop with its true reason."""
        if lower is None and upper is not None and upper <= self.goal.min_fps:
            text = f"the lowest load allowed, {self.goal.min_fps:.0f} frames/s, loses too much"
            return Stop(StopReason.NOTHING_PASSES, text)
        if stop.reason is StopReason.NARROW and upper is None:
            return Stop(
                StopReason.LINE, f"the highest load allowed, {self.goal.max_fps:.0f} frames/s, passes"
            )
        return stop

    def _config(self) -> Config:
        """Return the goal in the library's terms."""
        goal = self.goal
        full_s = goal.trial_ns / NS_PER_S
        config = Config()
        config.goals = [
            SearchGoal(
                loss_ratio=goal.loss_ratio,
                exceed_ratio=self.exceed_ratio,
                relative_width=goal.relative_width,
                initial_trial_duration=full_s if self.initial_ns is None else self.initial_ns / NS_PER_S,
                final_trial_duration=full_s,
                duration_sum=max(full_s, self.duration_sum_ns / NS_PER_S),
                preceding_targets=self.preceding_targets,
                fail_fast=True,
            )
        ]
        config.max_load = goal.max_fps
        config.min_load = goal.min_fps
        config.search_duration_max = FOREVER_S
        config.warmup_duration = self.warm_up_ns / NS_PER_S
        return config


def _coarse_bounds(database: MeasurementDatabase, target: TargetSpec) -> tuple[float | None, float | None]:
    """Return the bounds of the finest target that has them, each side by itself but never crossed."""
    lower: float | None = None
    upper: float | None = None
    while target is not None:
        bounds = database.get_relevant_bounds(target)
        if lower is None and bounds.clo is not None and (upper is None or float(bounds.clo) < upper):
            lower = float(bounds.clo)
        if upper is None and bounds.chi is not None and (lower is None or float(bounds.chi) > lower):
            upper = float(bounds.chi)
        target = target.preceding
    return lower, upper


def _ignore(_: str) -> None:
    """Take the library's log and drop it."""
