"""PukiWiki and workbooks: the same figures as in the other formats, and escaped texts."""

import io
import re
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from html import unescape
from xml.etree import ElementTree as ET

import pytest
from tests.unit.report.conftest import Made

from iolab.analysis import analyse
from iolab.report import formats as report
from iolab.report import spreadsheet
from iolab.report.readme import PukiWiki
from iolab.results.metric import Metrics

MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"


@pytest.mark.parametrize(
    "text",
    [
        *(
            "a | b",
            "[[FrontPage]]",
            "&ref(x);",
            "''strong''",
            "%%struck%%",
            "((a note))",
            "* a heading",
            "- a list",
        ),
        *(
            "#contents",
            "http://198.18.0.1/",
            "~",
            "CENTER:x",
            "somebody@somewhere",
            "WikiName here",
            "{{x}}",
            "> y",
        ),
    ],
)
def test_pukiwiki_markup_in_text_is_escaped(text: str) -> None:
    """Write special characters as numeric references, which a browser shows unchanged."""
    written = PukiWiki().escape(text)
    assert unescape(written) == text
    bare = re.sub(r"&#\d+;", "", written)
    for mark in ("|", "[[", "&ref", "''", "%%", "((", "://", "CENTER:", "@", "WikiName", "{{"):
        assert mark not in bare
    assert not re.match(r"[*\-+:,><#/~]", bare)


def test_wiki_page_has_every_row_of_the_markdown(made: Made) -> None:
    """Compare the number of rows, and the width of tables with their heads."""
    run, analysis, experiment = made
    page = report.pukiwiki(run, analysis, experiment, "1").splitlines()
    other = report.markdown(run, analysis, experiment, "1").splitlines()
    rows = [line for line in page if line.startswith("|")]
    assert len(rows) == len([line for line in other if line.startswith("|") and not line.startswith("| ---")])
    assert [line for line in page if line.startswith("* ")] == [f"* {PukiWiki().escape(run.plan.title)}"]
    width = 0
    for line in rows:
        width = line.count("|") if line.endswith("|h") else width
        assert line.count("|") == width


def sheets(made: Made) -> Mapping[str, list[list[str | float | None]]]:
    """Return the sheets of a workbook, read by the standard (ECMA-376)."""
    run, analysis, experiment = made
    with zipfile.ZipFile(io.BytesIO(report.xlsx(run, analysis, experiment, "1"))) as book:
        shared = [
            "".join(part.text or "" for part in one.iter(f"{MAIN}t"))
            for one in ET.fromstring(book.read("xl/sharedStrings.xml"))
        ]
        names = [
            one.attrib["name"] for one in ET.fromstring(book.read("xl/workbook.xml")).iter(f"{MAIN}sheet")
        ]
        assert not any(b"<f>" in book.read(name) for name in book.namelist()), "a formula"
        found = {}
        for number, name in enumerate(names, 1):
            rows = ET.fromstring(book.read(f"xl/worksheets/sheet{number}.xml")).iter(f"{MAIN}row")
            found[name] = [[_read(cell, shared) for cell in row] for row in rows]
    return found


def _read(cell: ET.Element, shared: list[str]) -> str | float | None:
    value = cell.find(f"{MAIN}v")
    if value is None or value.text is None:
        return None
    return shared[int(value.text)] if cell.attrib.get("t") == "s" else float(value.text)


def test_workbook_has_a_sheet_per_table_with_units_in_the_heads(made: Made) -> None:
    """Compare the means with those of the analysis."""
    run, analysis, _ = made
    found = sheets(made)
    assert {"estimates", "trials"} <= set(found)
    measure = run.plan.measures[0]
    (name,) = (name for name in found if name.lower().startswith(f"{measure} "))
    heads, *rows = found[name]
    assert any(str(head).startswith("mean [Gbit/s") for head in heads)
    at = next(place for place, head in enumerate(heads) if str(head).startswith("mean"))
    own = [
        each
        for each in analysis.estimates
        if each.measure == measure and each.metric == analysis.leading[measure]
    ]
    assert [row[at] for row in rows] == pytest.approx([each.mean / 1e9 for each in own])
    assert all(len(sheet) <= 31 for sheet in found)
    assert len(found["trials"]) - 1 == len(run.trials)


def test_workbook_states_the_limit_of_a_lower_bound(made: Made) -> None:
    """Avoid a bare number, which would suggest that the device was the limit."""
    run, _, experiment = made

    def by_line(metrics: Metrics) -> Metrics:
        return Metrics(
            replace(one, limited_by="line" if one.name == "received_bps" else "") for one in metrics
        )

    trials = tuple(
        replace(one, result=replace(one.result, metrics=by_line(one.result.metrics)))
        if one.measure == "tcp" and one.cell["links.lan.mtu"] == "9000"
        else one
        for one in run.trials
    )
    run = replace(run, trials=trials)
    heads, *rows = sheets((run, analyse(run.trials, run.plan), experiment))["TCP received rate"]
    assert heads[-1] == "limited by"
    mtu = heads.index("MTU")
    assert {(str(row[mtu]), row[-1] == "≥\u00a0the line rate") for row in rows} == {
        ("9000", True),
        ("1500", False),
    }


def test_workbook_of_a_run_is_reproducible_byte_by_byte(made: Made) -> None:
    """Store no time in the file."""
    run, analysis, experiment = made
    first, second = (report.xlsx(run, analysis, experiment, "1") for _ in range(2))
    assert first == second


def test_workbook_field_is_a_number_only_if_the_csv_field_is_a_number() -> None:
    """Escape a label that begins like a formula."""
    assert spreadsheet.is_number("-1.5e3")
    assert not spreadsheet.is_number("'-1+2")
