"""Statements in machine-readable form: code and parameters, with the sentence in one language."""

from collections.abc import Iterable, Mapping

from iolab.messages.statement import CODE, Statement
from iolab.messages.warnings import TrialWarning
from iolab.report.locale import EN, Words


def stated(statement: Statement, words: Words = EN) -> Mapping[str, object]:
    """Return a statement as plain JSON data."""
    parameters = statement.model_dump(mode="json")
    return {"code": parameters.pop(CODE), "parameters": parameters, "text": words.said.say(statement)}


def stated_all(statements: Iterable[Statement], words: Words = EN) -> list[Mapping[str, object]]:
    """Return statements as plain JSON data."""
    return [stated(one, words) for one in statements]


def warned(warning: TrialWarning, words: Words = EN) -> Mapping[str, object]:
    """Return a warning as plain JSON data, with its advice."""
    return {**stated(warning, words), "advice": words.said.advise(warning)}
