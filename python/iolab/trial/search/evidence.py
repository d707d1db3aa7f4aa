"""What every strategy does with results: which of them count, what was never lost, what the device does at its limit.

Does not choose loads. Called by bisect, mlr and fast.
"""

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import mean
from typing import TypedDict

from iolab.messages.searches import TimeSpent
from iolab.messages.warnings import DeviceChanged
from iolab.results.search import EXCUSED_RATIO, TAKEN_UP_RATIO, Goal, LoadResult, StopReason
from iolab.trial.search.types import LoadTrial, Stop
from iolab.units import NS_PER_S

SAME_LOAD = 1.03
"""Loads that differ by less are the same [ratio]."""
FEWEST = 3
"""Trials before and after: by chance three are all above three others once in twenty times."""
APART = 0.8
"""What was forwarded of a load must have fallen or risen by more than this ratio, from any trial to any other."""
SLACK = 1.2
"""A burst may be this much larger than it was seen: part of its credit was used up before."""
LEAST_FRAMES = 64
"""Smaller bursts are none: a kernel takes as many frames at a time [frames]."""


@dataclass(frozen=True, slots=True)
class AtLimit:
    """A trial that saw the device at its limit."""

    fps: float
    """What came out there [frames/s]."""
    offered_fps: float
    """The load [frames/s]."""
    duration_ns: int
    """How long it was sent [ns]."""


@dataclass(frozen=True, slots=True)
class Sustained:
    """A device at its limit."""

    trials: tuple["AtLimit", ...] = ()
    """The trials that saw it there."""
    burst_frames: float = 0.0
    """What it passes on at once beyond that, per direction: a token bucket's credit, as large as ever seen [frames]."""

    @property
    def fps(self) -> float | None:
        """What it forwards without end: in the middle trial [frames/s]; None: it was never seen at its limit."""
        return statistics.median(each.fps for each in self.trials) if self.trials else None

    def seen(self, result: LoadResult) -> "Sustained":
        """Return what is known after another trial: the middle rate, and the largest burst of all."""
        if not result.at_limit or not result.sustained_fps:
            return self
        burst = result.burst_frames
        if burst < max(LEAST_FRAMES, TAKEN_UP_RATIO * result.offered_fps * result.duration_ns / NS_PER_S):
            burst = 0.0
        return Sustained(
            (*self.trials, AtLimit(result.sustained_fps, result.offered_fps, result.duration_ns)),
            max(self.burst_frames, burst),
        )

    def hides(self, result: LoadResult, goal: Goal) -> float | None:
        """Return the loss without end of a trial that met the goal, if a burst may have hidden it, or None.

        A burst did where a longer trial failed at this load or below: it used up what this one did not. A bucket
        saves up credit while the host holds the sender up: the mean load counts, and it may be below the rate.
        """
        fps = self.fps
        load_fps = result.intended_fps * (1.0 - result.short_ratio)
        if fps is None or not load_fps or not result.offered_frames:
            return None
        loss_ratio = 1.0 - fps / load_fps
        if loss_ratio <= goal.loss_ratio + TAKEN_UP_RATIO:
            return None
        beyond = (result.offered_fps - fps) * result.duration_ns / NS_PER_S
        # Where a burst was seen, a trial before may have left the longer one less of it.
        longer = 0.9 if self.burst_frames else 2.0
        outlasted = any(
            each.offered_fps <= result.offered_fps * (1.0 + TAKEN_UP_RATIO)
            and each.duration_ns >= longer * result.duration_ns
            for each in self.trials
        )
        taken_up = self.burst_frames > 0 and beyond <= SLACK * self.burst_frames
        return loss_ratio if outlasted or taken_up else None

    def exceeded_by(self, rate_fps: float | None, goal: Goal) -> bool:
        """Return whether a rate is more than the device forwards without end, by a burst and beyond the width."""
        fps = self.fps
        if fps is None or rate_fps is None or not self.burst_frames:
            return False
        return rate_fps * (1.0 - goal.loss_ratio) > fps * (1.0 + goal.relative_width)


