"""Types of load searches: requests, results of trials at one load, and conclusions.

The module contains no strategy; see bisect, mlr and fast. Rates are floats: Python stores and reads floats without
change, so that stored results replay to the same decisions, and the library behind `mlr` uses floats. The other
strategies request whole frames per second if that is finer than a hundredth of the width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from iolab.messages.searches import PlainSearchEnd, SearchEnd
from iolab.results.search import Found, Goal, LoadResult, StopReason


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTrial:
    """Next step of a search: one trial at one load."""

    intended_fps: float
    """Rate to request from the generator [frames/s]."""
    duration_ns: int
    """Sending time [ns]."""


@dataclass(frozen=True, slots=True)
class Stop:
    """End of a search."""

    reason: StopReason
    """Reason for the stop."""
    seen: SearchEnd
    """Evidence for the reason."""


UNFINISHED = Stop(StopReason.UNFINISHED, PlainSearchEnd(code="trials-wanted"))
"""Result of a search that has not ended."""


class Strategy(Protocol):
    """A load search strategy, which chooses the trials that other modules measure. Pure: the same results lead to the
    same decision."""

    @property
    def goal(self) -> Goal:
        """Goal of the search."""

    def propose(self, results: Sequence[LoadResult]) -> LoadTrial | Stop:
        """Return the next trial, given all results so far in the order of the proposals."""

    def conclude(self, results: Sequence[LoadResult]) -> Found:
        """Return the conclusion from the results, whether or not the search has ended."""
