"""Sentences of a language: its template for a statement's code, filled with the parameters. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from iolab.locale.phrases import CLAUSES, fill, join
from iolab.messages.statement import Statement
from iolab.units import format_bits_per_second, format_bytes, format_nanoseconds, format_ratio

LEAST_WHOLE_RATIO = 0.005
"""A smaller ratio would be 0 % in whole percent."""
ADVICE, NAME, SIZE = "advice", "name", "size"
"""What a template asks for instead of what a parameter is by itself: its advice, what it is called, bytes as KiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentences:
    """What a language says of each statement."""

    units: Mapping[str, str]
    """Unit at the end of a parameter's name to how a {value} is written with it."""
    joined: Mapping[str, str]
    """comma, clauses: what is between the items of a list; and: its {first} items and the {last}."""
    sentences: Mapping[str, str]
    """Code to template."""
    advice: Mapping[str, str]
    """Code to template of what to do about it; empty: nothing."""
    names: Mapping[str, str]
    """Identifier that a parameter may have to what it is called."""

    def say(self, statement: Statement) -> str:
        """Return the sentence of a statement; one that the language lacks is shown as code and parameters."""
        return self._fill(self.sentences.get(statement.code), statement)

    def say_any(self, statement: Statement | None) -> str:
        """Return the sentence of a statement; of none nothing."""
        return "" if statement is None else self.say(statement)

    def say_all(self, statements: Sequence[Statement]) -> str:
        """Return several as clauses of one sentence."""
        return self.join([self.say(one) for one in statements])

    def join(self, clauses: Sequence[str]) -> str:
        """Return clauses as one sentence."""
        return self.joined[CLAUSES].join(clauses)

    def advise(self, statement: Statement) -> str:
        """Return what to do about it; empty: nothing."""
        return self._fill(self.advice.get(statement.code, ""), statement)

    def advise_all(self, statements: Sequence[Statement]) -> str:
        """Return what to do about several; empty: nothing."""
        return self.join([advice for one in statements if (advice := self.advise(one))])

    def _fill(self, template: str | None, statement: Statement) -> str:
        if template is None:
            return f"{statement.code} {statement.parameters}"
        return fill(template, lambda name, spec: self._write(name, getattr(statement, name), spec))

    def _write(self, name: str, value: object, spec: str) -> str:
        """Write a parameter by its type, and the unit in its name."""
        if isinstance(value, Statement):
            return self.advise(value) if spec == ADVICE else self.say(value)
        if isinstance(value, tuple):
            items = [self._write(name, one, spec if spec in (ADVICE, NAME) else "") for one in value]
            if spec == ADVICE:
                return self.join(list(filter(None, dict.fromkeys(items))))
            return join(items, spec, self.joined)
        if isinstance(value, int | float):
            return self._write_number(name, value, spec)
        return self.names.get(str(value), str(value)) if spec == NAME else str(value)

    def _write_number(self, name: str, value: float, spec: str) -> str:
        if spec == SIZE:
            return format_bytes(value)
        unit = name.rpartition("_")[2]
        sign, decimals = ("+", spec[:-1]) if spec.endswith("+") else ("", spec)
        if unit == "ratio" and not spec and 0 < abs(value) < LEAST_WHOLE_RATIO:
            return format_ratio(value, 1)  # 0 % would say that there was nothing
        if unit == "ratio":
            return f"{value * 100:{sign}{decimals or '.0'}f} %"
        if unit in _WRITTEN:
            written = _WRITTEN[unit](value)
            return self.units[unit].format(value=written) if unit in self.units else written
        return f"{value:{sign}{decimals}{'f' if decimals else ''}}"


_WRITTEN: Mapping[str, Callable[[float], str]] = {
    "bps": format_bits_per_second,
    "fps": lambda value: f"{value:.0f}",
    "bytes": lambda value: f"{value:.0f}",
    "ns": format_nanoseconds,
}
"""Units of parameters, and how numbers of them are written in every language."""
