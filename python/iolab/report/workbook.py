"""A workbook (Office Open XML, .xlsx): a sheet per table, numeric cells, units in column titles.

XlsxWriter writes the file. Texts are written as texts, so that none becomes a formula or a link.
"""

import csv
import io
import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import get_args

import xlsxwriter
from xlsxwriter.format import Format
from xlsxwriter.workbook import Workbook
from xlsxwriter.worksheet import Worksheet

from iolab.analysis.types import Analysis, Estimate
from iolab.report import numbers, sentences, spreadsheet, tables
from iolab.report.locale import EN, Words
from iolab.report.names import Names, names_of
from iolab.report.selection import Shown, leading
from iolab.results.metric import Quantity
from iolab.store.records import StoredRun

MOST_ROWS = 100_000
"""Maximum number of rows in a sheet; the format allows 1 048 576 rows, and some programs fewer."""
LONGEST_NAME = 31
"""Maximum length of a sheet name (Excel's limit)."""
FORBIDDEN = str.maketrans(dict.fromkeys("[]:*?/\\'", " "))
WIDTHS = (8, 48)
"""Minimum and maximum column width [characters]."""

Cell = str | float | None
Row = Sequence[Cell]


def workbook(run: StoredRun, analysis: Analysis, version: str, words: Words = EN) -> bytes:
    """Return the workbook of a run: a summary, a sheet per measure and figure, then all rows of the CSV files."""
    named, out = names_of(run.plan, words), io.BytesIO()
    book = xlsxwriter.Workbook(
        out, {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False}
    )
    # No creation time is stored, so that the same run gives the same bytes.
    book.set_properties({"title": run.plan.title, "comments": f"iolab {version}", "created": EPOCH})
    head = book.add_format({"bold": True, "text_wrap": True, "valign": "top"})
    sheets = _Sheets(book, head)
    sheets.add(
        words.text("page.summary"),
        (words.text("page.summary"),),
        [[line] for line in _summary(run, analysis, named)],
    )
    for shown in leading(analysis, run.plan.measures, MOST_ROWS):
        for quantity in _quantities(shown, analysis):
            sheets.add(*_figures(shown, quantity, run, analysis, named))
    for kind in get_args(spreadsheet.Rows):
        head_row, *rows = csv.reader(io.StringIO(spreadsheet.table(run, analysis, kind, words), newline=""))
        if rows:
            sheets.add(kind, head_row, [[_value(text) for text in row] for row in rows])
    book.close()
    return out.getvalue()


EPOCH = datetime(2000, 1, 1, tzinfo=UTC).replace(tzinfo=None)
"""Constant that replaces the creation time."""


class _Sheets:
    """The sheets of a workbook, with unique names."""

    def __init__(self, book: Workbook, head: Format) -> None:
        self._book, self._head = book, head
        self._taken: set[str] = set()

    def add(self, name: str, heads: Sequence[str], rows: Iterable[Row]) -> None:
        """Add a sheet; its first row does not scroll."""
        sheet: Worksheet = self._book.add_worksheet(self._free(name))
        sheet.freeze_panes(1, 0)
        wide = [len(text) for text in heads]
        for at, text in enumerate(heads):
            sheet.write_string(0, at, text, self._head)
        for line, row in enumerate(rows, 1):
            for at, value in enumerate(row):
                if isinstance(value, str):
                    sheet.write_string(line, at, value)
                    wide[at] = max(wide[at], len(value))
                elif value is not None and math.isfinite(value):
                    sheet.write_number(line, at, value)
        for at, width in enumerate(wide):
            sheet.set_column(at, at, min(max(width + 1, WIDTHS[0]), WIDTHS[1]))

    def _free(self, name: str) -> str:
        """Return a valid sheet name that no other sheet has; sheet names are case-insensitive."""
        plain = " ".join(name.translate(FORBIDDEN).split()) or "-"
        number, found = 1, plain[:LONGEST_NAME]
        while found.lower() in self._taken:
            number += 1
            found = f"{plain[: LONGEST_NAME - 4]} {number}"
        self._taken.add(found.lower())
        return found


def _summary(run: StoredRun, analysis: Analysis, named: Names) -> list[str]:
    trials = sentences.counted(run.trials)
    lines = [run.plan.title, *sentences.states(run, trials, named), *sentences.banners(run, trials, named)]
    return [*lines, *sentences.summary(analysis, run.plan.measures, named, run.plan.baseline)]


def _quantities(shown: Shown, analysis: Analysis) -> list[Quantity]:
    """Return the figures that get a sheet: a measure's leading figure, and for disk programs the metric of each
    phase."""
    every = analysis.estimates.of_measure(shown.measure)
    phases = [of for of in every if of.name == shown.metric.name and of.dimensions.part is not None]
    return phases or [shown.metric]


def _figures(
    shown: Shown, quantity: Quantity, run: StoredRun, analysis: Analysis, named: Names
) -> tuple[str, tuple[str, ...], list[Row]]:
    """Return name, column titles and rows of the sheet of one figure."""
    estimates = list(analysis.estimates.of_measure(shown.measure)[quantity])
    by = numbers.scale(quantity.name, estimates[0].unit, [each.mean for each in estimates])
    factors, words = tables.columns(estimates, run), named.words
    units = [
        tables.head(word, by.unit, named.words) for word in words.each("table.mean", "table.min", "table.max")
    ]
    ends = [
        tables.head(f"{words.text('table.interval')}, {end}", by.unit, named.words)
        for end in (words.text("table.min"), words.text("table.max"))
    ]
    heads = (
        *map(named.factor, factors),
        *units,
        *ends,
        words.text("table.n"),
        tables.head(words.text("table.change"), "%", named.words),
    )
    bounded = any(each.bounds for each in estimates)
    heads += (named.words.text("packets.limited_by"),) if bounded else ()
    part = named.component(quantity.dimensions) if quantity.dimensions.part is not None else ""
    name = f"{named.measure(shown.measure)} {part or named.metric(quantity)}"
    rows = [_row(each, factors, by, named.words) for each in estimates]
    if bounded:
        rows = [(*row, _bound(each, named.words)) for row, each in zip(rows, estimates, strict=True)]
    return name, heads, rows


def _row(each: Estimate, factors: Sequence[str], by: numbers.Scale, words: Words) -> Row:
    ends = (None, None) if each.ci is None else (each.ci.low * by.factor, each.ci.high * by.factor)
    change: Cell = None if each.ratio is None else (each.ratio - 1) * 100
    if each.apart:
        change = words.name("table.incomparable_names", each.apart)
    figures = (value * by.factor for value in (each.mean, each.min, each.max))
    return (*(each.cell.get(factor, "") for factor in factors), *figures, *ends, float(each.n), change)


def _bound(each: Estimate, words: Words) -> Cell:
    """Return the limit if the figures of a row are lower bounds; else None."""
    if not each.bounds:
        return None
    return numbers.at_least(tables.limits(each.limited_by, words), bounded=True, words=words)


def _value(text: str) -> Cell:
    """Return a CSV field as a number if it is one, otherwise as text."""
    if spreadsheet.is_number(text):
        return float(text)
    return text.removeprefix("'") or None
