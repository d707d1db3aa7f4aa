"""Parse a CSV file of published figures: one figure per line; all problems are reported at once. Pure.

A file has the columns measure, metric, statistic, value, unit. The optional column `over` names the factor over whose
levels the statistic was computed. A column with the name of a dimension (flow, direction, part, ...) sets that
dimension of the metric, unless the run has a factor of that name; every other column is a factor and contains labels.
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
from iolab.locale import Phrase
from iolab.results.metric import Dimensions, Quantity
from iolab.results.metric import names as dimension_names

FIXED = ("measure", "metric", "statistic", "value", "unit")
"""Required columns, none of which is a factor."""
OVER = "over"
"""Optional column: the factor over whose levels the statistic was computed, within one block."""
PART, BLOCK = "part", "block_bytes"
"""Columns that are never a factor: the phase of a disk program, and the size of one of its I/O requests [bytes]."""
NO_FACTORS = frozenset((*FIXED, OVER, PART, BLOCK))
WHOLE_NUMBERS = frozenset({"queue", "cpu", "window_ns", "block_bytes", "depth", "rate_bps", "buffer_bytes"})
"""Dimensions that are whole numbers in their unit."""
UNITS: Mapping[str, tuple[str, float]] = {
    "bit/s": ("bit/s", 1.0), "kbit/s": ("bit/s", 1e3), "Mbit/s": ("bit/s", 1e6), "Gbit/s": ("bit/s", 1e9),
    "byte/s": ("byte/s", 1.0), "MB/s": ("byte/s", 1e6), "MiB/s": ("byte/s", 2.0**20), "frame/s": ("frame/s", 1.0),
    "%": ("ratio", 1e-2), "ratio": ("ratio", 1.0), "ns": ("ns", 1.0), "us": ("ns", 1e3), "ms": ("ns", 1e6),
    "s": ("s", 1.0), "frame": ("count", 1.0),
}  # fmt: skip
"""Stored unit of metrics and conversion factor, by the unit in the file."""
RELATIVE = "% vs baseline"
"""Unit of a figure that was published only as a change relative to the baseline level."""
READING = Phrase("analysis.reading-published")


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedFigure:
    """A published figure."""

    measure: str
    """Measure name."""
    metric: Quantity
    """Metric."""
    statistic: Statistic
    """Statistic over the trials, or over the levels of `over`."""
    over: str
    """Factor over whose levels the statistic was computed; empty: over trials."""
    cell: Mapping[str, str]
    """Label by factor or dimension of the metric."""
    value: float
    """Value in `unit`."""
    unit: str | None
    """Stored unit of metrics (bit/s, frame/s, ratio, ...); None if the value is a ratio to the baseline level."""


def parse_published(text: str, source: str) -> tuple[PublishedFigure, ...]:
    """Parse the text of a file of published figures.

    Raises:
        InputError: a column is missing or a line is invalid; the error lists all problems.
    """
    reader = csv.DictReader(io.StringIO(text), strict=True)
    problems: list[Problem] = []
    figures: list[PublishedFigure] = []
    try:
        heads = reader.fieldnames = _new_columns(reader.fieldnames or [], source)
        lacking = [name for name in FIXED if name not in heads]
        if lacking:
            seen = Phrase("analysis.columns-missing", columns=lacking)
            raise InputError(
                [Problem(f"{source}:1", READING, seen, Phrase("analysis.columns-required", columns=FIXED))]
            )
        for row in reader:
            made = _figure(row, f"{source}:{reader.line_num}")
            if isinstance(made, Problem):
                problems.append(made)
            else:
                figures.append(made)
    except csv.Error as error:
        problems.append(Problem(f"{source}:{reader.line_num}", READING, str(error), "CSV"))
    if problems or not figures:
        seen, allowed = Phrase("analysis.no-line-with-figure"), Phrase("analysis.at-least-one-line")
        raise InputError(problems or [Problem(source, READING, seen, allowed)])
    return tuple(figures)


def _new_columns(heads: Sequence[str], source: str) -> list[str]:
    """Return the current names of the columns, and print a notice for each old name.

    Raises:
        InputError: an old name is no longer accepted.
    """
    found = list(heads)
    for row in aliases(Sort.CSV_COLUMN):
        if row.old not in found or row.new in found:
            continue
        if not row.accepted:
            seen, allowed = (Phrase("analysis.column", name=name) for name in (row.old, row.new))
            advice = Phrase("analysis.renamed-since", since=row.since)
            raise InputError([Problem(f"{source}:1", READING, seen, allowed, advice)])
        give_notice(row, f"{source}:1")
        found[found.index(row.old)] = row.new
    return found


def with_dimensions(figure: PublishedFigure, factors: Collection[str]) -> PublishedFigure:
    """Return a figure with dimension columns moved into its metric; columns that are factors of the run stay
    labels."""
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
    doing = Phrase("analysis.reading-figure")
    words = {name: (value or "").strip() for name, value in row.items() if name is not None}
    if None in row or any(value is None for value in row.values()):
        seen, allowed = Phrase("analysis.columns-differ"), Phrase("analysis.one-value-per-column")
        return Problem(place, doing, seen, allowed)
    try:
        value = float(words["value"])
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        return Problem(place, doing, words["value"], Phrase("analysis.number"))
    if words["unit"] not in (*UNITS, RELATIVE):
        return Problem(place, doing, words["unit"], Phrase("analysis.one-of-units", units=[*UNITS, RELATIVE]))
    if words["statistic"] not in STATISTICS:
        return Problem(place, doing, words["statistic"], ", ".join(STATISTICS))
    for name in WHOLE_NUMBERS & words.keys():
        if words[name] and not words[name].isdecimal():
            return Problem(place, doing, words[name], Phrase("analysis.whole-number-for", name=name))
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
