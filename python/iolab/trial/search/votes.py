"""What trials decided about the loads at which they ran: met the goal, did not, or not yet known. Called by fast."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from iolab.results.search import Goal
from iolab.units import NS_PER_S

from .evidence import load_counted, meets
from .ledger import Reading


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
