"""Search with MLRsearch (draft-ietf-bmwg-mlrsearch, the PyPI library).

The library measures through a blocking call. This module replays the whole search from the stored results for every
decision, and stops where the stored results end, so it needs no thread and no clock, and a resumed search equals an
uninterrupted one. Results that the library discards when it gives up remain in its database. See docs/method/search.md.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from MLRsearch import AbstractMeasurer, Config, MeasurementResult, MultipleLossRatioSearch, SearchGoal
from MLRsearch.measurement_database import MeasurementDatabase
from MLRsearch.target_spec import TargetSpec

from iolab.locale import Phrase
from iolab.messages.searches import (
    GeneratorReached,
    HighestForwarded,
    LibraryGaveUp,
    LowestLost,
    PlainSearchEnd,
)
from iolab.results.search import Found, Goal, LoadResult, StopReason
from iolab.trial.search.evidence import (
    limits_seen,
    load_counted,
    out_of_time,
    places_at,
    spent_ns,
    strict_fps,
)
from iolab.trial.search.ledger import Ledger, prove, settle
from iolab.trial.search.types import UNFINISHED, LoadTrial, Stop
from iolab.units import NS_PER_S

FOREVER_S = 1e12
"""Time limit of the library, which reads a clock [s]; it is too long to be reached, because iolab limits the trials'
time."""


class _Wanted(Exception):
    """The library requests a trial beyond the stored results."""

    def __init__(self, trial: LoadTrial) -> None:
        super().__init__(trial)
        self.trial = trial


class _Replay(AbstractMeasurer):  # type: ignore[misc]  # the library publishes no types
    """Measurer that answers the library from stored results."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._used = 0

    def measure(self, intended_duration: float, intended_load: float) -> MeasurementResult:
        """Return the stored result of the trial; raise _Wanted if there is none."""
        wanted = LoadTrial(intended_fps=intended_load, duration_ns=round(intended_duration * NS_PER_S))
        if self._used == len(self._ledger.readings):
            raise _Wanted(self._ledger.rerun or wanted)
        reading = self._ledger.readings[self._used]
        self._used += 1
        if reading.asked != wanted:
            raise ValueError(
                Phrase(
                    "trial.search-stored-differently",
                    number=self._used,
                    stored_fps=reading.asked.intended_fps,
                    stored_ns=reading.asked.duration_ns,
                    fps=wanted.intended_fps,
                    duration_ns=wanted.duration_ns,
                )
            )
        return MeasurementResult(
            intended_duration=intended_duration,
            intended_load=intended_load,
            # The library would count unsent frames as lost, but the device did not lose them.
            intended_count=reading.result.offered_frames,
            offered_count=reading.result.offered_frames,
            forwarding_count=math.floor(reading.result.offered_frames * (1.0 - reading.loss_ratio) + 0.5),
        )


