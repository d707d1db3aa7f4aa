"""A language: the texts of its file by key. English says which keys there are and what each text may be filled with."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from string import Formatter

from iolab.report.locale.say import Sentences

Tree = Mapping[str, object]
"""A language's file as it is parsed: texts, lists of words, and tables of them."""
SAID = "said"
"""The table of what is said of statements."""
STATED = (f"{SAID}.sentences.", f"{SAID}.advice.")
"""Templates that are filled with the parameters of a statement, not with what English has in its place."""


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
