"""The text of a language: texts by key, and sentences with the parameters of statements."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from string import Formatter

from iolab.locale.phrases import CLAUSES, fill, join
from iolab.messages.statement import Statement
from iolab.units import format_bits_per_second, format_bytes, format_nanoseconds, format_ratio

Tree = Mapping[str, object]
"""A parsed language file: texts, lists of words, and tables of them."""
SAID = "said"
"""Name of the table with the sentences for statements."""
STATED = (f"{SAID}.sentences.", f"{SAID}.advice.")
"""Prefixes of templates that are filled with a statement's parameters, so their placeholders may differ from the
English ones."""
LEAST_WHOLE_RATIO = 0.005
"""Minimum ratio that is written in whole percent; a smaller ratio would be written as 0 %."""
ADVICE, NAME, SIZE = "advice", "name", "size"
"""Format specifications that request a different form of a parameter: its advice, its name, or bytes as KiB."""
_WRITTEN: Mapping[str, Callable[[float], str]] = {
    "bps": format_bits_per_second,
    "fps": lambda value: f"{value:.0f}",
    "bytes": lambda value: f"{value:.0f}",
    "ns": format_nanoseconds,
}
"""Functions that write numbers with a unit in every language, by the unit of the parameter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentences:
    """The sentences of a language for statements."""

    units: Mapping[str, str]
    """Template that adds the unit to a {value}, by the unit suffix of the parameter's name."""
    joined: Mapping[str, str]
    """Separators of lists (comma, clauses), and the template `and` with the {first} items and the {last} item."""
    sentences: Mapping[str, str]
    """Sentence template of each code."""
    advice: Mapping[str, str]
    """Advice template of each code; empty: no advice."""
    names: Mapping[str, str]
    """Display name of each identifier in a parameter."""

    def say(self, statement: Statement) -> str:
        """Return the sentence of a statement, or its code and parameters if the language has no sentence for it."""
        return self._fill(self.sentences.get(statement.code), statement)

    def say_any(self, statement: Statement | None) -> str:
        """Return the sentence of a statement; empty for None."""
        return "" if statement is None else self.say(statement)

    def say_all(self, statements: Sequence[Statement]) -> str:
        """Return the sentences of several statements, joined as clauses."""
        return self.join([self.say(one) for one in statements])

    def join(self, clauses: Sequence[str]) -> str:
        """Return clauses as one sentence."""
        return self.joined[CLAUSES].join(clauses)

    def advise(self, statement: Statement) -> str:
        """Return the advice for a statement; empty: no advice."""
        return self._fill(self.advice.get(statement.code, ""), statement)

    def advise_all(self, statements: Sequence[Statement]) -> str:
        """Return the advice for several statements; empty: no advice."""
        return self.join([advice for one in statements if (advice := self.advise(one))])

    def _fill(self, template: str | None, statement: Statement) -> str:
        if template is None:
            return f"{statement.code} {statement.parameters}"
        return fill(template, lambda name, spec: self.write(name, getattr(statement, name), spec))

    def write(self, name: str, value: object, spec: str) -> str:
        """Return a parameter as text, according to its type and the unit in its name."""
        if isinstance(value, Statement):
            return self.advise(value) if spec == ADVICE else self.say(value)
        if isinstance(value, tuple):
            items = [self.write(name, one, spec if spec in (ADVICE, NAME) else "") for one in value]
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
            return format_ratio(value, 1)  # 0 % would look like zero
        if unit == "ratio":
            return f"{value * 100:{sign}{decimals or '.0'}f} %"
        if unit in _WRITTEN:
            written = _WRITTEN[unit](value)
            return self.units[unit].format(value=written) if unit in self.units else written
        return f"{value:{sign}{decimals}{'f' if decimals else ''}}"


