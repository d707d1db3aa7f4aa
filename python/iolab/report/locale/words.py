"""A language: the texts of its file by key, and its sentences, filled with the parameters of statements."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from string import Formatter

from iolab.locale.phrases import CLAUSES, fill, join
from iolab.messages.statement import Statement
from iolab.units import format_bits_per_second, format_bytes, format_nanoseconds, format_ratio

Tree = Mapping[str, object]
"""A language's file as it is parsed: texts, lists of words, and tables of them."""
SAID = "said"
"""The table of what is said of statements."""
STATED = (f"{SAID}.sentences.", f"{SAID}.advice.")
"""Templates that are filled with the parameters of a statement, not with what English has in its place."""
LEAST_WHOLE_RATIO = 0.005
"""A smaller ratio would be 0 % in whole percent."""
ADVICE, NAME, SIZE = "advice", "name", "size"
"""What a template asks for instead of what a parameter is by itself: its advice, what it is called, bytes as KiB."""
_WRITTEN: Mapping[str, Callable[[float], str]] = {
    "bps": format_bits_per_second,
    "fps": lambda value: f"{value:.0f}",
    "bytes": lambda value: f"{value:.0f}",
    "ns": format_nanoseconds,
}
"""Units of parameters, and how numbers of them are written in every language."""


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
        return fill(template, lambda name, spec: self.write(name, getattr(statement, name), spec))

    def write(self, name: str, value: object, spec: str) -> str:
        """Write a parameter by its type, and the unit in its name."""
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
            return format_ratio(value, 1)  # 0 % would say that there was nothing
        if unit == "ratio":
            return f"{value * 100:{sign}{decimals or '.0'}f} %"
        if unit in _WRITTEN:
            written = _WRITTEN[unit](value)
            return self.units[unit].format(value=written) if unit in self.units else written
        return f"{value:{sign}{decimals}{'f' if decimals else ''}}"


class Words:
    """A language. Its file is read when the first text is wanted: most commands want none.

    A key is that of the file, with the tables before it: `table.mean` is `mean` of `[table]`.
    """

    def __init__(self, code: str, read: Callable[[], Tree]) -> None:
        """Make a language of a BCP 47 code from the tree that `read` returns."""
        self.code = code
        self._read = read

    @cached_property
    def tree(self) -> Tree:
        """The whole file."""
        return self._read()

    @cached_property
    def texts(self) -> Mapping[str, str]:
        """Every text, by key."""
        return {key: text for key, text in entries(self.tree) if isinstance(text, str)}

    @cached_property
    def said(self) -> Sentences:
        """What it says of each statement."""
        tables = {
            name: self.table(f"{SAID}.{name}") for name in ("units", "joined", "sentences", "advice", "names")
        }
        return Sentences(**tables)

    def text(self, key: str, /, **places: object) -> str:
        """Return a text, its places filled; without any the template itself.

        Raises:
            KeyError: no text has the key, or a place of it is not given.
        """
        template = self.texts[key]
        return template.format(**places) if places else template

    def each(self, *keys: str) -> tuple[str, ...]:
        """Return several texts that have no places, e.g. the heads of a table."""
        return tuple(self.texts[key] for key in keys)

    def listed(self, items: Iterable[str]) -> str:
        """Return items as a list."""
        return self.texts["comma"].join(items)

    def name(self, table: str, identifier: str, otherwise: str | None = None) -> str:
        """Return what a table calls an identifier; `otherwise` where it does not have it, or else the identifier."""
        return self.texts.get(f"{table}.{identifier}", identifier if otherwise is None else otherwise)

    def find(self, key: str) -> str | None:
        """Return a text; None where no text has the key."""
        return self.texts.get(key)

    def table(self, table: str) -> Mapping[str, str]:
        """Return the texts of a table, by the rest of their keys."""
        start = f"{table}."
        return {key.removeprefix(start): text for key, text in self.texts.items() if key.startswith(start)}

    def terms(self, key: str) -> frozenset[str]:
        """Return words that are looked for, not shown."""
        return self._terms[key]

    @cached_property
    def _terms(self) -> Mapping[str, frozenset[str]]:
        return {key: frozenset(words) for key, words in entries(self.tree) if isinstance(words, list)}


def entries(tree: Tree, start: str = "") -> Iterator[tuple[str, object]]:
    """Yield every key of a language with what it has: a text, or a list of words."""
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from entries(value, f"{start}{name}.")
        else:
            yield f"{start}{name}", value


def places(template: str) -> frozenset[str]:
    """Return the names in braces."""
    return frozenset(name for _, name, _, _ in Formatter().parse(template) if name)


def faults(tree: Tree, english: Tree) -> Iterator[str]:
    """Yield what makes a tree no language: keys that English lacks, no texts, unknown places."""
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
    """Return a language of a BCP 47 code, from its file as it is parsed; what it lacks is English.

    Raises:
        ValueError: it has a key or a place that English has not, or another kind of value; all are named.
    """
    if wrong := [*faults(tree, english)]:
        raise ValueError("; ".join(wrong))
    return Words(code, lambda: _over(english, tree))


def _over(english: Tree, tree: Tree) -> Tree:
    """Return English with what a language has in its place."""
    own = {
        name: _over(known, value)
        if isinstance(value, Mapping) and isinstance(known := english[name], Mapping)
        else value
        for name, value in tree.items()
    }
    return {**english, **own}
