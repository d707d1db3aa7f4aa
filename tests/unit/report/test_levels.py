"""Figures over the levels of a factor in every format, with truth that is known."""

import csv
import io
import json
from dataclasses import replace

import pytest
from rich.console import Console
from tests.unit.report.conftest import Made
from tests.unit.report.forwarding_run import BOTH_RATIO, forwarding

from iolab.analysis import analyse
from iolab.experiment.experiment import LevelRatio, Summary
from iolab.report import formats as report

SIZE = Summary("ndr.frame_size", ratios=(LevelRatio("*.direction", "both-ways", "one-way"),))


@pytest.fixture(scope="module")
def summed() -> Made:
    """A forwarding study that asks for mean, least and largest over its frame sizes."""
    run, _, experiment = forwarding(4, measures=("ndr",))
    asked = replace(run, plan=replace(run.plan, summaries=(SIZE,)))
    return asked, analyse(asked.trials, asked.plan), experiment


def texts(made: Made) -> dict[str, str]:
    """Each format for people, as text."""
    run, analysis, experiment = made
    console = Console(width=140, file=io.StringIO(), record=True)
    console.print(report.terminal(run, analysis))
    return {
        "terminal": console.export_text(),
        "html": report.html(run, analysis, experiment, "1"),
        "markdown": report.markdown(run, analysis, experiment, "1").replace("\\", ""),
    }


def test_every_format_has_the_figures_and_their_ratios(summed: Made) -> None:
    """Captions say over which levels, and of which two the ratios are."""
    for form, text in texts(summed).items():
        for wanted in (
            "ndr: forwarded rate over frame size 64, 128, 256, 512, 1024, 1280, 1518",
            "1518, both-ways / one-way",
            "Each figure is of the levels within one block",
        ):
            assert wanted in text, form


def test_programs_get_them_unrounded(summed: Made) -> None:
    """JSON and CSV agree, and the least rate of both ways over one way is as it was made: at the line, 2."""
    run, analysis, experiment = summed
    document = json.loads(report.show_json(run, analysis))
    rows = list(csv.DictReader(io.StringIO(report.csv(run, analysis, experiment, "1", "level-ratios"))))
    assert [each["ratio"] for each in document["levels_ratios"]] == [float(row["ratio"]) for row in rows]
    wanted = {"metric": "forwarded_fps", "statistic": "max", "over": "ndr.frame_size"}
    found = [row for row in rows if wanted.items() <= row.items()]
    assert {row["machines.dut.forward"]: float(row["ratio"]) for row in found} == {
        forward: pytest.approx(ratio, rel=0.05) for forward, ratio in BOTH_RATIO.items()
    }
    figures = list(csv.DictReader(io.StringIO(report.csv(run, analysis, experiment, "1", "levels"))))
    assert len(figures) == len(document["levels"])
    assert {row["levels"] for row in figures} == {"64 128 256 512 1024 1280 1518"}
