"""Reports of a gate: well-formed for each system, whatever a measure, a level or a file is called."""

import json
import math
from xml.etree import ElementTree as ET

import numpy as np

from iolab.analysis.gate import GateCell
from iolab.analysis.sequential import Rule, decide
from iolab.report import gate as reports
from iolab.report.locale import EN
from iolab.report.names import names
from iolab.results.metric import Quantity

NASTY = 'a"b<c>&\n::error::x%,`]]>'


def cell(log: float, label: str = "1500") -> GateCell:
    """Return a cell whose 20 pairs all have one log ratio."""
    return GateCell(
        measure="tcp",
        cell={"links.lan.mtu": label},
        metric=Quantity("received_bps"),
        decision=decide([np.full(20, log)], Rule(), last=True)[0],
        better="larger",
        voids={"candidate": 1, "base": 0},
    )


def made(*cells: GateCell, source: str = "labs/x.yaml") -> reports.Gate:
    """Return a gate of these cells."""
    return reports.Gate(
        source=source, lines={"tcp": 7}, run="runs/1", against="links.lan.mtu=1500", rule=Rule(), cells=cells,
        names=names(["links.lan.mtu"], EN),
    )  # fmt: skip


def test_console_states_result_interval_pairs_void_runs_and_earlier_checks() -> None:
    """Check a regression of 5 %."""
    text = "\n".join(reports.lines(made(cell(math.log(0.95)))))
    assert "Not met: labs/x.yaml against links.lan.mtu=1500. Cells: 1; worse: 1; not decided: 0." in text
    assert "Changed for the worse" in text
    assert "99.9 % confidence sequence" in text
    assert "pairs: 20" in text
    assert "void runs: candidate 1, base 0" in text
    assert "none yet" in text


def test_junit_counts_failures_and_escapes_hostile_names() -> None:
    """Parse the XML: three cases, one failure, one skipped, all text kept in its place."""
    gate = made(cell(0.0), cell(math.log(0.9), NASTY), cell(math.log(1.012), "\x00\x1b"), source=NASTY)
    suite = ET.fromstring(reports.as_junit(gate))
    assert [suite.get(key) for key in ("tests", "failures")] == ["3", "1"]
    cases = suite.findall("testcase")
    assert len(cases) == 3
    assert [case.find("failure") is not None for case in cases] == [False, True, False]
    assert "<c>" in str(cases[1].get("name"))


def test_github_annotation_is_one_command_per_cell() -> None:
    """Let a level try to write a separate workflow command."""
    lines = reports.as_github(made(cell(math.log(0.9), NASTY), source="a,b:c.yaml")).splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("::error file=a%2Cb%3Ac.yaml,line=7::Changed for the worse")


def test_sarif_and_json_contain_the_line_number_of_the_measure() -> None:
    """Check the level and the location, and that an unbounded interval is null."""
    gate = made(cell(0.0), cell(math.log(0.9)))
    run = json.loads(reports.as_sarif(gate))["runs"][0]
    assert [one["level"] for one in run["results"]] == ["note", "error"]
    place = run["results"][1]["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == ("labs/x.yaml", 7)
    found = json.loads(reports.as_json(gate))
    assert (found["result"], [one["outcome"] for one in found["cells"]]) == (
        "not-met",
        ["equivalent", "changed"],
    )
    unbounded = GateCell(
        measure="tcp", cell={}, metric=None, decision=decide([np.zeros(0)], Rule(), last=True)[0], better="",
        voids={"candidate": 5, "base": 0},
    )  # fmt: skip
    assert json.loads(reports.as_json(made(unbounded)))["cells"][0]["ratio"] == [0.0, None]


def test_markdown_output_escapes_characters_that_would_be_markup() -> None:
    """Check a level with a link and a tag."""
    text = reports.as_markdown(made(cell(0.0, "[x](y)<b>")))
    assert "\\[x\\](y)\\<b\\>" in text
