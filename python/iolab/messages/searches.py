"""Why load searches end. Types only."""

from typing import Literal

from iolab.messages.evidence import Evidence
from iolab.messages.statement import Quoted


class SearchEnd(Evidence, kind=True):
    """Why a search ended, or would go on."""


class PlainSearchEnd(SearchEnd):
    """The search is not at its end, the generator cannot send more, or MLRsearch reached its goal."""

    code: Literal["trials-wanted", "generator-at-its-limit", "library-ended"]


class IntervalReached(SearchEnd):
    """The 95 % interval of the rate is narrow enough, and trials on either side show that it holds."""

    width_ratio: float
    rate_fps: float
    lower_fps: float
    upper_fps: float


class BoundsReached(SearchEnd):
    """The loads that are decided are close enough; the forwarding rate under overload is not the limit."""

    lower_fps: float
    upper_fps: float


class GeneratorReached(SearchEnd):
    """The generator sends no more, and all of it is forwarded."""

    sent_fps: float


class HighestForwarded(SearchEnd):
    """The highest load allowed is forwarded."""

    highest_fps: float


class LowestLost(SearchEnd):
    """The lowest load allowed loses too much."""

    lowest_fps: float


class TimeSpent(SearchEnd):
    """Another trial would exceed the time allowed; the bounds are what is known so far."""

    spent_ns: int
    trials: int
    next_ns: int
    limit_ns: int


class TrialsDisagree(SearchEnd):
    """So many trials did not agree."""

    trials: int


class SearchesEnded(SearchEnd):
    """Several whole searches ended, each at its rate."""

    searches: int
    rates_fps: tuple[float, ...]
    last: SearchEnd
    """Why the last of them did."""


class WidthReached(SearchEnd):
    """The bounds are as close as asked for."""

    width_ratio: float


class LibraryGaveUp(SearchEnd):
    """MLRsearch gave up."""

    said: Quoted
    """The library's own words."""
