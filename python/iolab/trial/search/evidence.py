"""What every strategy does with results: which of them count, what was never lost, what to say of an end.

Does not choose loads. Called by bisect, mlr and fast.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

from .sustained import UNKNOWN, Sustained, sustained_of
from .types import NS_PER_S, Goal, LoadResult, LoadTrial, Stop, StopReason

NEARBY = 1.1
"""Up to this multiple of a load the generator leaves out as much as there, if it leaves out anything at any load."""
LONGER = 2
"""How much longer a trial is run again that reached the device's limit too late to tell a rate."""
MOST_LONGER = 3
"""How often."""
PROOF_S = 5.0
"""Longest trial that proves that the highest load passes [s]."""
PROOF_FRAMES = 100_000
"""A burst of so many frames must show in it, where that time allows: a second of 100 kframe/s saved up [frames]."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The result that stands for one proposed trial, after its re-runs."""

    asked: LoadTrial
    """The trial that was proposed; the one that counts may have been longer."""
    result: LoadResult
    """The one that counts: the first calm or good one. When the re-runs are used up it is the least lossy, without
    the frames that the host explains."""
    places: tuple[int, ...]
    """Places in the list of results of the trial and its re-runs; the last one ended it."""
    disturbed: bool = False
    """The re-runs were used up, each of them disturbed."""
    hidden_loss_ratio: float | None = None
    """The trial met the goal only because a burst took up what the device cannot forward: its loss without end."""

    @property
    def loss_ratio(self) -> float:
        """Return the loss as it would go on without end."""
        return self.result.sustained_loss_ratio if self.hidden_loss_ratio is None else self.hidden_loss_ratio

    @property
    def hidden(self) -> bool:
        """Return whether a burst hid that the load is too high."""
        return self.hidden_loss_ratio is not None


@dataclass(frozen=True, slots=True)
class Ledger:
    """Results, put in order."""

    readings: tuple[Reading, ...]
    """One per proposed trial."""
    rerun: LoadTrial | None
    """The trial that must be run again: it failed while the host was disturbed, or reached the limit too late."""
    sustained: Sustained = UNKNOWN
    """What is known of the device at its limit."""
    proven: bool = False
    """The highest load passed a proof."""

    @property
    def disturbed(self) -> int:
        """Return how many loads were never seen undisturbed."""
        return sum(reading.disturbed for reading in self.readings)


def meets(result: LoadResult, goal: Goal) -> bool:
    """Return whether a trial lost no more than the goal allows (draft-ietf-bmwg-mlrsearch: low-loss)."""
    return result.offered_frames > 0 and result.sustained_loss_ratio <= goal.loss_ratio


def settle(results: Sequence[LoadResult], goal: Goal, *, proofs: bool = True) -> Ledger:
    """Put results in order: a trial that cannot be read is followed by re-runs, and the last or best of them counts.

    A disturbed trial that failed, or could not send all of its frames, is run again at most `reruns` times. One that
    met the goal counts at once: a disturbance adds loss, it never takes any away. One that reached the device's limit
    just before its end is run again for longer. What a burst hid is judged by what was seen of the device before, so
    that later trials do not change the reading of earlier ones. A proof of the highest load, where a strategy has
    `proofs`, is no reading; one that fails begins the search again.
    """
    readings: list[Reading] = []
    sustained = UNKNOWN
    group: list[int] = []
    proven = False
    for place in range(len(results)):
        group.append(place)
        if _again(results, group, goal) is not None:
            continue
        reading, group = _read(results, group, goal), []
        passed = meets(reading.result, goal)
        if not passed:
            sustained = sustained.seen(reading.result)
        elif (hidden := sustained.hides(reading.result, goal)) is not None:
            reading = replace(reading, hidden_loss_ratio=hidden)
        if proofs and reading.asked.duration_ns == proof_ns(goal):
            proven, readings = passed, readings if passed else []
        else:
            readings.append(reading)
    return Ledger(tuple(readings), _again(results, group, goal), sustained, proven)


def _again(results: Sequence[LoadResult], group: Sequence[int], goal: Goal) -> LoadTrial | None:
    """Return the trial to run again after those of a group; None: what they say can be read."""
    if not group:
        return None
    last = results[group[-1]]
    longer = sum(results[at].began_late for at in group)
    if last.began_late and longer <= MOST_LONGER:
        return LoadTrial(intended_fps=last.intended_fps, duration_ns=LONGER * last.duration_ns)
    good = not disturbed(last) or (meets(last, goal) and last.unsent_ratio <= goal.unsent_ratio)
    if good or len(group) - longer > goal.reruns:
        return None
    return LoadTrial(intended_fps=last.intended_fps, duration_ns=last.duration_ns)


