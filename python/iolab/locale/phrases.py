"""Text for people as data: a code and its parameters. The files of a language, one per stage, have the text."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Protocol, runtime_checkable

ENGLISH = "en"
"""The language that has all phrases; other languages fall back to it."""
HOME = Path(__file__).parent
"""Folder of the languages."""
LISTS = "lists"
"""File of a language with the separators of lists."""
COMMA, CLAUSES, AND, OR = "comma", "clauses", "and", "or"
"""Keys of the separators in the file `LISTS`."""
ONE = "-if-one"
"""Suffix of the name of a template that is used if `count` is 1, in languages in which this case needs a different
text."""


@runtime_checkable
class Sayable(Protocol):
    """An object with text in every language: a phrase, a problem, an error."""

    def say(self, language: str = ENGLISH) -> str:
        """Return the text in a language."""


class Phrase:
    """Text for people: a code, and values for the placeholders of its template.

    The code is `FILE.NAME`: the template is the text NAME of FILE.toml in the folder of a language. The file is read
    when the phrase is first shown, so unused phrases cost nothing.
    """

    __slots__ = ("code", "parameters")

    def __init__(self, code: str, /, **parameters: object) -> None:
        """Create a phrase; parameters are values, phrases, or lists of these."""
        self.code = code
        self.parameters = parameters

    def say(self, language: str = ENGLISH) -> str:
        """Return the phrase in a language; without a template, return the code and the parameters."""
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
"""Text for people: a phrase, or a value that is the same in every language."""


def say(value: object, language: str = ENGLISH) -> str:
    """Return a value as text in a language; values that are not Sayable are converted with str()."""
    if isinstance(value, ValueError) and value.args and isinstance(value.args[0], Phrase):
        value = value.args[0]
    return value.say(language) if isinstance(value, Sayable) else str(value)


def fill(template: str, write: Callable[[str, str], str]) -> str:
    """Return a template filled by `write`, which gets each placeholder's name and format specification."""
    return "".join(
        literal + (write(name, spec or "") if name else "")
        for literal, name, spec, _ in Formatter().parse(template)
    )


def join(items: Sequence[str], spec: str, joined: Mapping[str, str]) -> str:
    """Return a list as text according to the format specification: `and`, `or`, `;` for clauses, otherwise commas."""
    if spec == AND and len(items) > 1:
        return joined[AND].format(first=joined[COMMA].join(items[:-1]), last=items[-1])
    if spec == OR:
        return joined[OR].join(items)
    return joined[CLAUSES if spec == ";" else COMMA].join(filter(None, items))


@cache
def templates(language: str, file: str) -> Mapping[str, str]:
    """Return the templates of one file of a language, by name; empty if the language does not have the file.

    A line of the form `name = "text"` is parsed as JSON, which gives the same result as TOML and is much faster.
    """
    source = HOME / language / f"{file}.toml"
    if not source.is_file():
        return {}
    text = source.read_text(encoding="utf-8")
    lines = (line.partition(" = ") for line in text.splitlines() if line and not line.startswith("#"))
    try:
        return {name: _unquoted(template) for name, _, template in lines}
    except ValueError:  # the file contains lines of a different form
        import tomllib

        return tomllib.loads(text)


def _unquoted(text: str) -> str:
    """Return the content of a quoted text. Raises ValueError: the text is not quoted."""
    plain = text[1:-1].replace("\\n", "")
    if len(text) > 1 and text[0] == text[-1] == '"' and "\\" not in plain and '"' not in plain:
        return text[1:-1].replace("\\n", "\n")
    import json  # imported on demand, because most templates do not need it

    read = json.loads(text)
    if not isinstance(read, str):
        raise ValueError(text)
    return read


def languages() -> list[str]:
    """Return the BCP 47 codes of the available languages: the folders with files."""
    return sorted({file.parent.name for file in HOME.glob("*/*.toml")})
