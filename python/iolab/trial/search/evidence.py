"""What every strategy does with results: which of them count, what was never lost, what to say of an end.

Does not choose loads. Called by bisect, mlr and fast.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from .types import NS_PER_S, Goal, LoadResult, LoadTrial, Stop, StopReason


@dataclass(frozen=True, slots=True)
class Reading:
    """The result that stands for one proposed trial, after its re-runs."""

    result: LoadResult
    """The one that counts: the first calm or good one, or the least lossy when the re-runs are used up."""
    places: tuple[int, ...]
    """Places in the list of results of the trial and its re-runs; the last one ended it."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """Results, put in order."""

    readings: tuple[Reading, ...]
    """One per proposed trial."""
    rerun: LoadTrial | None
    """The trial that must be run again because it failed while the host was perturbed."""


def meets(result: LoadResult, goal: Goal) -> bool:
    """Return whether a trial lost no more than the goal allows (draft-ietf-bmwg-mlrsearch: low-loss)."""
    return result.offered_frames > 0 and result.loss_ratio <= goal.loss_ratio


def settle(results: Sequence[LoadResult], goal: Goal) -> Ledger:
    """Put results in order: a failed and perturbed trial is followed by at most `reruns` re-runs.

    A perturbed trial that met the goal counts at once: a disturbance adds loss, it never takes any away.
    """
    readings: list[Reading] = []
    group: list[int] = []
    for place, result in enumerate(results):
        group.append(place)
        if result.perturbed and not meets(result, goal) and len(group) <= goal.reruns:
            continue
        calm = not result.perturbed or meets(result, goal)
        best = result if calm else min((results[at] for at in group), key=lambda each: each.loss_ratio)
        readings.append(Reading(best, tuple(group)))
        group = []
    if not group:
        return Ledger(tuple(readings), None)
    last = results[-1]
    return Ledger(tuple(readings), LoadTrial(intended_fps=last.intended_fps, duration_ns=last.duration_ns))


def spent_ns(results: Sequence[LoadResult]) -> int:
    """Return the time of all trials with their overhead [ns]."""
    return sum(result.duration_ns + result.overhead_ns for result in results)


def out_of_time(results: Sequence[LoadResult], goal: Goal, next_trial: LoadTrial) -> Stop | None:
    """Return the stop if the next trial would end after the time limit."""
    spent = spent_ns(results)
    if spent + next_trial.duration_ns <= goal.limit_ns:
        return None
    longer = (
        f"another of {next_trial.duration_ns / NS_PER_S:.1f} s would exceed {goal.limit_ns / NS_PER_S:.0f} s"
    )
    text = f"after {spent / NS_PER_S:.1f} s and {len(results)} trials, {longer}; the bounds are what is known so far"
    return Stop(StopReason.TIME, text)


def strict_fps(results: Sequence[LoadResult], goal: Goal) -> float | None:
    """Return the highest load below every load at which any trial failed, perturbed ones included [frames/s]."""
    failed = [result.intended_fps for result in results if not meets(result, goal)]
    ceiling = min(failed, default=float("inf"))
    passed = [
        result.intended_fps for result in results if meets(result, goal) and result.intended_fps < ceiling
    ]
    return max(passed, default=None)


def places_at(results: Sequence[LoadResult], fps: float | None) -> tuple[int, ...]:
    """Return the places of the trials at one load."""
    return tuple(
        place for place, result in enumerate(results) if fps is not None and result.intended_fps == fps
    )


def run(
    propose: Callable[[Sequence[LoadResult]], LoadTrial | Stop],
    measure: Callable[[LoadTrial], LoadResult],
    results: Sequence[LoadResult] = (),
) -> Iterator[LoadResult]:
    """Yield each result as soon as it is measured, until the strategy stops; `results` are those of before."""
    seen = list(results)
    while isinstance(trial := propose(seen), LoadTrial):
        seen.append(measure(trial))
        yield seen[-1]
