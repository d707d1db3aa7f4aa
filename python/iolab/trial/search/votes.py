"""What trials decided about the loads at which they ran: met the goal, did not, or not yet known. Called by fast."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .evidence import meets
from .types import NS_PER_S, Goal, LoadResult


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
    """Their time [s]: a longer trial outweighs a shorter one, which a queue may have saved."""
    fail_s: float
    """The same of trials that did not [s]."""

    longest_s: float
    """The longest of them [s]."""

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


def count_votes(results: Sequence[LoadResult], goal: Goal, deciding_frames: int) -> tuple[Votes, ...]:
    """Return the votes per load, lowest load first.

    To pass, a trial must have offered `deciding_frames`. To fail, it must have lost more than a trial of so many frames
    may lose: then that trial would have failed as well, whatever came after.
    """
    sums: dict[float, tuple[int, int, float, float, float]] = {}
    for result in results:
        limit = goal.loss_ratio * max(deciding_frames, result.offered_frames)
        passed = meets(result, goal) and result.offered_frames >= deciding_frames
        failed = result.lost_frames > limit
        if not passed and not failed:
            continue
        unsent = result.unsent_ratio > goal.unsent_ratio
        load = float(round(result.offered_fps)) if unsent else result.intended_fps
        passes, fails, pass_s, fail_s, longest_s = sums.get(load, (0, 0, 0.0, 0.0, 0.0))
        seconds = result.duration_ns / NS_PER_S
        sums[load] = (
            passes + passed,
            fails + failed,
            pass_s + passed * seconds,
            fail_s + failed * seconds,
            max(longest_s, seconds),
        )
    return tuple(Votes(load, *sums[load]) for load in sorted(sums))


def decided_bounds(votes: Sequence[Votes], rate_fps: float) -> tuple[float | None, float | None]:
    """Return the highest load that passes below the lowest that fails, and the latter [frames/s]."""
    verdicts = [(each.load_fps, each.verdict(rate_fps)) for each in votes]
    upper = min((load for load, good in verdicts if good is False), default=None)
    ceiling = math.inf if upper is None else upper
    return max((load for load, good in verdicts if good and load < ceiling), default=None), upper