class Words:
    """A language; its file is read on first use, because most commands need no report text.

    A key consists of the table names and the key in the file: `table.mean` is `mean` in `[table]`.
    """

    def __init__(self, code: str, read: Callable[[], Tree]) -> None:
        """Create a language from its BCP 47 code and a function that returns its tree."""
        self.code = code
        self._read = read

    @cached_property
    def tree(self) -> Tree:
        """Content of the language file."""
        return self._read()

    @cached_property
    def texts(self) -> Mapping[str, str]:
        """All texts of the language, by key."""
        return {key: text for key, text in entries(self.tree) if isinstance(text, str)}

    @cached_property
    def said(self) -> Sentences:
        """The sentences for statements."""
        tables = {
            name: self.table(f"{SAID}.{name}") for name in ("units", "joined", "sentences", "advice", "names")
        }
        return Sentences(**tables)

    def text(self, key: str, /, **places: object) -> str:
        """Return a text with its placeholders filled; without arguments, return the template.

        Raises:
            KeyError: no text has the key, or a placeholder has no value.
        """
        template = self.texts[key]
        return template.format(**places) if places else template

    def each(self, *keys: str) -> tuple[str, ...]:
        """Return several texts without placeholders, for example column titles."""
        return tuple(self.texts[key] for key in keys)

    def listed(self, items: Iterable[str]) -> str:
        """Return items as a list."""
        return self.texts["comma"].join(items)

    def name(self, table: str, identifier: str, otherwise: str | None = None) -> str:
        """Return the display name of an identifier in a table; if there is none, `otherwise` or the identifier."""
        return self.texts.get(f"{table}.{identifier}", identifier if otherwise is None else otherwise)

    def find(self, key: str) -> str | None:
        """Return a text; None if no text has the key."""
        return self.texts.get(key)

    def table(self, table: str) -> Mapping[str, str]:
        """Return the texts in a table, by their keys without the table name."""
        start = f"{table}."
        return {key.removeprefix(start): text for key, text in self.texts.items() if key.startswith(start)}

    def terms(self, key: str) -> frozenset[str]:
        """Return a list of words that are compared with other text and never shown."""
        return self._terms[key]

    @cached_property
    def _terms(self) -> Mapping[str, frozenset[str]]:
        return {key: frozenset(words) for key, words in entries(self.tree) if isinstance(words, list)}


def entries(tree: Tree, start: str = "") -> Iterator[tuple[str, object]]:
    """Yield every key of a language with its value: a text, or a list of words."""
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from entries(value, f"{start}{name}.")
        else:
            yield f"{start}{name}", value


def places(template: str) -> frozenset[str]:
    """Return the placeholder names in a template."""
    return frozenset(name for _, name, _, _ in Formatter().parse(template) if name)


def faults(tree: Tree, english: Tree) -> Iterator[str]:
    """Yield the errors in a tree: keys that the English tree does not have, values of the wrong type, unknown
    placeholders."""
    wanted = dict(entries(english))
    for key, value in entries(tree):
        known = wanted.get(key)
        if known is None:
            yield f"{key}: unknown"
        elif type(value) is not type(known):
            yield f"{key}: {value!r} is no {'text' if isinstance(known, str) else 'list of words'}"
        elif isinstance(value, str) and isinstance(known, str) and not key.startswith(STATED):
            yield from _wrong_places(key, value, places(known))


def _wrong_places(key: str, template: str, known: frozenset[str]) -> Iterator[str]:
    try:
        unknown = places(template) - known
    except ValueError as error:
        yield f"{key}: {error}"
        return
    if unknown:
        listed = ", ".join(f"{{{name}}}" for name in sorted(known)) or "none"
        yield f"{key}: {{{'}, {'.join(sorted(unknown))}}} cannot be filled; places: {listed}"


def read_words(code: str, tree: Tree, english: Tree) -> Words:
    """Return the language with a BCP 47 code from its parsed file; missing texts are in English.

    Raises:
        ValueError: the file has keys or placeholders that the English file does not have, or values of the wrong type;
            the error lists all of them.
    """
    if wrong := [*faults(tree, english)]:
        raise ValueError("; ".join(wrong))
    return Words(code, lambda: _over(english, tree))


def _over(english: Tree, tree: Tree) -> Tree:
    """Return the English tree with the language's values in place of the English ones."""
    own = {
        name: _over(known, value)
        if isinstance(value, Mapping) and isinstance(known := english[name], Mapping)
        else value
        for name, value in tree.items()
    }
    return {**english, **own}
