"""Grade figures and verdicts against a known truth, without running anything."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

NEAR_RATIO = 0.01
"""Maximum error of a right rate [ratio]."""
ONLY_BELOW = frozenset(
    {"generator-limited", "receiver-limited", "line-limited", "search-disturbed", "host-perturbed"}
)
"""Warnings that explain only a rate below the truth (a lower bound), because no stall lets a device forward more."""
PARTIAL = "search-partial"
"""Code of the warning that only bounds of the rate are known."""
QUEUE = "queue-took-up"
"""Code of the warning that a queue absorbed the excess, with the sustained rate."""
DOUBTFUL = frozenset({"unexplained"})
"""Limits that name no cause."""


class Grade(StrEnum):
    """Grade of a figure or a verdict."""

    RIGHT = "right"
    """It is true."""
    MARKED = "marked"
    """It is false, and a warning gives the right reason."""
    DOUBT = "doubt"
    """No cause was named."""
    WRONG = "WRONG"
    """It is false, without a warning."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured rate and the true rate."""

    truth: float
    """Capacity of the device [frames/s]."""
    found: float | None
    """Reported rate [frames/s]; None: nothing."""
    marks: frozenset[str]
    """Codes of its warnings."""
    lower: float | None = None
    """Lower bound [frames/s]; None: there is none."""
    upper: float | None = None
    """Upper bound [frames/s]; None: there is none."""
    sustained: float | None = None
    """Reported sustained rate [frames/s]; None: there is none."""

    @property
    def within_bounds(self) -> bool:
        """Whether the truth is between the bounds."""
        above = self.lower is None or self.lower <= self.truth * (1 + NEAR_RATIO)
        return above and (self.upper is None or self.upper >= self.truth * (1 - NEAR_RATIO))

    @property
    def error_ratio(self) -> float | None:
        """Return the relative error of the figure; None if there is none."""
        return None if self.found is None else self.found / self.truth - 1


@dataclass(frozen=True, slots=True)
class Blame:
    """A named cause."""

    limit: str
    """Code of the verdict."""
    place: str
    """Place; may be empty."""
    text: str
    """In words."""
    doubt: str = ""
    """Reason for uncertainty; empty: certain."""


def grade_figure(figure: Figure, reasons: Collection[str]) -> Grade:
    """Return the grade of a rate; `reasons` are the warnings that are right for this device.

    A warning about a lower bound is right only if the device really reaches that rate, a warning about
    partial bounds only if the bounds contain the truth, and a warning about a queue only with the sustained
    rate.
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

    Without places, nothing may be blamed. A place given as a limit (generator, host) is that limit.
    """
    named = blame.place in places or blame.limit in (places or ("none",))
    if named and all(word in blame.text for word in words):
        return Grade.RIGHT
    return Grade.DOUBT if blame.doubt or blame.limit in DOUBTFUL else Grade.WRONG


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of one case."""

    name: str
    """Name of the case."""
    figure: Grade
    """Grade of its rate, or of its counts."""
    verdict: Grade | None
    """Grade of its verdict; None: not judged."""
    unexplained_frames: int
    """Absolute number of frames that no counter accounts for."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Totals of all cases."""

    cases: int
    """Number of cases."""
    right: int
    """Number of true figures."""
    marked: int
    """Number of false figures with the right warning."""
    wrong_verdicts: tuple[str, ...]
    """Cases whose verdict names a wrong cause."""
    doubtful: int
    """Verdicts that name no cause."""
    unexplained_frames: int
    """Sum over all cases."""
    wrong_figures: tuple[str, ...]
    """Cases with a wrong figure and no warning."""

    @property
    def holds(self) -> bool:
        """Whether no figure was wrong without a warning, and no verdict was wrong."""
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
