"""Interpret results for all strategies: valid results, hidden losses, and the device's limit.

The module does not choose loads. The strategies bisect, mlr and fast use it.
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
"""Maximum ratio of two loads at which they count as equal."""
FEWEST = 3
"""Minimum number of trials before and after a change: by chance, three values are all above three others in one of
twenty cases."""
APART = 0.8
"""Maximum ratio of the largest forwarded share on one side of a change to the smallest share on the other side."""
SLACK = 1.2
"""Maximum ratio between the true and the observed burst: part of the credit may have been used before."""
LEAST_FRAMES = 64
"""Minimum size of a burst [frames]; a kernel processes this many frames in one batch."""


@dataclass(frozen=True, slots=True)
class AtLimit:
    """A trial with the device at its limit."""

    fps: float
    """Forwarded rate at the limit [frames/s]."""
    offered_fps: float
    """Offered load [frames/s]."""
    duration_ns: int
    """Duration of the trial [ns]."""


@dataclass(frozen=True, slots=True)
class Sustained:
    """Known limit of a device."""

    trials: tuple["AtLimit", ...] = ()
    """Trials with the device at its limit."""
    burst_frames: float = 0.0
    """Maximum observed burst beyond the sustained rate, per direction: the credit of a token bucket [frames]."""

    @property
    def fps(self) -> float | None:
        """Return the sustained rate: the median over trials [frames/s]; None if the limit was never reached."""
        return statistics.median(each.fps for each in self.trials) if self.trials else None

    def seen(self, result: LoadResult) -> "Sustained":
        """Return the device's limit after an additional trial: the median rate, and the maximum burst."""
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
        """Return the sustained loss ratio of a trial that met the goal, if a burst may have hidden the loss; else
        None.

        A burst hid the loss if a longer trial at the same or a lower load failed, because it exhausted the burst. A
        bucket accumulates credit while the host stalls the sender, so the mean load is compared, which may be below the
        rate.
        """
        fps = self.fps
        load_fps = result.intended_fps * (1.0 - result.short_ratio)
        if fps is None or not load_fps or not result.offered_frames:
            return None
        loss_ratio = 1.0 - fps / load_fps
        if loss_ratio <= goal.loss_ratio + TAKEN_UP_RATIO:
            return None
        beyond = (result.offered_fps - fps) * result.duration_ns / NS_PER_S
        # After an observed burst, a previous trial may have left the longer trial with less credit.
        longer = 0.9 if self.burst_frames else 2.0
        outlasted = any(
            each.offered_fps <= result.offered_fps * (1.0 + TAKEN_UP_RATIO)
            and each.duration_ns >= longer * result.duration_ns
            for each in self.trials
        )
        taken_up = self.burst_frames > 0 and beyond <= SLACK * self.burst_frames
        return loss_ratio if outlasted or taken_up else None

    def exceeded_by(self, rate_fps: float | None, goal: Goal) -> bool:
        """Whether a burst raised a rate above the sustained rate by more than the width of the search."""
        fps = self.fps
        if fps is None or rate_fps is None or not self.burst_frames:
            return False
        return rate_fps * (1.0 - goal.loss_ratio) > fps * (1.0 + goal.relative_width)


UNKNOWN = Sustained()


def sustained_of(results: Sequence[LoadResult]) -> Sustained:
    """Return the device's limit as known from several trials."""
    known = UNKNOWN
    for result in results:
        known = known.seen(result)
    return known


NEARBY = 1.1
"""Maximum ratio of a load to a lower load at which frames that the generator omits at the lower load count for both."""


def meets(result: LoadResult, goal: Goal) -> bool:
    """Whether the loss of a trial is within the goal (draft-ietf-bmwg-mlrsearch: low-loss)."""
    return result.offered_frames > 0 and result.sustained_loss_ratio <= goal.loss_ratio


def disturbed(result: LoadResult) -> bool:
    """Whether the host may be the reason why a trial failed: the host was disturbed, or short stalls explain all
    missing frames."""
    return result.perturbed or 0 < missing_frames(result) <= explained_frames(result)


def missing_frames(result: LoadResult) -> int:
    """Return the number of frames that make a trial fail: frames that were lost, or that a queue absorbed at the
    device's limit."""
    if result.steady is None or result.sustained_loss_ratio <= result.loss_ratio:
        return result.lost_frames
    return max(result.lost_frames, result.steady.offered_frames - result.steady.forwarded_frames)


def explained_frames(result: LoadResult) -> float:
    """Return the number of lost frames that logged stalls explain: frames due during stalls, and the same number in the
    burst afterwards."""
    return 2 * (result.held_ns or 0) * result.intended_fps / NS_PER_S


