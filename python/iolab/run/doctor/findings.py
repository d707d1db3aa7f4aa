"""What was found when something was looked at, and how good it is."""

from dataclasses import dataclass
from enum import StrEnum

from iolab.statements.concerns import Concern


class Grade(StrEnum):
    """How good it is."""

    GOOD = "good"
    LIMITED = "limited"
    """Some experiments cannot run, or results may be disturbed."""
    LACKING = "lacking"
    """The quickstart cannot run."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at."""

    subject: str
    """What was looked at."""
    grade: Grade
    """How good it is."""
    seen: str
    """What was seen."""
    advice: str = ""
    """What to do about it."""
    concerns: tuple[Concern, ...] = ()
    """What of it changes figures."""
