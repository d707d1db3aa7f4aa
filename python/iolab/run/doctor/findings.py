"""What was found when something was looked at, and how good it is."""

from dataclasses import dataclass
from enum import StrEnum

from iolab.messages.checks import Examined
from iolab.messages.host_issues import HostIssue


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
    seen: tuple[Examined | HostIssue, ...]
    """What was seen, and what of it changes figures."""


def good(subject: str, *seen: Examined) -> Finding:
    """Return that all is well."""
    return Finding(subject, Grade.GOOD, seen)


def limited(subject: str, *seen: Examined) -> Finding:
    """Return that some experiments cannot run, or may be disturbed."""
    return Finding(subject, Grade.LIMITED, seen)


def lacking(subject: str, *seen: Examined) -> Finding:
    """Return that hardly anything can run."""
    return Finding(subject, Grade.LACKING, seen)
