"""Numbers in the output of a program: by JSONPath, by a regular expression, from a column of CSV. Pure."""

import csv
import io
import re
from collections.abc import Iterable, Mapping
from functools import cache

import regex
from jsonpath import JSONPathEnvironment
from jsonpath.exceptions import JSONPathError

from iolab.experiment.commands import Figure
from iolab.statements.program_failures import (
    FigureAbsent,
    FigureAmbiguous,
    FigureOfOtherUnit,
    FigureUnread,
    SearchTooLong,
)
from iolab.trial.failed import Failed
from iolab.trial.programs.written_units import is_other, scaled
from iolab.untrusted_json import read_untrusted

SEARCH_LIMIT_S = 10.0
"""Of one regular expression in at most 4 MiB: beyond it the expression goes back again and again."""
MOST_VALUES = 1_000_000
"""Of one figure in one output."""
SHOWN = 200
"""Characters of an output that messages show."""
_BEHIND = re.compile(r"[ \t]?[^\W\d_]*")
"""What stands behind a number, and may be its unit."""
_PATHS = JSONPathEnvironment(strict=True)


def path_trouble(path: str) -> str | None:
    """Return what is wrong with a JSONPath; None: nothing."""
    try:
        _PATHS.compile(path)
    except JSONPathError as error:
        return str(error).partition("\n")[0]
    return None


def pattern_trouble(pattern: str) -> str | None:
    """Return what is wrong with a regular expression; None: nothing."""
    try:
        compiled = _compiled(pattern)
    except regex.error as error:
        return str(error)
    if "value" not in compiled.groupindex and (compiled.groups != 1 or "unit" in compiled.groupindex):
        return f"{compiled.groups} groups"
    return None


def figures_in(output: str, figures: Mapping[str, Figure]) -> dict[str, tuple[float, ...]]:
    """Return the numbers of each figure: one, or of a figure `per_line` all, in order.

    Raises:
        Failed: one is not there, is there several times, or is no number.
    """
    found: dict[str, tuple[float, ...]] = {}
    for name, figure in figures.items():
        seen = tuple(_number(name, one) for one in _values(name, figure, output))
        if not seen:
            raise Failed(FigureAbsent(figure=name, said=output[-SHOWN:]))
        if len(seen) > 1 and figure.per_line is None:
            raise Failed(FigureAmbiguous(figure=name, found=len(seen)))
        found[name] = seen
    return found


def _values(name: str, figure: Figure, output: str) -> tuple[object, ...]:
    try:
        if figure.path is not None:
            return tuple(_PATHS.compile(figure.path).findall(read_untrusted(output)))[:MOST_VALUES]
        if figure.pattern is not None:
            return _matches(name, figure.pattern, figure.unit, output)
        return tuple(_column(figure.column or "", output))
    except TimeoutError as error:
        raise Failed(SearchTooLong(figure=name, limit_ns=int(SEARCH_LIMIT_S * 1e9))) from error
    except (ValueError, csv.Error, JSONPathError) as error:
        raise Failed(FigureUnread(figure=name, seen=output[:SHOWN], said=str(error))) from error


def _matches(name: str, pattern: str, unit: str, output: str) -> tuple[object, ...]:
    compiled = _compiled(pattern)
    found = compiled.finditer(output, timeout=SEARCH_LIMIT_S)
    return tuple(
        _in_unit(name, unit, match, output) for match, _ in zip(found, range(MOST_VALUES), strict=False)
    )


def _in_unit(name: str, declared: str, match: "regex.Match[str]", output: str) -> object:
    """Return the number of a match in its figure's unit: programs write us, ms or s as the number is small or large."""
    group = "value" if "value" in match.re.groupindex else 1
    if match[group] is None:
        return None
    if "unit" in match.re.groupindex:
        written = match["unit"] or ""
        number = scaled(match[group], written, declared)
    else:
        behind = _BEHIND.match(output, match.end(group))
        written = behind[0] if behind else ""
        number = None if is_other(written, declared) else match[group]
    if number is None:
        seen = f"{match[group]} {written.strip()}"
        raise Failed(FigureOfOtherUnit(figure=name, seen=seen[:SHOWN], unit=declared))
    return number


def _column(name: str, output: str) -> Iterable[object]:
    rows = csv.DictReader(io.StringIO(output.strip("\n")), skipinitialspace=True)
    if name not in (rows.fieldnames or ()):
        raise ValueError(f"the columns are {', '.join(map(str, rows.fieldnames or ()))}")
    yield from (row[name] for row in rows)


def _number(name: str, value: object) -> float:
    """Return a value as a number: JSON's own, or a text that is one."""
    if not isinstance(value, bool) and isinstance(value, int | float | str):
        try:
            number = float(value)
        except (ValueError, OverflowError):
            number = float("nan")
        if number - number == 0:
            return number
    raise Failed(FigureUnread(figure=name, seen=str(value)[:SHOWN], said=""))


@cache
def _compiled(pattern: str) -> "regex.Pattern[str]":
    return regex.compile(pattern, regex.MULTILINE)
