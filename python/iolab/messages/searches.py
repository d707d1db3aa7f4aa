"""Reasons why load searches stop. Types only."""

from typing import Literal

from iolab.messages.evidence import Evidence
from iolab.messages.statement import Quoted


class SearchEnd(Evidence, kind=True):
    """The reason why a search stopped, or would continue."""


class PlainSearchEnd(SearchEnd):
    """A reason without parameters: more trials are needed, the sender is at its limit, or MLRsearch succeeded."""

    code: Literal["trials-wanted", "generator-at-its-limit", "library-ended"]


class IntervalReached(SearchEnd):
    """The 95 % confidence interval of the rate is narrow enough, and trials at both sides confirm it."""

    width_ratio: float
    rate_fps: float
    lower_fps: float
    upper_fps: float


class BoundsReached(SearchEnd):
    """The bounds are close enough; the forwarding rate under overload is not the limit."""

    lower_fps: float
    upper_fps: float


class GeneratorReached(SearchEnd):
    """The device forwards the maximum rate of the sender."""

    sent_fps: float


class HighestForwarded(SearchEnd):
    """The device forwards the highest allowed load."""

    highest_fps: float


class LowestLost(SearchEnd):
    """The loss at the lowest allowed load exceeds the goal."""

    lowest_fps: float


class TimeSpent(SearchEnd):
    """A further trial would exceed the time limit; the bounds are the current ones."""

    spent_ns: int
    trials: int
    next_ns: int
    limit_ns: int


class TrialsDisagree(SearchEnd):
    """The results of this number of trials are inconsistent."""

    trials: int


class SearchesEnded(SearchEnd):
    """Several complete searches ended, each with a rate."""

    searches: int
    rates_fps: tuple[float, ...]
    last: SearchEnd
    """Reason why the last search stopped."""


class WidthReached(SearchEnd):
    """The bounds are as close as `width` requires."""

    width_ratio: float


class LibraryGaveUp(SearchEnd):
    """MLRsearch gave up."""

    said: Quoted
    """Error message of the library."""
