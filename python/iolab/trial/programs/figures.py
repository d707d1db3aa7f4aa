"""Extract values from a program's output: by JSONPath, regular expression, or CSV column. Pure.

Units that a program prints after its numbers are converted to the declared unit of the figure.
"""

import csv
import io
import re
from collections.abc import Iterable, Mapping
from decimal import Context, Decimal, InvalidOperation
from functools import cache

import regex
from jsonpath import JSONPathEnvironment
from jsonpath.exceptions import JSONPathError

from iolab.experiment.model.measures import Figure
from iolab.locale import Phrase, Text
from iolab.messages.programs import (
    FigureAbsent,
    FigureAbsentErrors,
    FigureAmbiguous,
    FigureCut,
    FigureOfOtherUnit,
    FigureUnread,
    SearchTooLong,
)
from iolab.trial.measurement import Failed
from iolab.untrusted_json import read_untrusted

SEARCH_LIMIT_S = 10.0
"""Time limit for one regular expression on at most 4 MiB [s]; longer searches are caused by backtracking."""
MOST_VALUES = 1_000_000
"""Maximum number of values of one figure in the output of one program."""
SHOWN = 200
"""Maximum number of output characters in messages."""
_BEHIND = re.compile(r"[ \t]?(?:%|[^\W\d_]+(?:/[^\W\d_]+)?)?")
"""Pattern of the text after a number that may be the number's unit."""
_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
"""Machine-readable number: ASCII digits, one decimal point, no separators."""
_APART = "['\u2019\u00a0\u202f\u2009]"
"""Thousands separators other than the comma."""
_GOES_ON = re.compile(rf"\d|[._]\d|{_APART}\d{{3}}(?!\d)|[eE][-+]?\d|[xX][0-9a-fA-F]")
"""Pattern of the text after a match group if the group ends inside a number."""
_BEGAN = re.compile(
    rf"\d[._]?\Z|\d{_APART}\Z|\d[eE][-+]?\Z"
    r"|(?:\A|[\s=:(\[{,;\"'|<>~])(?:[-\u2212\u2013]\.?|\.)\Z"
)
"""Text before a match group that shows that the group starts inside a number or after its sign; a minus after a letter
or digit is a dash."""
_LAST_THOUSANDS = re.compile(r"0\d\d(?!\d)")
"""Three digits with a leading 0 after a blank, as in 1 000, which cannot start a number; 1 234 may be two columns."""
_DOTTED = re.compile(r"[0-9.]{0,64}\Z"), re.compile(r"[0-9.]{0,64}")
_PARTS = re.compile(r"\.?[0-9]+(?:\.[0-9]+){2,}\.?")
"""Digits with two or more dots: a version or an address, whose parts are separate numbers."""
_THOUSANDS = re.compile(r"[0-9]{1,3}(?:\.[0-9]{3})+")
"""Digits in groups of three, as in locales with dots as thousands separators."""
_AROUND = re.compile(r"\S{0,16}\Z"), re.compile(r"\S{0,16}")
"""Patterns of the text before and after a number; messages show the number with this text."""
_CONTEXT = 256
"""Number of characters around a match for deciding whether its pattern requires a comma."""
_PATHS = JSONPathEnvironment(strict=True)
_TIMES = {
    spelling: Decimal(one)
    for spellings, one in (
        (("ns", "nsec", "nanosecond", "nanoseconds"), "1e-9"),
        (("us", "µs", "μs", "usec", "microsecond", "microseconds"), "1e-6"),
        (("ms", "msec", "millisecond", "milliseconds"), "1e-3"),
        (("s", "sec", "secs", "second", "seconds"), "1"), (("m", "min", "mins", "minute", "minutes"), "60"),
        (("h", "hour", "hours"), "3600"),
    )
    for spelling in spellings
}  # fmt: skip
_BIT_RATES = {
    f"{prefix}{spelling}": Decimal(1000) ** power
    for power, prefixes in enumerate(("", "kK", "M", "G", "T"))
    for prefix in prefixes or ("",)
    for spelling in ("bit/s", "bits/s", "bits/sec", "bps")
}
_COUNTS = {"": Decimal(1), "count": Decimal(1), "1/s": Decimal(1)} | {
    prefix: Decimal(1000) ** power
    for power, prefixes in enumerate(("kK", "M", "G", "T"), 1)
    for prefix in prefixes
}
_EVENT_RATES = {"1/s": Decimal(1)} | {
    f"{prefix}{spelling}": Decimal(1000) ** power
    for power, prefixes in enumerate(("kK", "M", "G"), 1)
    for prefix in prefixes
    for spelling in ("ops", "op/s", "ops/s", "ops/sec", "iops", "IOPS", "req/s", "pps", "qps", "tps", "rps")
}
"""Events per second with a letter for thousands; without a letter the words are not a unit: 5 ops may be a count."""
_SHORT_BITS = {
    f"{prefix}b{per}": prefix for prefix in ("", "k", "K", "M", "G", "T") for per in ("/s", "/sec")
}
"""Spellings that mean bits per second in some programs and bytes in others; they are never converted."""
_SHARES = {"ratio": Decimal(1), "%": Decimal("0.01")}
_FAMILIES = (_TIMES, _BIT_RATES, _SHARES, _COUNTS, _EVENT_RATES)
"""Units that can be converted; bytes are excluded: MB is 10^6 bytes in one program, and 2^20 bytes in another."""
_BYTES = {
    f"{prefix}{spelling}{per}": f"{prefix.upper()}B{per and '/s'}"
    for prefix in ("", "k", "K", "M", "G", "T", "Ki", "Mi", "Gi", "Ti")
    for spelling in ("B", "byte", "bytes", "Byte", "Bytes")
    for per in ("", "/s", "/sec", "ps")
}
"""Standard spelling for each way to write bytes and bytes per second."""
_DISTINCT: tuple[Mapping[str, object], ...] = (_TIMES, _BIT_RATES, _SHARES, _BYTES, _EVENT_RATES, _SHORT_BITS)
"""Unit families that are recognised after a number; a count has no unit, or a letter for thousands."""
_ALSO_WORDS = frozenset({"m", "h"})
"""Time units that are ordinary words more often than units."""
_EXACT = Context(prec=100)


