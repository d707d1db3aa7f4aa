"""List every statement, for tests that check each."""

from iolab.messages.codes import MODULE_OF
from iolab.messages.statement import Statement, statements_of


def codes(kind: type[Statement]) -> dict[str, type[Statement]]:
    """Return the statements of a kind, by code."""
    every = {code: statements_of(module)[code] for code, module in MODULE_OF.items()}
    return {code: found for code, found in every.items() if issubclass(found, kind)}