def _read(results: Sequence[LoadResult], group: Sequence[int], goal: Goal) -> Reading:
    """Return what a group says that is complete."""
    first, last = results[group[0]], results[group[-1]]
    asked = LoadTrial(intended_fps=first.intended_fps, duration_ns=first.duration_ns)
    if not disturbed(last) or (meets(last, goal) and last.unsent_ratio <= goal.unsent_ratio):
        return Reading(asked, last, tuple(group))
    alike = [results[at] for at in group if not results[at].began_late] or [last]
    best = min(alike, key=lambda each: (each.loss_ratio, each.unsent_ratio))
    return Reading(asked, cleared(best, results[: group[-1] + 1], goal), tuple(group), disturbed=True)


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
        result = replace(result, excused_frames=result.unsent_frames)
    calm = 2 * result.calm_frames >= result.offered_frames
    steady = calm and result.calm_lost_frames <= goal.loss_ratio * result.calm_frames
    if steady and result.lost_frames + result.late_frames <= 2 * held_frames:
        result = replace(result, forwarded_frames=result.offered_frames, steady=None)
    return result


def proof_ns(goal: Goal) -> int:
    """Return how long the highest load must pass until it is believed [ns]: a burst of `PROOF_FRAMES` is shorter."""
    enough_s = min(PROOF_S, PROOF_FRAMES / (goal.relative_width * goal.max_fps))
    return max(math.ceil(enough_s * NS_PER_S), goal.trial_ns + 1)


def prove(ledger: Ledger, goal: Goal) -> LoadTrial | None:
    """Return the trial that proves that the highest load passes; None: it is proven."""
    return None if ledger.proven else LoadTrial(intended_fps=goal.max_fps, duration_ns=proof_ns(goal))


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

    A load that was not sent was none, whatever excuses it: a trial counts at the load that was offered. `found_fps` are
    the rate and the lower bound: a load above both was forwarded by luck, in a trial too short to fill a queue.
    """
    highest = max((fps for fps in found_fps if fps is not None), default=float("inf"))
    sustained = sustained_of(results)
    loads = [
        (load_offered(result, goal), meets(result, goal) and sustained.hides(result, goal) is None)
        for result in results
    ]
    ceiling = min((load for load, good in loads if not good), default=float("inf"))
    return max((load for load, good in loads if good and load < ceiling and load <= highest), default=None)


class LimitsSeen(TypedDict):
    """What a search tells of the device at its limit; see Found."""

    sustained_fps: float | None
    burst_frames: int
    queue_frames: int
    taken_up: bool


def limits_seen(results: Sequence[LoadResult], goal: Goal, rate_fps: float | None) -> LimitsSeen:
    """Return what the device was seen to do at its limit, and whether a rate is more than it forwards without end."""
    sustained = sustained_of([each for each in results if not meets(each, goal) and not disturbed(each)])
    return LimitsSeen(
        sustained_fps=sustained.fps,
        burst_frames=round(sustained.burst_frames),
        queue_frames=max((each.late_frames for each in results if each.at_limit), default=0),
        taken_up=sustained.exceeded_by(rate_fps, goal),
    )


def load_counted(result: LoadResult, goal: Goal) -> float:
    """Return the load at which a trial counts: as intended, or as sent where the generator was short [frames/s].

    Outside of the stalls that excuse unsent frames the load was as intended: a re-run shows the same, or the search
    says that it only saw this load disturbed.
    """
    return result.offered_fps if result.short_ratio > goal.unsent_ratio else result.intended_fps


def load_offered(result: LoadResult, goal: Goal) -> float:
    """Return the load that was really offered: the intended one where all but a few frames were sent [frames/s]."""
    return result.offered_fps if result.unsent_ratio > goal.unsent_ratio else result.intended_fps


def asked_for(load_fps: float, results: Sequence[LoadResult], goal: Goal) -> float:
    """Return the rate to ask for so that a load is offered: more where the generator left out a share of lower loads.

    A generator that is at its limit leaves nothing out below it, and is asked for no more than is wanted.
    """
    lower = [
        each for each in results if min(each.intended_fps, NEARBY**2 * each.offered_fps) <= NEARBY * load_fps
    ]
    near = max(reversed(lower), key=lambda each: each.offered_fps, default=None)
    if near is None or near.short_ratio <= goal.unsent_ratio or near.short_ratio >= 1.0:
        return load_fps
    return min(load_fps / (1.0 - near.short_ratio), goal.max_fps)


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