@dataclass(frozen=True, slots=True)
class _State:
    """State of the library after the stored results."""

    following: LoadTrial | Stop
    """Next trial, or the stop."""
    lower_fps: float | None
    """Relevant lower bound [frames/s]."""
    upper_fps: float | None
    """Relevant upper bound [frames/s]."""
    conditional_fps: float | None
    """Conditional throughput: the forwarded rate at the lower bound [frames/s]."""
    coarse_lower_fps: float | None = None
    """Lower bound; if there is none yet, the lower bound of a coarser target [frames/s]."""
    coarse_upper_fps: float | None = None
    """Upper bound; if there is none yet, the upper bound of a coarser target [frames/s]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mlr:
    """MLRsearch with one goal."""

    goal: Goal
    """Goal of the search."""
    exceed_ratio: float = 0.5
    """Maximum share of a load's trial time that may fail while the load still passes [ratio]."""
    duration_sum_ns: int = 5 * NS_PER_S
    """Total trial time after which a load is decided [ns]."""
    initial_ns: int | None = None
    """Duration of the first, coarse trials [ns]; None: the full duration."""
    preceding_targets: int = 2
    """Number of searches with coarser goals before the final search."""
    warm_up_ns: int = 0
    """Duration of a warm-up trial at the highest load, whose result is ignored [ns]; 0: none."""

    def propose(self, results: Sequence[LoadResult]) -> LoadTrial | Stop:
        """Return the next trial, or the stop."""
        return self._next(results, settle(results, self.goal))[0]

    def conclude(self, results: Sequence[LoadResult]) -> Found:
        """Return the library's relevant bounds, or those found so far if the library gave up or the search was
        interrupted."""
        ledger = settle(results, self.goal)
        stop, state = self._next(results, ledger)
        if isinstance(stop, LoadTrial):
            stop = UNFINISHED
        final = (state.coarse_lower_fps, state.coarse_upper_fps) == (state.lower_fps, state.upper_fps)
        lower, upper = self._offered(ledger, state.coarse_lower_fps, state.coarse_upper_fps)
        conditional = None
        if lower is not None and state.conditional_fps is not None and state.lower_fps:
            conditional = lower * (state.conditional_fps / state.lower_fps)
        return Found(
            lower_fps=lower,
            upper_fps=upper,
            lower_trials=places_at(results, state.coarse_lower_fps),
            upper_trials=places_at(results, state.coarse_upper_fps),
            robust_fps=lower,
            conditional_fps=conditional,
            interval_fps=None if lower is None or upper is None else (lower, upper),
            method="mlrsearch-bounds" if final else "mlrsearch-coarse-bounds",
            strict_fps=strict_fps(results, self.goal, lower),
            trials=len(results),
            perturbed_trials=sum(result.perturbed for result in results),
            disturbed_loads=ledger.disturbed,
            spent_ns=spent_ns(results),
            reason=stop.reason,
            seen=stop.seen,
            **limits_seen(results, self.goal, lower),
        )

    def _next(self, results: Sequence[LoadResult], ledger: Ledger) -> tuple[LoadTrial | Stop, _State]:
        """Return the next trial or the stop, and the library's state."""
        state = self._replay(ledger)
        following = state.following
        if isinstance(following, Stop) and following.reason is StopReason.LINE:
            following = ledger.rerun or prove(ledger, self.goal) or self._limited(ledger) or following
        if isinstance(following, LoadTrial):
            following = out_of_time(results, self.goal, following) or following
        return following, state

    def _limited(self, ledger: Ledger) -> Stop | None:
        """Return a stop if the highest load passed only because the generator did not send all of it; else None."""
        tops = [each.result for each in ledger.readings if each.asked.intended_fps == self.goal.max_fps]
        if not tops or tops[-1].short_ratio <= self.goal.unsent_ratio:
            return None
        return Stop(StopReason.GENERATOR, GeneratorReached(sent_fps=tops[-1].offered_fps))

    def _offered(
        self, ledger: Ledger, lower_fps: float | None, upper_fps: float | None
    ) -> tuple[float | None, float | None]:
        """Return the bounds as offered loads, because the library has only the requested loads."""
        lower, upper = (
            self._offered_at(ledger, fps, passes) for fps, passes in ((lower_fps, True), (upper_fps, False))
        )
        # The generator may have sent too little at one bound only, in which case the upper bound is invalid.
        return lower, None if lower is not None and upper is not None and upper <= lower else upper

    def _offered_at(self, ledger: Ledger, fps: float | None, passes: bool) -> float | None:
        """Return the offered load of the median trial at a bound [frames/s]."""
        at = [each for each in ledger.readings if each.asked.intended_fps == fps]
        agree = [each for each in at if (each.loss_ratio <= self.goal.loss_ratio) == passes] or at
        return statistics.median(load_counted(each.result, self.goal) for each in agree) if agree else fps

    def relevant_bounds(self, results: Sequence[LoadResult]) -> tuple[float | None, float | None]:
        """Return the relevant lower and upper bound of the goal, as the library classifies them."""
        state = self._replay(settle(results, self.goal))
        return state.lower_fps, state.upper_fps

    def _replay(self, ledger: Ledger) -> _State:
        """Run the library's search over the stored results."""
        search = MultipleLossRatioSearch(self._config())
        following: LoadTrial | Stop
        try:
            search.search(_Replay(ledger), debug=_ignore)
        except _Wanted as wanted:
            following = wanted.trial
        except RuntimeError as error:
            # The library raises one error type in all cases: without a lower bound, and on internal errors.
            following = Stop(StopReason.UNSTEADY, LibraryGaveUp(said=str(error)))
        else:
            following = Stop(StopReason.NARROW, PlainSearchEnd(code="library-ended"))
        return self._read(search, following)

    def _read(self, search: MultipleLossRatioSearch, following: LoadTrial | Stop) -> _State:
        """Return the relevant bounds in the library's database, which may be incomplete."""
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
        """Return the stop, with the actual reason why the search stopped."""
        if lower is None and upper is not None and upper <= self.goal.min_fps:
            return Stop(StopReason.NOTHING_PASSES, LowestLost(lowest_fps=self.goal.min_fps))
        if stop.reason is StopReason.NARROW and upper is None:
            return Stop(StopReason.LINE, HighestForwarded(highest_fps=self.goal.max_fps))
        return stop

    def _config(self) -> Config:
        """Return the goal as a library configuration."""
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
    """Return each bound from the finest target that has one; the lower bound never exceeds the upper bound."""
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
    """Discard the library's log."""