UNKNOWN = Sustained()


def sustained_of(results: Sequence[LoadResult]) -> Sustained:
    """Return what all of these trials say together."""
    known = UNKNOWN
    for result in results:
        known = known.seen(result)
    return known


NEARBY = 1.1
"""Up to this multiple of a load the generator leaves out as much as there, if it leaves out anything at any load."""


def meets(result: LoadResult, goal: Goal) -> bool:
    """Return whether a trial lost no more than the goal allows (draft-ietf-bmwg-mlrsearch: low-loss)."""
    return result.offered_frames > 0 and result.sustained_loss_ratio <= goal.loss_ratio


def disturbed(result: LoadResult) -> bool:
    """Return whether the host may be why a trial failed: perturbed, or short stalls explain all that was missing."""
    return result.perturbed or 0 < missing_frames(result) <= explained_frames(result)


def missing_frames(result: LoadResult) -> int:
    """Return the frames that make a trial fail: lost, or taken up by a queue while the device was at its limit."""
    if result.steady is None or result.sustained_loss_ratio <= result.loss_ratio:
        return result.lost_frames
    return max(result.lost_frames, result.steady.offered_frames - result.steady.forwarded_frames)


def explained_frames(result: LoadResult) -> float:
    """Return how many lost frames the stall log explains: those due meanwhile, and as many in a burst afterwards."""
    return 2 * (result.held_ns or 0) * result.intended_fps / NS_PER_S


def cleared(
    result: LoadResult, seen: Sequence[LoadResult], goal: Goal, known: Sustained = UNKNOWN
) -> LoadResult:
    """Return a disturbed result without what the host explains of its unsent and lost frames.

    The stall log alone would clear any device on a host that is held up often enough: half of the trial must have been
    calm and in it no more lost than the goal allows, and the generator must have sent this load in a trial seen so far.
    A device that forwarded just what it does at its limit, as known by then, was at its limit: no host excuses that.
    """
    held_frames = explained_frames(result) / 2
    load = (1 - goal.unsent_ratio) * result.intended_fps
    spare_frames = goal.unsent_ratio * result.intended_frames
    if result.unsent_frames <= held_frames + spare_frames and max(each.offered_fps for each in seen) >= load:
        result = replace(result, excused_frames=result.unsent_frames)
    at_limit = result.steady.share_ratio if result.steady is not None else 0.0
    calm_frames, calm_lost = result.calm_frames or 0, result.calm_lost_frames or 0
    calm = 2 * calm_frames >= (at_limit or 1.0) * result.offered_frames
    steady = calm and calm_lost <= goal.loss_ratio * calm_frames
    explained = result.lost_frames + (result.late_frames or 0) <= 2 * held_frames
    if steady and explained and not _forwards(result, known.fps, goal):
        result = replace(result, forwarded_frames=result.offered_frames, steady=None)
    return result


def _forwards(result: LoadResult, limit_fps: float | None, goal: Goal) -> bool:
    """Return whether a trial saw the device at this rate, as exactly as the search asks for."""
    if limit_fps is None or not result.at_limit or result.sustained_loss_ratio <= result.loss_ratio:
        return False
    return abs(result.sustained_fps - limit_fps) <= goal.relative_width * limit_fps


def spent_ns(results: Sequence[LoadResult]) -> int:
    """Return the time of all trials with their overhead [ns]."""
    return sum(result.duration_ns + result.overhead_ns for result in results)


