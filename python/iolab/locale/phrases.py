"""Text for people as data: a code and its parameters. The files of a language have the words, one for each stage."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Protocol, runtime_checkable

ENGLISH = "en"
"""The language that has every phrase; another shows the English one where it lacks its own."""
HOME = Path(__file__).parent
"""Where the folders of languages are."""
LISTS = "lists"
"""The file of a language that says how the items of a list are joined."""
COMMA, CLAUSES, AND, OR = "comma", "clauses", "and", "or"
"""How the items of a list are joined, as a language names it."""
ONE = "-if-one"
"""At the end of a name: the template for a `count` of 1, where a language has another one for it."""


@runtime_checkable
class Sayable(Protocol):
    """What has its words in every language: a phrase, a problem, an error."""

    def say(self, language: str = ENGLISH) -> str:
        """Return the words in a language."""


class Phrase:
    """Text for people: a code, and values for the places of its template.

    The code is `FILE.NAME`: the template is the text NAME of FILE.toml in the folder of a language. The file is read
    when the phrase is first shown, so a phrase that nobody sees costs nothing.
    """

    __slots__ = ("code", "parameters")

    def __init__(self, code: str, /, **parameters: object) -> None:
        """Make a phrase; parameters are values, other phrases, or several of them."""
        self.code = code
        self.parameters = parameters

    def say(self, language: str = ENGLISH) -> str:
        """Return the phrase in a language; one that no language has is shown as code and parameters."""
        file, _, name = self.code.partition(".")
        names = (f"{name}{ONE}", name) if self.parameters.get("count") == 1 else (name,)
        known = [templates(language, file), templates(ENGLISH, file)]
        template = next((words[one] for words in known for one in names if one in words), None)
        if template is None:
            return f"{self.code} {self.parameters}"
        return fill(template, lambda place, spec: self._write(place, spec, language))

    def _write(self, place: str, spec: str, language: str) -> str:
        value = self.parameters[place]
        if isinstance(value, tuple | list):
            joined = {**templates(ENGLISH, LISTS), **templates(language, LISTS)}
            return join([say(one, language) for one in value], spec, joined)
        return say(value, language)

    def __str__(self) -> str:
        return self.say()

    def __repr__(self) -> str:
        return f"Phrase({self.code!r}, **{self.parameters!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Phrase) and (self.code, self.parameters) == (other.code, other.parameters)

    def __hash__(self) -> int:
        return hash(self.code)


Text = str | Phrase
"""What is shown to people: a phrase, or a value that is the same in every language."""


def say(value: object, language: str = ENGLISH) -> str:
    """Return a value in a language; what has no words of its own is shown as it is."""
    return value.say(language) if isinstance(value, Sayable) else str(value)


def fill(template: str, write: Callable[[str, str], str]) -> str:
    """Return a template with its places filled by `write`, which gets the name of each and what follows its colon."""
    return "".join(
        literal + (write(name, spec or "") if name else "")
        for literal, name, spec, _ in Formatter().parse(template)
    )


def join(items: Sequence[str], spec: str, joined: Mapping[str, str]) -> str:
    """Return a list as text, as a place asks for it: `and`, `or`, `;` for clauses, or with commas."""
    if spec == AND and len(items) > 1:
        return joined[AND].format(first=joined[COMMA].join(items[:-1]), last=items[-1])
    if spec == OR:
        return joined[OR].join(items)
    return joined[CLAUSES if spec == ";" else COMMA].join(filter(None, items))


@cache
def templates(language: str, file: str) -> Mapping[str, str]:
    """Return the templates of one file of a language, by name; none where the language has no such file.

    A line of `name = "text"` reads as JSON what it reads as TOML, much sooner.
    """
    import json  # most commands show no phrase

    source = HOME / language / f"{file}.toml"
    if not source.is_file():
        return {}
    text = source.read_text(encoding="utf-8")
    lines = (line.partition(" = ") for line in text.splitlines() if line and not line.startswith("#"))
    try:
        return {name: json.loads(template) for name, _, template in lines}
    except ValueError:  # it has more than such lines
        import tomllib

        return tomllib.loads(text)


def languages() -> list[str]:
    """Return the BCP 47 codes of the available languages: the folders here that have files."""
    return sorted({file.parent.name for file in HOME.glob("*/*.toml")})
