"""Process a search's results in order: select the final result of each proposed trial, choose re-runs, count votes.

The module does not choose loads. The strategies bisect, mlr and fast use it; only fast counts votes on loads.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from iolab.results.search import Goal, LoadResult
from iolab.trial.search.evidence import UNKNOWN, Sustained, cleared, disturbed, load_counted, meets
from iolab.trial.search.types import LoadTrial
from iolab.units import NS_PER_S

LONGER = 2
"""Factor by which a re-run is longer after a trial that reached the device's limit too late to show a rate."""
MOST_LONGER = 3
"""Maximum number of re-runs with a longer duration."""
PROOF_S = 5.0
"""Maximum duration of a trial that proves that the highest load passes [s]."""
PROOF_FRAMES = 100_000
"""Burst that the proof trial must exhaust within its time limit, if possible: one second of 100 kframe/s [frames]."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Final result of one proposed trial, after its re-runs."""

    asked: LoadTrial
    """Proposed trial; the trial with the final result may have been longer."""
    result: LoadResult
    """Final result: the first result that is undisturbed or meets the goal.

    After the last re-run the final result is the one with the lowest loss, without the frames that host stalls explain.
    """
    places: tuple[int, ...]
    """Indices of the trial and its re-runs in the list of results; the last of them gave the final result."""
    disturbed: bool = False
    """Whether the trial and all allowed re-runs were disturbed."""
    hidden_loss_ratio: float | None = None
    """Sustained loss ratio of a trial that met the goal only because a burst absorbed the excess; None otherwise."""

    @property
    def loss_ratio(self) -> float:
        """Return the sustained loss ratio."""
        return self.result.sustained_loss_ratio if self.hidden_loss_ratio is None else self.hidden_loss_ratio

    @property
    def hidden(self) -> bool:
        """Whether a burst hid the loss of a load above the goal."""
        return self.hidden_loss_ratio is not None


@dataclass(frozen=True, slots=True)
class Ledger:
    """Processed results."""

    readings: tuple[Reading, ...]
    """Readings, one per proposed trial."""
    rerun: LoadTrial | None
    """Re-run of a trial that failed on a disturbed host or reached the limit too late; None if none is needed."""
    sustained: Sustained = UNKNOWN
    """Known limit of the device."""
    proven: bool = False
    """Whether the highest load passed a proof trial."""

    @property
    def disturbed(self) -> int:
        """Return the number of loads without an undisturbed result."""
        return sum(reading.disturbed for reading in self.readings)


def settle(results: Sequence[LoadResult], goal: Goal, *, proofs: bool = True) -> Ledger:
    """Process results: a trial without a clear result is followed by re-runs, of which the last or best counts.

    A disturbed trial that failed or could not send all of its frames is repeated at most `reruns` times. A disturbed
    trial that met the goal counts immediately, because disturbances only add loss. A trial that reached the device's
    limit just before its end is repeated with a longer duration. Hidden losses are judged by earlier information about
    the device only, so that later trials do not change earlier readings. With `proofs`, for strategies that depend on
    trial order, a proof of the highest load is not a reading. A failed proof restarts the search. A trial that shows
    that an earlier trial passed because of a burst restarts the search, too, but only once.
    """
    readings: list[Reading] = []
    sustained = UNKNOWN
    group: list[int] = []
    proven = again = False
    for place in range(len(results)):
        group.append(place)
        if _again(results, group, goal) is not None:
            continue
        reading, group = _read(results, group, goal, sustained), []
        passed = meets(reading.result, goal)
        if not passed:
            sustained = sustained.seen(reading.result)
        elif (hidden := sustained.hides(reading.result, goal)) is not None:
            reading = replace(reading, hidden_loss_ratio=hidden)
        misread = not again and any(far_too_high(each, sustained, goal) for each in readings)
        if proofs and (misread or reading.asked.duration_ns == proof_ns(goal)):
            proven, again = passed, again or misread
            readings = readings if passed else []
        else:
            readings.append(reading)
    return Ledger(tuple(readings), _again(results, group, goal), sustained, proven)


def far_too_high(reading: Reading, sustained: Sustained, goal: Goal) -> bool:
    """Whether a trial passed only because of a burst, and at a load far above the device's known limit."""
    if reading.hidden or not meets(reading.result, goal):
        return False
    hidden = sustained.hides(reading.result, goal)
    return hidden is not None and hidden > goal.loss_ratio + goal.relative_width


def _again(results: Sequence[LoadResult], group: Sequence[int], goal: Goal) -> LoadTrial | None:
    """Return the trial to repeat after a group; None if the group has a clear result."""
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