def cleared(
    result: LoadResult, seen: Sequence[LoadResult], goal: Goal, known: Sustained = UNKNOWN
) -> LoadResult:
    """Return a disturbed result without the unsent and lost frames that host stalls explain.

    The stall log alone could excuse any device on a host with frequent stalls. Lost frames are therefore excused only
    if at least half of the trial was undisturbed and met the loss goal, and unsent frames only if the generator sent
    this load in an earlier trial. A device that forwarded exactly its known limit was at its limit: its losses are not
    excused.
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
    """Whether a trial reached the device's known limit, within the search's width."""
    if limit_fps is None or not result.at_limit or result.sustained_loss_ratio <= result.loss_ratio:
        return False
    return abs(result.sustained_fps - limit_fps) <= goal.relative_width * limit_fps


def spent_ns(results: Sequence[LoadResult]) -> int:
    """Return the total time of all trials with their overhead [ns]."""
    return sum(result.duration_ns + result.overhead_ns for result in results)


def out_of_time(results: Sequence[LoadResult], goal: Goal, next_trial: LoadTrial) -> Stop | None:
    """Return a stop if the next trial would exceed the time limit; else None."""
    spent = spent_ns(results)
    if spent + next_trial.duration_ns <= goal.limit_ns:
        return None
    seen = TimeSpent(
        spent_ns=spent, trials=len(results), next_ns=next_trial.duration_ns, limit_ns=goal.limit_ns
    )
    return Stop(StopReason.TIME, seen)


def strict_fps(results: Sequence[LoadResult], goal: Goal, *found_fps: float | None) -> float | None:
    """Return the highest load below every load at which any trial failed, including disturbed trials [frames/s].

    A trial counts at its offered load, because unsent frames are no load, even if excused. `found_fps` are the rate
    and the lower bound: loads above both passed by chance, in trials too short to fill a queue.
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
    """Observed limits of the device; the class Found describes the fields."""

    sustained_fps: float | None
    burst_frames: int
    queue_frames: int
    taken_up: bool


def limits_seen(results: Sequence[LoadResult], goal: Goal, rate_fps: float | None) -> LimitsSeen:
    """Return the observed limits of the device, and whether a rate exceeds its sustained rate."""
    sustained = sustained_of([each for each in results if not meets(each, goal)])
    return LimitsSeen(
        sustained_fps=sustained.fps,
        burst_frames=round(sustained.burst_frames),
        queue_frames=max((each.late_frames or 0 for each in results if each.at_limit), default=0),
        taken_up=sustained.exceeded_by(rate_fps, goal),
    )


def load_counted(result: LoadResult, goal: Goal) -> float:
    """Return the load at which a trial counts [frames/s]: intended, or offered if the generator sent too few frames.

    Outside the stalls that excuse unsent frames, the load was as intended: a re-run shows the same result, or the
    search reports that this load was only measured under disturbance. A sender with long stalls sends bursts: if such a
    trial passes, the pass counts for the offered load; if it fails, the failure counts for the intended load.
    """
    if result.short_ratio <= goal.unsent_ratio or (held_for_long(result) and not meets(result, goal)):
        return result.intended_fps
    return result.offered_fps


def held_for_long(result: LoadResult) -> bool:
    """Whether host stalls kept the sender from sending so much of its load that the trial consisted of bursts."""
    return result.perturbed and result.unsent_ratio > EXCUSED_RATIO


def load_offered(result: LoadResult, goal: Goal) -> float:
    """Return the offered load; the intended load if nearly all frames were sent [frames/s]."""
    return result.offered_fps if result.unsent_ratio > goal.unsent_ratio else result.intended_fps


def asked_for(load_fps: float, results: Sequence[LoadResult], goal: Goal) -> float:
    """Return the rate to request so that a load is offered: higher if the generator omitted a share of lower loads.

    A generator at its limit omits nothing below the limit, so the requested rate is not raised. The requested rate is
    not raised after long stalls either, because the generator would only send bursts.
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
    """Return the indices of the trials at one load."""
    return tuple(
        place for place, result in enumerate(results) if fps is not None and result.intended_fps == fps
    )


def run(
    propose: Callable[[Sequence[LoadResult]], LoadTrial | Stop],
    measure: Callable[[LoadTrial], LoadResult],
    results: Sequence[LoadResult] = (),
) -> Iterator[LoadResult]:
    """Yield each result as soon as it is measured, until the strategy stops; `results` are earlier results."""
    seen = list(results)
    while isinstance(trial := propose(seen), LoadTrial):
        seen.append(measure(trial))
        yield seen[-1]


def find_change(results: Sequence[LoadResult]) -> DeviceChanged | None:
    """Return the largest change of the device at any load; None if trials at equal loads agree.

    Trials with long stalls of the sender are excluded, because their load differs.
    """
    sent = [each for each in results if each.offered_frames and each.unsent_ratio <= EXCUSED_RATIO]
    found = [change for each in _same_loads(sent) if (change := _change(each)) is not None]
    return max(found, key=lambda each: abs(each.earlier_ratio - each.later_ratio), default=None)


def _same_loads(results: Sequence[LoadResult]) -> list[list[LoadResult]]:
    """Return the trials of each load in time order."""
    order = sorted(range(len(results)), key=lambda at: results[at].intended_fps)
    groups: list[list[int]] = []
    for at in order:
        if groups and results[at].intended_fps <= SAME_LOAD * results[groups[-1][0]].intended_fps:
            groups[-1].append(at)
        else:
            groups.append([at])
    return [[results[at] for at in sorted(group)] for group in groups]


def _change(results: Sequence[LoadResult]) -> DeviceChanged | None:
    """Return the change between two consecutive trials that separates all earlier from all later trials; None if the
    device did not change."""
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
