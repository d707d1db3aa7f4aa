"""What was found when something was looked at, and how good it is."""

from dataclasses import asdict, dataclass
from enum import StrEnum


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

    def as_json(self) -> dict[str, str]:
        """Return it for `doctor --json`."""
        return {name: str(value) for name, value in asdict(self).items()}