def _read(results: Sequence[LoadResult], group: Sequence[int], goal: Goal, known: Sustained) -> Reading:
    """Return the reading of a complete group: a trial and its re-runs."""
    first, last = results[group[0]], results[group[-1]]
    asked = LoadTrial(intended_fps=first.intended_fps, duration_ns=first.duration_ns)
    if not disturbed(last) or (meets(last, goal) and last.unsent_ratio <= goal.unsent_ratio):
        return Reading(asked, last, tuple(group))
    alike = [results[at] for at in group if not results[at].began_late] or [last]
    best = min(alike, key=lambda each: (each.sustained_loss_ratio, each.unsent_ratio))
    settled = cleared(best, results[: group[-1] + 1], goal, known)
    return Reading(asked, settled, tuple(group), disturbed=True)


def proof_ns(goal: Goal) -> int:
    """Return the duration of the proof trial at the highest load [ns]; the trial exhausts a burst of `PROOF_FRAMES`."""
    enough_s = min(PROOF_S, PROOF_FRAMES / (goal.relative_width * goal.max_fps))
    return max(math.ceil(enough_s * NS_PER_S), goal.trial_ns + 1)


def prove(ledger: Ledger, goal: Goal) -> LoadTrial | None:
    """Return a trial that can prove that the highest load passes; None if this is proven already."""
    return None if ledger.proven else LoadTrial(intended_fps=goal.max_fps, duration_ns=proof_ns(goal))


@dataclass(frozen=True, slots=True)
class Votes:
    """Deciding trials at one load."""

    load_fps: float
    """Offered load [frames/s]."""
    passes: int
    """Trials that met the goal."""
    fails: int
    """Trials that did not meet the goal."""
    pass_s: float
    """Total time of passed trials that are at least half as long as the longest failed one: shorter trials may pass
    because of queues [s]."""
    fail_s: float
    """Total time of failed trials [s]."""
    longest_pass_s: float
    """Longest passed trial [s]."""
    longest_fail_s: float
    """Longest failed trial [s]."""

    @property
    def longest_s(self) -> float:
        """Return the duration of the longest trial [s]."""
        return max(self.longest_pass_s, self.longest_fail_s)

    @property
    def count(self) -> int:
        """Return the number of deciding trials."""
        return self.passes + self.fails

    def verdict(self, rate_fps: float) -> bool | None:
        """Return whether the load meets the goal; None if it is undecided.

        A result that agrees with the estimate `rate_fps` counts immediately. An unexpected result must occur twice.
        """
        if self.pass_s == self.fail_s:
            return None
        good = self.pass_s > self.fail_s
        expected = good == (self.load_fps <= rate_fps)
        return good if expected or self.count >= 2 else None

    def contradicts(self, rate_fps: float, leeway_ratio: float) -> bool:
        """Whether the decision at this load contradicts the estimate by more than the leeway."""
        verdict = self.verdict(rate_fps)
        if verdict is None or abs(self.load_fps - rate_fps) <= leeway_ratio * rate_fps:
            return False
        return verdict != (self.load_fps <= rate_fps)


def count_votes(readings: Sequence[Reading], goal: Goal, deciding_frames: int) -> tuple[Votes, ...]:
    """Return the votes per load, lowest load first.

    To pass, a trial must have offered `deciding_frames`. To fail, it must have lost more frames than a trial with
    `deciding_frames` may lose, so that later frames could not have changed the result. A load is undecided if a burst
    hid its loss.
    """
    passes: dict[float, list[float]] = {}
    fails: dict[float, list[float]] = {}
    for reading in readings:
        result = reading.result
        limit = goal.loss_ratio * max(deciding_frames, result.offered_frames)
        passed = meets(result, goal) and not reading.hidden and result.offered_frames >= deciding_frames
        failed = reading.loss_ratio * result.offered_frames > limit
        load = load_counted(result, goal)
        load = load if load == result.intended_fps else float(round(load))
        for found, decided in ((passes, passed and not failed), (fails, failed and not reading.hidden)):
            if decided:
                found.setdefault(load, []).append(result.duration_ns / NS_PER_S)
    return tuple(
        _votes(load, passes.get(load, []), fails.get(load, [])) for load in sorted({*passes, *fails})
    )


def _votes(load_fps: float, passes_s: Sequence[float], fails_s: Sequence[float]) -> Votes:
    longest_s = max(fails_s, default=0.0)
    return Votes(
        load_fps=load_fps,
        passes=len(passes_s),
        fails=len(fails_s),
        pass_s=sum(each for each in passes_s if 2 * each >= longest_s),
        fail_s=sum(fails_s),
        longest_pass_s=max(passes_s, default=0.0),
        longest_fail_s=longest_s,
    )


def decided_bounds(votes: Sequence[Votes], rate_fps: float) -> tuple[float | None, float | None]:
    """Return the highest passing load below the lowest failing load, and the lowest failing load [frames/s]."""
    verdicts = [(each.load_fps, each.verdict(rate_fps)) for each in votes]
    upper = min((load for load, good in verdicts if good is False), default=None)
    ceiling = math.inf if upper is None else upper
    return max((load for load, good in verdicts if good and load < ceiling), default=None), upper
