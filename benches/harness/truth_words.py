"""Format stored statements for the output and grading of benches."""

from collections.abc import Iterable

from iolab.messages.places import Place
from iolab.messages.statement import Statement
from iolab.report.locale import EN


def in_words(stored: Iterable[object]) -> str:
    """Return stored statements as one English sentence."""
    return EN.said.say_all([Statement.model_validate(one) for one in stored])


def named(limit: str, place: Place | None) -> str:
    """Return limit and place of a trial as the cases of benches expect them: "shaper a.eth1"."""
    return f"{limit} {EN.said.say_any(place)}"
