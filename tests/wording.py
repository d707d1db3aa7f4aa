"""Statements in words, for tests that say what a reader is shown."""

from collections.abc import Sequence

from iolab.messages.statement import Statement
from iolab.report.locale import EN


def in_words(stated: Statement | Sequence[Statement] | None) -> str:
    """Return the English of a statement, or of several as one sentence; of none nothing."""
    if stated is None:
        return ""
    return EN.said.say(stated) if isinstance(stated, Statement) else EN.said.say_all(stated)
