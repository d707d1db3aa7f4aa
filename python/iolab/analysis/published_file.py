"""A file of published figures: CSV in, one figure per line out, every problem at once. Pure.

A file has the columns measure, metric, statistic, value, unit, and may have `over`, the factor over whose levels the
statistic was taken. A column with the name of a dimension (flow, direction, part, ...) says what the metric is about,
unless the run has a factor of that name; every other column is a factor and holds labels.
"""

import csv
import io
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from iolab.aliases import Sort, aliases, give_notice
from iolab.errors import InputError, Problem
from iolab.experiment.experiment import Statistic
from iolab.experiment.factors.summaries import STATISTICS
from iolab.results.metric import Dimensions, Quantity
from iolab.results.metric import names as dimension_names

FIXED = ("measure", "metric", "statistic", "value", "unit")
"""Columns that are no factor, and must be there."""
OVER = "over"
"""Column that may be there: the factor over whose levels the statistic was taken, within one block."""
PART, BLOCK = "part", "block_bytes"
"""Columns that are never a factor: the phase of a disk program, and the size of one read or write of it [bytes]."""
NO_FACTORS = frozenset((*FIXED, OVER, PART, BLOCK))
WHOLE_NUMBERS = frozenset({"queue", "cpu", "window_ns", "block_bytes", "depth", "rate_bps", "buffer_bytes"})
"""Dimensions that are whole numbers in their unit."""
UNITS: Mapping[str, tuple[str, float]] = {
    "bit/s": ("bit/s", 1.0), "kbit/s": ("bit/s", 1e3), "Mbit/s": ("bit/s", 1e6), "Gbit/s": ("bit/s", 1e9),
    "byte/s": ("byte/s", 1.0), "MB/s": ("byte/s", 1e6), "MiB/s": ("byte/s", 2.0**20), "frame/s": ("frame/s", 1.0),
    "%": ("ratio", 1e-2), "ratio": ("ratio", 1.0), "ns": ("ns", 1.0), "us": ("ns", 1e3), "ms": ("ns", 1e6),
    "s": ("s", 1.0), "frame": ("count", 1.0),
}  # fmt: skip
"""Unit as written to the unit that metrics are stored in, and its size there."""
RELATIVE = "% vs baseline"
"""Unit of a figure of which only the change against the baseline's level was published."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedFigure:
    """One figure that somebody published."""

    measure: str
    """Name of the measure."""
    metric: Quantity
    """What it is of."""
    statistic: Statistic
    """What it is of the trials behind it, or of the levels of `over`."""
    over: str
    """The factor over whose levels it was taken; empty: over trials."""
    cell: Mapping[str, str]
    """Factor, or dimension of the metric, to label."""
    value: float
    """In `unit`."""
    unit: str | None
    """As metrics are stored: bit/s, frame/s, ratio, ...; None: the value is a ratio to that of the baseline's level."""


def parse_published(text: str, source: str) -> tuple[PublishedFigure, ...]:
    """Read the text of a file of published figures.

    Raises:
        InputError: columns are missing or a line makes no sense; every problem at once.
    """
    reader = csv.DictReader(io.StringIO(text), strict=True)
    problems: list[Problem] = []
    figures: list[PublishedFigure] = []
    try:
        heads = reader.fieldnames = _new_columns(reader.fieldnames or [], source)
        lacking = [name for name in FIXED if name not in heads]
        if lacking:
            allowed = f"the columns {', '.join(FIXED)}, and a column per factor"
            seen = f"no column {', '.join(lacking)}"
            raise InputError([Problem(f"{source}:1", "reading published figures", seen, allowed)])
        for row in reader:
            made = _figure(row, f"{source}:{reader.line_num}")
            if isinstance(made, Problem):
                problems.append(made)
            else:
                figures.append(made)
    except csv.Error as error:
        problems.append(
            Problem(f"{source}:{reader.line_num}", "reading published figures", str(error), "CSV")
        )
    if problems or not figures:
        nothing = Problem(source, "reading published figures", "no line with a figure", "at least one")
        raise InputError(problems or [nothing])
    return tuple(figures)


def _new_columns(heads: Sequence[str], source: str) -> list[str]:
    """Return the names that columns have today, with a notice of each old one.

    Raises:
        InputError: an old name is no longer accepted.
    """
    found = list(heads)
    for row in aliases(Sort.CSV_COLUMN):
        if row.old not in found or row.new in found:
            continue
        if not row.accepted:
            seen, allowed = f"the column {row.old}", f"the column {row.new}"
            advice = f"it was renamed in iolab {row.since}"
            raise InputError([Problem(f"{source}:1", "reading published figures", seen, allowed, advice)])
        give_notice(row, f"{source}:1")
        found[found.index(row.old)] = row.new
    return found


def with_dimensions(figure: PublishedFigure, factors: Collection[str]) -> PublishedFigure:
    """Return a figure whose metric is about what its columns of dimensions say; those that are factors stay."""
    about = {
        name: int(label) if name in WHOLE_NUMBERS else label
        for name, label in figure.cell.items()
        if name in dimension_names() and name != "load_ratio" and name not in factors
    }
    if not about:
        return figure
    cell = {name: label for name, label in figure.cell.items() if name not in about}
    dimensions = Dimensions(**{**figure.metric.dimensions.known(), **about})  # type: ignore[arg-type] # by their names
    return replace(figure, metric=Quantity(figure.metric.name, dimensions), cell=cell)


def _figure(row: Mapping[str, str | None], place: str) -> PublishedFigure | Problem:
    doing = "reading a published figure"
    words = {name: (value or "").strip() for name, value in row.items() if name is not None}
    if None in row or any(value is None for value in row.values()):
        return Problem(place, doing, "another number of columns than the first line", "one value per column")
    try:
        value = float(words["value"])
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        return Problem(place, doing, words["value"], "a number")
    if words["unit"] not in (*UNITS, RELATIVE):
        return Problem(place, doing, words["unit"], f"a unit: {', '.join((*UNITS, RELATIVE))}")
    if words["statistic"] not in STATISTICS:
        return Problem(place, doing, words["statistic"], ", ".join(STATISTICS))
    for name in WHOLE_NUMBERS & words.keys():
        if words[name] and not words[name].isdecimal():
            return Problem(place, doing, words[name], f"a whole number as {name}, or nothing")
    block = words.get(BLOCK)
    about = Dimensions(part=words.get(PART) or None, block_bytes=int(block) if block else None)
    relative = words["unit"] == RELATIVE
    unit, size = (None, 1e-2) if relative else UNITS[words["unit"]]
    return PublishedFigure(
        measure=words["measure"],
        metric=Quantity(words["metric"], about),
        statistic=words["statistic"],
        over=words.get(OVER, ""),
        cell={name: label for name, label in words.items() if name not in NO_FACTORS and label},
        value=value * size + (1.0 if relative else 0.0),
        unit=unit,
    )
