"""Collect all problems of an experiment file, each with its line, and suggest the closest valid word."""

import re
from collections.abc import Iterable
from contextlib import suppress
from difflib import get_close_matches

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.tokens import ScalarToken

from iolab.errors import InputError, Problem
from iolab.locale import ENGLISH, Phrase, Text

SHOWN = 100
"""Maximum number of reported problems; larger numbers of problems usually have a single cause."""


class Problems:
    """The problems of one file, ordered by line, without duplicates."""

    def __init__(self, source: str) -> None:
        self.source = source
        """The file name as the user knows it."""
        self._found: dict[Problem, int] = {}

    def add(self, line: int, doing: Text, seen: object, allowed: Text, advice: Text = "") -> None:
        """Add a problem; `doing` names the place in the document. A problem without a line gets the first line."""
        where = f"{self.source}:{line or 1}"
        shown = Line(seen.code, **seen.parameters) if isinstance(seen, Phrase) else show(seen)
        self._found.setdefault(Problem(where, doing, shown, allowed, advice), line)

    def __bool__(self) -> bool:
        return bool(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def error(self) -> InputError:
        """Return the exception that lists all problems."""
        ordered = sorted(self._found, key=lambda problem: self._found[problem])
        if len(ordered) > SHOWN:
            left = len(ordered) - SHOWN
            more = Problem(
                f"{self.source}:1",
                Phrase("check.reading-file"),
                Phrase("check.more-problems", count=left),
                "none",
                Phrase("check.fix-listed-problems"),
            )
            ordered = [*ordered[:SHOWN], more]
        return InputError(ordered)

    def stop_if_any(self) -> None:
        """Raise `InputError` if there are problems."""
        if self:
            raise self.error()


class Line(Phrase):
    """A phrase that is truncated to the length of a line."""

    __slots__ = ()

    def say(self, language: str = ENGLISH) -> str:
        """Return the text in a language."""
        return show(super().say(language))


def show(value: object) -> str:
    """Return a value as short text in flow style, as the user wrote it, truncated to one line."""
    text = "".join(one if one.isprintable() else ascii(one)[1:-1] for one in compact(value))
    return text if len(text) <= 80 else f"{text[:77]}..."


def compact(value: object, budget: int = 200) -> str:
    """Return a value in YAML's flow style, on one line, truncated to about `budget` characters."""
    if isinstance(value, dict):
        return (
            "{"
            + _joined((f"{key}: {compact(item, budget // 2)}" for key, item in value.items()), budget)
            + "}"
        )
    if isinstance(value, list | tuple):
        return "[" + _joined((compact(item, budget // 2) for item in value), budget) + "]"
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() > 1000:
        return str(Phrase("check.very-long-number"))
    text = str(value)
    return text if len(text) <= budget else f"{text[:budget]}..."


def _joined(parts: Iterable[str], budget: int) -> str:
    taken: list[str] = []
    for part in parts:
        if budget <= 0:
            taken.append("...")
            break
        taken.append(part)
        budget -= len(part) + 2
    return ", ".join(taken)


def did_you_mean(word: object, known: Iterable[str]) -> Text:
    """Return "did you mean 'x'?" for the closest known word, or an empty text."""
    text = str(word)[:80]
    known = list(known)
    folded = {item.lower().replace("_", "-"): item for item in known}
    near = get_close_matches(text.lower().replace("_", "-"), folded, n=1, cutoff=0.6)
    return Phrase("check.did-you-mean", word=folded[near[0]]) if near else ""


def listed(words: Iterable[str], most: int = 40) -> Text:
    """Return words as a comma-separated list for `allowed`."""
    words = list(words)
    text = Phrase("errors.listed", items=words[:most]) if words else Phrase("check.none-written")
    return Phrase("check.list-cut-off", shown=text, count=len(words)) if len(words) > most else text


RESERVED = frozenset({"machines", "links", "volumes", "measure", "factors", "lab", "value", "none", "all"})
"""Reserved words, which cannot name a machine, link, volume or measure."""

PORT_ALLOWED = Phrase("check.end-of-a-link-by-name")

_SHORT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,14}", re.ASCII)

_LONG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}", re.ASCII)

_PORT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,14}", re.ASCII)


def is_port(name: str) -> bool:
    """Whether the kernel accepts a name as an interface name (IFNAMSIZ: 15 characters)."""
    return _PORT.fullmatch(name) is not None


def name_problem(name: str, *, short: bool) -> Text:
    """Return the rule that a name violates, or an empty text; `short` is set if interface names contain the name."""
    if not (_SHORT if short else _LONG).fullmatch(name):
        if short:
            return Phrase("check.interface-name-of-at-most", most=15)
        return Phrase("check.name-of-at-most", most=40)
    return Phrase("check.name-other-than", names=sorted(RESERVED)) if name in RESERVED else ""


def note_syntax(error: YAMLError, text: str, problems: Problems) -> None:
    """Report the YAML syntax error of a text at its line, with advice."""
    if not isinstance(error, MarkedYAMLError):
        problems.add(
            1, Phrase("check.reading-yaml"), str(error).splitlines()[0][:200], Phrase("check.allowed-yaml")
        )
        return
    said = " ".join(str(part) for part in (error.context, error.problem) if part)
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else 1
    opened = _quote_opened(error, text, line)
    line = opened or line
    rows = text.splitlines()
    row = rows[line - 1] if line <= len(rows) else ""
    seen = row.strip()[:60] or Phrase("check.end-of-file")
    if opened:
        advice: Text = Phrase("check.quote-not-closed")
    else:
        advice = Phrase("check.indent-with-spaces-not-tabs") if "\t" in row else _syntax_advice(said)
    problems.add(
        line,
        Phrase("check.reading-yaml-because", reason=said[:160]),
        seen,
        Phrase("check.allowed-yaml"),
        advice,
    )


def _quote_opened(error: MarkedYAMLError, text: str, line: int) -> int | None:
    """Return the line of an unclosed quote before `line` if this quote causes the syntax error."""
    ended = "unexpected end of stream" in str(error.problem) or "document separator" in str(error.problem)
    if "quoted scalar" in str(error.context) and ended and error.context_mark:
        return int(error.context_mark.line) + 1
    # The next opening quote may have closed the unclosed one.
    reader = YAML(typ="safe", pure=True)
    with suppress(YAMLError):
        for token in reader.scan(text):
            last = token.end_mark.line + 1
            if last > line:
                break
            if isinstance(token, ScalarToken) and token.style and token.style in "'\"" and last == line:
                first = int(token.start_mark.line) + 1
                if first < last:
                    return first
    return None


def _syntax_advice(said: str) -> Text:
    if "mapping values are not allowed" in said:
        return Phrase("check.quote-colon-check-indentation")
    if "could not find expected ':'" in said or "expected ',' or" in said:
        return Phrase("check.bracket-or-comma-missing")
    if "alias" in said or "anchor" in said:
        return Phrase("check.quote-special-first-character")
    return Phrase("check.check-quotes-and-brackets")
