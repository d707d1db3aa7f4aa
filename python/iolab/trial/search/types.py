"""What a load search is asked, what a trial at one load gave, and what was found.

No strategy and no arithmetic of any: see bisect, mlr and fast. Rates are floats: Python writes and reads a float back
without change, so that a stored list of results replays to the same decisions, and the library behind `mlr` works in
floats. Our own strategies ask for whole frames per second wherever that is finer than a hundredth of the width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from iolab.messages.searches import PlainSearchEnd, SearchEnd
from iolab.results.search import Found, Goal, LoadResult, StopReason


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTrial:
    """What to do next: one trial at one load."""

    intended_fps: float
    """Rate to ask the generator for [frames/s]."""
    duration_ns: int
    """How long to send [ns]."""


@dataclass(frozen=True, slots=True)
class Stop:
    """No further trial."""

    reason: StopReason
    """Why."""
    seen: SearchEnd
    """What shows it."""


UNFINISHED = Stop(StopReason.UNFINISHED, PlainSearchEnd(code="trials-wanted"))
"""The search is not at its end."""


class Strategy(Protocol):
    """A load search: it decides, others measure. Pure: the same results give the same answer."""

    @property
    def goal(self) -> Goal:
        """What is looked for."""

    def propose(self, results: Sequence[LoadResult]) -> LoadTrial | Stop:
        """Return the next trial, given all results so far in the order in which they were proposed."""

    def conclude(self, results: Sequence[LoadResult]) -> Found:
        """Return what is known from these results, be the search at its end or not."""