def path_trouble(path: str) -> str | None:
    """Return the error in a JSONPath; None if it is valid."""
    try:
        _PATHS.compile(path)
    except JSONPathError as error:
        return str(error).partition("\n")[0]
    return None


def pattern_trouble(pattern: str) -> Text | None:
    """Return the error in a regular expression; None if it is valid."""
    try:
        compiled = _compiled(pattern)
    except regex.error as error:
        return str(error)
    if "value" not in compiled.groupindex and (compiled.groups != 1 or "unit" in compiled.groupindex):
        return Phrase("trial.count-of-groups", count=compiled.groups)
    return None


def figures_in(output: str, figures: Mapping[str, Figure], errors: str = "") -> dict[str, tuple[float, ...]]:
    """Return the values of each figure: a single value, or all values in order for a `per_line` figure.

    `errors` is the program's standard error, whose end is shown if a figure is missing.

    Raises:
        Failed: a figure is missing, occurs several times, or is not a number.
    """
    found: dict[str, tuple[float, ...]] = {}
    for name, figure in figures.items():
        read = tuple(_number(name, one) for one in _values(name, figure, output))
        if not read:
            raise Failed(_absent(name, output, errors))
        if len(read) > 1 and figure.per_line is None:
            raise Failed(FigureAmbiguous(figure=name, found=len(read)))
        found[name] = read
    return found


def _absent(name: str, output: str, errors: str) -> FigureAbsent | FigureAbsentErrors:
    end = output[-SHOWN:]
    if not errors.strip():
        return FigureAbsent(figure=name, said=end)
    return FigureAbsentErrors(figure=name, said=end, errors=errors.strip()[-SHOWN:])


def _values(name: str, figure: Figure, output: str) -> tuple[object, ...]:
    try:
        if figure.path is not None:
            document = read_untrusted(output, unique_keys=True)
            return tuple(_PATHS.compile(figure.path).findall(document))[:MOST_VALUES]
        if figure.pattern is not None:
            return _matches(name, figure.pattern, figure.unit, output)
        return tuple(_column(figure.column or "", output))
    except TimeoutError as error:
        raise Failed(SearchTooLong(figure=name, limit_ns=int(SEARCH_LIMIT_S * 1e9))) from error
    except (ValueError, csv.Error, JSONPathError) as error:
        raise Failed(
            FigureUnread(code="output-malformed", figure=name, seen=output[:SHOWN], said=str(error))
        ) from error


def _matches(name: str, pattern: str, unit: str, output: str) -> tuple[object, ...]:
    numbers: list[object] = []
    ended = 0
    for match in _compiled(pattern).finditer(output, timeout=SEARCH_LIMIT_S):
        if match[_group(match)] is not None and _is_cut(match, output, ended):
            raise Failed(_cut(name, match, output))
        numbers.append(_in_unit(name, unit, match, output))
        ended = match.end()
        if len(numbers) == MOST_VALUES:
            break
    return tuple(numbers)


def _cut(name: str, match: "regex.Match[str]", output: str) -> FigureCut:
    before, after = _AROUND
    begin, end = match.span(_group(match))
    ahead, behind = before.search(output, max(0, begin - 16), begin), after.match(output, end)
    part = output[begin:end]
    whole = f"{ahead[0] if ahead else ''}{part}{behind[0] if behind else ''}"
    return FigureCut(figure=name, seen=part[:SHOWN], whole=whole[:SHOWN])


def _in_unit(name: str, declared: str, match: "regex.Match[str]", output: str) -> object:
    """Return the number in a match, converted to the unit of the figure; programs print us, ms or s depending on the
    size."""
    group = _group(match)
    if match[group] is None:
        return None
    if not _NUMBER.fullmatch(match[group].strip()):
        return match[group]
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


