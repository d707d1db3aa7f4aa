"""What counts as right, as marked, and as wrong: figures and verdicts against a known truth. Pure."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

NEAR_RATIO = 0.01
"""A rate that is no further off is right [ratio]."""
ONLY_BELOW = frozenset(
    {"generator-limited", "receiver-limited", "line-limited", "search-disturbed", "host-perturbed"}
)
"""Marks that explain a rate below the truth: the device can do at least this. No stall lets a device forward more."""
PARTIAL = "search-partial"
"""The mark that says the bounds are what is known."""
QUEUE = "queue-took-up"
"""The mark that says that a queue took up more than the device forwards, with the sustained rate."""
DOUBTFUL = frozenset({"unexplained"})
"""Limits that name no cause."""


class Grade(StrEnum):
    """What is to be thought of a figure or a verdict."""

    RIGHT = "right"
    """It is the truth."""
    MARKED = "marked"
    """It is not, and a mark says so with the right reason."""
    DOUBT = "doubt"
    """No cause was named."""
    WRONG = "WRONG"
    """It is not the truth, and nothing says so."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A rate that was found, beside the truth."""

    truth: float
    """What the device can do [frames/s]."""
    found: float | None
    """What was reported [frames/s]; None: nothing."""
    marks: frozenset[str]
    """Codes of the warnings beside it."""
    lower: float | None = None
    """Lower bound [frames/s]; None: there is none."""
    upper: float | None = None
    """Upper bound [frames/s]; None: there is none."""
    sustained: float | None = None
    """The sustained rate that is shown beside it [frames/s]; None: none is."""

    @property
    def within_bounds(self) -> bool:
        """Whether the truth is between the bounds."""
        above = self.lower is None or self.lower <= self.truth * (1 + NEAR_RATIO)
        return above and (self.upper is None or self.upper >= self.truth * (1 - NEAR_RATIO))

    @property
    def error_ratio(self) -> float | None:
        """Return how far off the figure is; None where there is none."""
        return None if self.found is None else self.found / self.truth - 1


@dataclass(frozen=True, slots=True)
class Blame:
    """A cause that was named."""

    limit: str
    """Code of the verdict."""
    place: str
    """Where; may be empty."""
    text: str
    """In words."""
    doubt: str = ""
    """Why it is not certain; empty: it is."""


def grade_figure(figure: Figure, reasons: Collection[str]) -> Grade:
    """Return the grade of a rate; `reasons` are the marks that are right for this device.

    A mark that tells of a lower bound is right only where the device can really do as much, one that says that bounds
    are what is known only where they hold the truth, and one that tells of a queue only beside the sustained rate.
    """
    if _is_near(figure.found, figure.truth):
        return Grade.RIGHT
    fitting = figure.marks & frozenset(reasons)
    if figure.found is not None and figure.found > figure.truth:
        fitting -= ONLY_BELOW
    if not figure.within_bounds:
        fitting -= {PARTIAL}
    if not _is_near(figure.sustained, figure.truth):
        fitting -= {QUEUE}
    return Grade.MARKED if fitting else Grade.WRONG


def _is_near(found: float | None, truth: float) -> bool:
    return found is not None and abs(found - truth) <= NEAR_RATIO * truth


def grade_verdict(blame: Blame, places: Sequence[str], words: Sequence[str] = ()) -> Grade:
    """Return the grade of a verdict that must name one of these places, and all of these words.

    No place at all: nothing may be blamed. A place given as a limit (generator, host) is that limit.
    """
    named = blame.place in places or blame.limit in (places or ("none",))
    if named and all(word in blame.text for word in words):
        return Grade.RIGHT
    return Grade.DOUBT if blame.doubt or blame.limit in DOUBTFUL else Grade.WRONG


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one case."""

    name: str
    """Of the case."""
    figure: Grade
    """Of its rate, or of its counts."""
    verdict: Grade | None
    """Of its verdict; None: it is not judged."""
    unexplained_frames: int
    """Frames that no counter accounts for, both signs counted."""


@dataclass(frozen=True, slots=True)
class Tally:
    """All cases together."""

    cases: int
    """How many."""
    right: int
    """Figures that are the truth."""
    marked: int
    """Figures that are not, and are marked with the right reason."""
    wrong_verdicts: tuple[str, ...]
    """Cases whose verdict names what was not the cause."""
    doubtful: int
    """Verdicts that name no cause."""
    unexplained_frames: int
    """Over all cases."""
    wrong_figures: tuple[str, ...]
    """Cases whose figure is wrong and not marked."""

    @property
    def holds(self) -> bool:
        """Whether nothing was wrong without a word."""
        return not (self.wrong_figures or self.wrong_verdicts or self.unexplained_frames)


def tally(outcomes: Sequence[Outcome]) -> Tally:
    """Add up outcomes."""
    return Tally(
        cases=len(outcomes),
        right=sum(one.figure is Grade.RIGHT for one in outcomes),
        marked=sum(one.figure is Grade.MARKED for one in outcomes),
        wrong_verdicts=tuple(one.name for one in outcomes if one.verdict is Grade.WRONG),
        doubtful=sum(one.verdict is Grade.DOUBT for one in outcomes),
        unexplained_frames=sum(one.unexplained_frames for one in outcomes),
        wrong_figures=tuple(one.name for one in outcomes if one.figure is Grade.WRONG),
    )
