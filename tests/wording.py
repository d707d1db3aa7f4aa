"""Statements in words, for tests of shown text."""

from collections.abc import Sequence

from iolab.messages.statement import Statement
from iolab.report.locale import EN


def in_words(stated: Statement | Sequence[Statement] | None) -> str:
    """Return the English text of a statement, of several as one sentence, or an empty text."""
    if stated is None:
        return ""
    return EN.said.say(stated) if isinstance(stated, Statement) else EN.said.say_all(stated)
