"""A search's results in order: which counts for each trial that was proposed, what must be run again, what it decides.

Does not choose loads. Called by bisect, mlr and fast; votes on loads by fast alone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from iolab.results.search import Goal, LoadResult
from iolab.trial.search.evidence import UNKNOWN, Sustained, cleared, disturbed, load_counted, meets
from iolab.trial.search.types import LoadTrial
from iolab.units import NS_PER_S

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


def settle(results: Sequence[LoadResult], goal: Goal, *, proofs: bool = True) -> Ledger:
    """Put results in order: a trial that cannot be read is followed by re-runs, and the last or best of them counts.

    A disturbed trial that failed, or could not send all of its frames, is run again at most `reruns` times. One that
    met the goal counts at once: a disturbance adds loss, it never takes any away. One that reached the device's limit
    just before its end is run again for longer. What a burst hid is judged by what was seen of the device before, so
    that later trials do not change the reading of earlier ones. Where a strategy goes by the order of its trials
    (`proofs`), a proof of the highest load is no reading; one that fails begins the search again, and so does, once, a
    trial that shows that one before it passed by a burst.
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
    """Return whether a trial was read as passed at a load that a burst alone explains, as is known now."""
    if reading.hidden or not meets(reading.result, goal):
        return False
    hidden = sustained.hides(reading.result, goal)
    return hidden is not None and hidden > goal.loss_ratio + goal.relative_width


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


def _read(results: Sequence[LoadResult], group: Sequence[int], goal: Goal, known: Sustained) -> Reading:
    """Return what a group says that is complete."""
    first, last = results[group[0]], results[group[-1]]
    asked = LoadTrial(intended_fps=first.intended_fps, duration_ns=first.duration_ns)
    if not disturbed(last) or (meets(last, goal) and last.unsent_ratio <= goal.unsent_ratio):
        return Reading(asked, last, tuple(group))
    alike = [results[at] for at in group if not results[at].began_late] or [last]
    best = min(alike, key=lambda each: (each.sustained_loss_ratio, each.unsent_ratio))
    settled = cleared(best, results[: group[-1] + 1], goal, known)
    return Reading(asked, settled, tuple(group), disturbed=True)


def proof_ns(goal: Goal) -> int:
    """Return how long the highest load must pass until it is believed [ns]: a burst of `PROOF_FRAMES` is shorter."""
    enough_s = min(PROOF_S, PROOF_FRAMES / (goal.relative_width * goal.max_fps))
    return max(math.ceil(enough_s * NS_PER_S), goal.trial_ns + 1)


def prove(ledger: Ledger, goal: Goal) -> LoadTrial | None:
    """Return the trial that proves that the highest load passes; None: it is proven."""
    return None if ledger.proven else LoadTrial(intended_fps=goal.max_fps, duration_ns=proof_ns(goal))


@dataclass(frozen=True, slots=True)
class Votes:
    """The deciding trials at one load."""

    load_fps: float
    """The load that was offered [frames/s]."""
    passes: int
    """Trials that met the goal."""
    fails: int
    """Trials that did not."""
    pass_s: float
    """Time of those that passed, and are half as long as the longest that did not: a queue saves shorter ones [s]."""
    fail_s: float
    """The time of those that did not [s]."""
    longest_pass_s: float
    """The longest that passed [s]."""
    longest_fail_s: float
    """The longest that did not [s]."""

    @property
    def longest_s(self) -> float:
        """The longest of all [s]."""
        return max(self.longest_pass_s, self.longest_fail_s)

    @property
    def count(self) -> int:
        """Trials that decided."""
        return self.passes + self.fails

    def verdict(self, rate_fps: float) -> bool | None:
        """Return whether the load meets the goal; None: not decided.

        What `rate_fps`, the estimate, lets expect is believed at once. A surprise must happen twice.
        """
        if self.pass_s == self.fail_s:
            return None
        good = self.pass_s > self.fail_s
        expected = good == (self.load_fps <= rate_fps)
        return good if expected or self.count >= 2 else None

    def contradicts(self, rate_fps: float, leeway_ratio: float) -> bool:
        """Return whether the load is decided against what the estimate lets expect, and not by a hair."""
        verdict = self.verdict(rate_fps)
        if verdict is None or abs(self.load_fps - rate_fps) <= leeway_ratio * rate_fps:
            return False
        return verdict != (self.load_fps <= rate_fps)


def count_votes(readings: Sequence[Reading], goal: Goal, deciding_frames: int) -> tuple[Votes, ...]:
    """Return the votes per load, lowest load first.

    To pass, a trial must have offered `deciding_frames`. To fail, it must have lost more than a trial of so many frames
    may lose: then that trial would have failed as well, whatever came after. A load that a burst hid is not decided.
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
    """Return the highest load that passes below the lowest that fails, and the latter [frames/s]."""
    verdicts = [(each.load_fps, each.verdict(rate_fps)) for each in votes]
    upper = min((load for load, good in verdicts if good is False), default=None)
    ceiling = math.inf if upper is None else upper
    return max((load for load, good in verdicts if good and load < ceiling), default=None), upper
