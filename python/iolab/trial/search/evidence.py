"""What every strategy does with results: which of them count, what was never lost, what to say of an end.

Does not choose loads. Called by bisect, mlr and fast.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from .types import NS_PER_S, Goal, LoadResult, LoadTrial, Stop, StopReason


@dataclass(frozen=True, slots=True)
class Reading:
    """The result that stands for one proposed trial, after its re-runs."""

    result: LoadResult
    """The one that counts: the first calm or good one. When the re-runs are used up it is the least lossy, without
    the frames that the host explains."""
    places: tuple[int, ...]
    """Places in the list of results of the trial and its re-runs; the last one ended it."""
    disturbed: bool = False
    """The re-runs were used up, each of them disturbed."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """Results, put in order."""

    readings: tuple[Reading, ...]
    """One per proposed trial."""
    rerun: LoadTrial | None
    """The trial that must be run again because it failed while the host was disturbed."""

    @property
    def disturbed(self) -> int:
        """Return how many loads were never seen undisturbed."""
        return sum(reading.disturbed for reading in self.readings)


def meets(result: LoadResult, goal: Goal) -> bool:
    """Return whether a trial lost no more than the goal allows (draft-ietf-bmwg-mlrsearch: low-loss)."""
    return result.offered_frames > 0 and result.loss_ratio <= goal.loss_ratio


def settle(results: Sequence[LoadResult], goal: Goal) -> Ledger:
    """Put results in order: a failed and disturbed trial is followed by at most `reruns` re-runs.

    A disturbed trial that met the goal counts at once: a disturbance adds loss, it never takes any away. One that could
    not send all of its frames is run again as well: the generator's limit is not read off a stall.
    """
    readings: list[Reading] = []
    group: list[int] = []
    for place, result in enumerate(results):
        group.append(place)
        good = not disturbed(result) or (meets(result, goal) and result.unsent_ratio <= goal.unsent_ratio)
        if not good and len(group) <= goal.reruns:
            continue
        if good:
            readings.append(Reading(result, tuple(group)))
        else:
            best = min((results[at] for at in group), key=lambda each: (each.loss_ratio, each.unsent_ratio))
            readings.append(Reading(cleared(best, results[: place + 1], goal), tuple(group), disturbed=True))
        group = []
    if not group:
        return Ledger(tuple(readings), None)
    last = results[-1]
    return Ledger(tuple(readings), LoadTrial(intended_fps=last.intended_fps, duration_ns=last.duration_ns))


def disturbed(result: LoadResult) -> bool:
    """Return whether the host may be why a trial failed: perturbed, or short stalls explain all that was lost."""
    return result.perturbed or 0 < result.lost_frames <= explained_frames(result)


def explained_frames(result: LoadResult) -> float:
    """Return how many lost frames the stall log explains: those due meanwhile, and as many in a burst afterwards."""
    return 2 * result.held_ns * result.intended_fps / NS_PER_S


def cleared(result: LoadResult, seen: Sequence[LoadResult], goal: Goal) -> LoadResult:
    """Return a disturbed result without what the host explains of its unsent and lost frames.

    The stall log alone would clear any device on a host that is held up often enough: half of the trial must have been
    calm and in it no more lost than the goal allows, and the generator must have sent this load in a trial seen so far.
    """
    held_frames = explained_frames(result) / 2
    load = (1 - goal.unsent_ratio) * result.intended_fps
    spare_frames = goal.unsent_ratio * result.intended_frames
    if result.unsent_frames <= held_frames + spare_frames and max(each.offered_fps for each in seen) >= load:
        result = replace(result, intended_frames=result.offered_frames)
    calm = 2 * result.calm_frames >= result.offered_frames
    steady = calm and result.calm_lost_frames <= goal.loss_ratio * result.calm_frames
    if steady and result.lost_frames <= 2 * held_frames:
        result = replace(result, forwarded_frames=result.offered_frames)
    return result


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


def strict_fps(results: Sequence[LoadResult], goal: Goal, *found_fps: float | None) -> float | None:
    """Return the highest load below every load at which any trial failed, perturbed ones included [frames/s].

    A load that was not sent was none: a trial counts at the load that was offered. `found_fps` are the rate and the
    lower bound: a load above both was forwarded by luck, in a trial too short to fill a queue.
    """
    highest = max((fps for fps in found_fps if fps is not None), default=float("inf"))
    loads = [(load_offered(result, goal), meets(result, goal)) for result in results]
    ceiling = min((load for load, good in loads if not good), default=float("inf"))
    return max((load for load, good in loads if good and load < ceiling and load <= highest), default=None)


def load_offered(result: LoadResult, goal: Goal) -> float:
    """Return the load at which a trial counts: as intended, or what was sent where that is notably less [frames/s]."""
    return result.offered_fps if result.unsent_ratio > goal.unsent_ratio else result.intended_fps


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
