"""Statements for programs: code and parameters, with the English sentence beside them."""

from collections.abc import Iterable, Mapping

from iolab.report.words import EN
from iolab.statements.statement import CODE, Statement
from iolab.statements.warnings import Warning


def stated(statement: Statement) -> Mapping[str, object]:
    """Return a statement as plain JSON data."""
    parameters = statement.model_dump(mode="json")
    return {"code": parameters.pop(CODE), "parameters": parameters, "text": EN.said.say(statement)}


def stated_all(statements: Iterable[Statement]) -> list[Mapping[str, object]]:
    """Return statements as plain JSON data."""
    return [stated(one) for one in statements]


def warned(warning: Warning) -> Mapping[str, object]:
    """Return a warning as plain JSON data, with what to do about it."""
    return {**stated(warning), "advice": EN.said.advise(warning)}
