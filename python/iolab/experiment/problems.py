"""Collect everything that is wrong with an experiment file, each with its line, and name the nearest valid word."""

from collections.abc import Iterable
from difflib import get_close_matches

from iolab.errors import InputError, Problem

SHOWN = 100
"""Problems told at once; a file with more has one cause that repeats."""


class Problems:
    """The problems of one file, in the order of their lines, none twice."""

    def __init__(self, source: str) -> None:
        self.source = source
        """The file's name, as the user sees it."""
        self._found: dict[Problem, int] = {}

    def add(self, line: int, doing: str, seen: object, allowed: str, advice: str = "") -> None:
        """Note one problem; `doing` names the place in the document. What has no line is said of the first."""
        where = f"{self.source}:{line or 1}"
        self._found.setdefault(Problem(where, doing, show(seen), allowed, advice), line)

    def __bool__(self) -> bool:
        return bool(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def error(self) -> InputError:
        """Return the exception that tells them all."""
        ordered = sorted(self._found, key=lambda problem: self._found[problem])
        if len(ordered) > SHOWN:
            left = len(ordered) - SHOWN
            more = Problem(
                f"{self.source}:1",
                "reading the file",
                f"{left} more problems",
                "none",
                "mend the first ones and check again",
            )
            ordered = [*ordered[:SHOWN], more]
        return InputError(ordered)

    def stop_if_any(self) -> None:
        """Raise `InputError` when something was found."""
        if self:
            raise self.error()


def show(value: object) -> str:
    """Return a value as short text, as the user wrote it (flow style); never longer than a line."""
    text = "".join(one if one.isprintable() else ascii(one)[1:-1] for one in compact(value))
    return text if len(text) <= 80 else f"{text[:77]}..."


def compact(value: object, budget: int = 200) -> str:
    """Return a value in YAML's flow style, on one line; cut off after about `budget` characters."""
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
        return "a very long number"
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


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """Return "did you mean 'x'?" for the nearest known word, or nothing."""
    text = str(word)[:80]
    known = list(known)
    folded = {item.lower().replace("_", "-"): item for item in known}
    near = get_close_matches(text.lower().replace("_", "-"), folded, n=1, cutoff=0.6)
    return f"did you mean '{folded[near[0]]}'?" if near else ""


def listed(words: Iterable[str], most: int = 40) -> str:
    """Return words as a comma-separated list for `allowed`."""
    words = list(words)
    text = ", ".join(words[:most]) if words else "none is written"
    return f"{text}, ... ({len(words)} in all)" if len(words) > most else text