def out_of_time(results: Sequence[LoadResult], goal: Goal, next_trial: LoadTrial) -> Stop | None:
    """Return the stop if the next trial would end after the time limit."""
    spent = spent_ns(results)
    if spent + next_trial.duration_ns <= goal.limit_ns:
        return None
    seen = TimeSpent(
        spent_ns=spent, trials=len(results), next_ns=next_trial.duration_ns, limit_ns=goal.limit_ns
    )
    return Stop(StopReason.TIME, seen)


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
    sustained = sustained_of([each for each in results if not meets(each, goal)])
    return LimitsSeen(
        sustained_fps=sustained.fps,
        burst_frames=round(sustained.burst_frames),
        queue_frames=max((each.late_frames or 0 for each in results if each.at_limit), default=0),
        taken_up=sustained.exceeded_by(rate_fps, goal),
    )


def load_counted(result: LoadResult, goal: Goal) -> float:
    """Return the load at which a trial counts: as intended, or as sent where the generator was short [frames/s].

    Outside of the stalls that excuse unsent frames the load was as intended: a re-run shows the same, or the search
    says that it only saw this load disturbed. Where the sender was held up for long it sent bursts: they pass at the
    load that was sent, and fail at the one that was intended.
    """
    if result.short_ratio <= goal.unsent_ratio or (held_for_long(result) and not meets(result, goal)):
        return result.intended_fps
    return result.offered_fps


def held_for_long(result: LoadResult) -> bool:
    """Return whether the host kept the sender from so much of its load that the trial was one of bursts."""
    return result.perturbed and result.unsent_ratio > EXCUSED_RATIO


def load_offered(result: LoadResult, goal: Goal) -> float:
    """Return the load that was really offered: the intended one where all but a few frames were sent [frames/s]."""
    return result.offered_fps if result.unsent_ratio > goal.unsent_ratio else result.intended_fps


def asked_for(load_fps: float, results: Sequence[LoadResult], goal: Goal) -> float:
    """Return the rate to ask for so that a load is offered: more where the generator left out a share of lower loads.

    A generator that is at its limit leaves nothing out below it, and is asked for no more than is wanted; nor is one
    that the host holds up for long: it would only send bursts.
    """
    lower = [
        each for each in results if min(each.intended_fps, NEARBY**2 * each.offered_fps) <= NEARBY * load_fps
    ]
    near = max(reversed(lower), key=lambda each: each.offered_fps, default=None)
    if near is None or near.short_ratio <= goal.unsent_ratio or near.short_ratio >= 1.0:
        return load_fps
    if held_for_long(near):
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


def find_change(results: Sequence[LoadResult]) -> DeviceChanged | None:
    """Return the load at which the device changed most, or None: every load fared alike whenever it was tried.

    Trials whose sender was held up for long are left out: they were other loads.
    """
    sent = [each for each in results if each.offered_frames and each.unsent_ratio <= EXCUSED_RATIO]
    found = [change for each in _same_loads(sent) if (change := _change(each)) is not None]
    return max(found, key=lambda each: abs(each.earlier_ratio - each.later_ratio), default=None)


def _same_loads(results: Sequence[LoadResult]) -> list[list[LoadResult]]:
    """Return the trials of each load, in the order of their times."""
    order = sorted(range(len(results)), key=lambda at: results[at].intended_fps)
    groups: list[list[int]] = []
    for at in order:
        if groups and results[at].intended_fps <= SAME_LOAD * results[groups[-1][0]].intended_fps:
            groups[-1].append(at)
        else:
            groups.append([at])
    return [[results[at] for at in sorted(group)] for group in groups]


def _change(results: Sequence[LoadResult]) -> DeviceChanged | None:
    """Return the change between any two neighbours in time that parts all before from all after."""
    shares = [1.0 - each.loss_ratio for each in results]
    for at in range(FEWEST, len(shares) - FEWEST + 1):
        before, after = shares[:at], shares[at:]
        if max(after) < APART * min(before) or max(before) < APART * min(after):
            return DeviceChanged(
                load_fps=mean([each.intended_fps for each in results]),
                earlier_ratio=mean(before),
                later_ratio=mean(after),
            )
    return None