def _group(match: "regex.Match[str]") -> str | int:
    return "value" if "value" in match.re.groupindex else 1


def _is_cut(match: "regex.Match[str]", output: str, ended: int) -> bool:
    """Whether the group of a match is only a part of a longer number; the previous match ended at `ended`.

    A comma between two digits counts as part of a number, unless the pattern requires a comma there or the previous
    match contains the comma: it then separates columns.
    """
    begin, end = match.span(_group(match))
    text = match[_group(match)]
    if _is_part(output, begin, end):
        return False
    if text[-1:].isdigit() or text[-1:] == ".":
        after = _GOES_ON.match(output, end)
        if after is not None and (after[0][0] not in "xX" or text == "0"):
            return True
        if (
            output[end : end + 1] == ","
            and output[end + 1 : end + 2].isdigit()
            and not _asks(match, output, end)
        ):
            return True
    if not (text[:1].isdigit() or text[:1] == "."):
        return False
    before = _BEGAN.search(output, max(0, begin - 4), begin)
    if before is not None:
        return not re.match(_APART, output[begin - 1]) or text[:3].isdigit()
    if _LAST_THOUSANDS.match(text) and re.search(r"\d \Z", output[max(0, begin - 2) : begin]):
        return True
    comma = begin > ended and output[begin - 1] == "," and output[max(0, begin - 2) : begin - 1].isdigit()
    return comma and not _asks(match, output, begin - 1)


def _asks(match: "regex.Match[str]", output: str, at: int) -> bool:
    """Whether the pattern requires a character: if it is replaced, the pattern no longer matches the same number."""
    first = max(0, min(match.start(), at) - _CONTEXT)
    last = max(match.end(), at + 1) + _CONTEXT
    other = f"{output[first:at]}x{output[at + 1 : last]}"
    again = match.re.match(other, match.start() - first, timeout=SEARCH_LIMIT_S)
    group = _group(match)
    return again is None or again.span(group) != tuple(one - first for one in match.span(group))


def _column(name: str, output: str) -> Iterable[object]:
    rows = csv.DictReader(io.StringIO(output.strip("\n")), skipinitialspace=True)
    if name not in (rows.fieldnames or ()):
        raise ValueError(
            Phrase("trial.csv-column-absent", name=name, columns=[*map(str, rows.fieldnames or ())])
        )
    if (rows.fieldnames or []).count(name) > 1:
        raise ValueError(Phrase("trial.csv-column-twice", name=name))
    for row in rows:
        if None in row:
            raise ValueError(Phrase("trial.csv-line-too-long", line=rows.line_num))
        yield row[name]


def _number(name: str, value: object) -> float:
    """Return a value as a number: a JSON number, or text that is a number."""
    number = float("nan")
    match value:
        case bool():
            pass
        case str() if not _NUMBER.fullmatch(value.strip()):
            pass
        case int() | float() | str():
            number = float(value)
        case _:
            pass
    if number - number == 0:
        return number
    raise Failed(FigureUnread(code="figure-unread", figure=name, seen=str(value)[:SHOWN], said=""))


@cache
def _compiled(pattern: str) -> "regex.Pattern[str]":
    return regex.compile(pattern, regex.MULTILINE)


def _is_part(output: str, begin: int, end: int) -> bool:
    """Whether a group is a complete part of a version or an address, such as 12 in 6.12.95, or 1 in 198.18.0.1."""
    before, after = _DOTTED
    ahead, behind = before.search(output, max(0, begin - 64), begin), after.match(output, end)
    left, right = ahead[0] if ahead else "", behind[0] if behind else ""
    whole = (left + output[begin:end] + right).strip(".")
    ends = left[-1:] in ("", ".") and right[:1] in ("", ".")
    return ends and _PARTS.fullmatch(whole) is not None and _THOUSANDS.fullmatch(whole) is None


def scaled(number: str, written: str, declared: str) -> str | None:
    """Convert a number exactly from its printed unit to the declared one; None if the units are not convertible."""
    if written == declared:
        return number
    for family in _FAMILIES:
        if written in family and declared in family:
            try:
                return str(_EXACT.divide(Decimal(number) * family[written], family[declared]))
            except InvalidOperation:
                return None
    return None


def is_other(behind: str, declared: str) -> bool:
    """Whether the text after a number is a unit other than the declared one.

    A letter for thousands, or a unit of a different family (bytes after a count), must follow without a blank or have
    several letters: in "3 k" and "3 s" it may be a word. Unknown declared units are not checked.
    """
    word = behind.lstrip(" \t")
    attached = word == behind
    if not word or word == declared:
        return False
    if attached and word in _COUNTS:
        return not declared.startswith(word)
    family = next((one for one in _DISTINCT if word in one and word not in _ALSO_WORDS), None)
    if family is None:
        return False
    if declared in family:
        return family[declared] != family[word]
    known = declared in _COUNTS or any(declared in one for one in _DISTINCT)
    return known and (attached or len(word) > 1 or word == "%")
