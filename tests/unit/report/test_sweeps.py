"""Results over levels: sweeps as lines, and their tables."""

import csv
import io
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import pytest
from rich.console import Console
from tests.unit.report.builder import FILE, quickstart
from tests.unit.report.conftest import Made
from tests.unit.report.forwarding_run import BOTH_RATIO, forwarding

from iolab.analysis import analyse
from iolab.analysis.types import Estimate
from iolab.experiment.experiment import LevelRatio, Summary
from iolab.plan.types import PlannedFactor
from iolab.report import axes, lines, panels
from iolab.report import formats as report
from iolab.report.lines import Sweep, logarithmic, positions, sweep_of
from iolab.report.locale import EN
from iolab.report.names import names
from iolab.results.metric import Quantity
from iolab.store.records import StoredRun

MTUS = ("1500", "3000", "4500", "9000")


def swept(
    directions: Sequence[str] = ("one-way", "both-ways"), mtus: Sequence[str] = MTUS, blocks: int = 3
) -> tuple[StoredRun, list[Estimate]]:
    """A stream over several MTUs: the run and the estimates of its leading metric."""
    factors = {"*.direction": directions, "links.lan.mtu": mtus, "links.lan.offload": ("on", "off")}
    run, _ = quickstart(blocks, factors=factors, measures=("tcp",), file=FILE, outlier=False)
    found = analyse(run.trials, run.plan).estimates
    return run, [each for each in found if each.metric == Quantity("received_bps")]


@pytest.mark.parametrize(
    ("labels", "places"),
    [
        (("1500", "9000", "3000"), [1500, 3000, 9000]),
        (("64K", "1M", "256M"), [65536, 2**20, 2**28]),
        (("100Mbit", "1Gbit", "10kbit"), [1e4, 1e8, 1e9]),
        (("12us", "1ms", "114.36ms"), [12e3, 1e6, 114.36e6]),
        (("0.01%", "0.1%", "1%"), [0.0001, 0.001, 0.01]),
        (("0", "0.5", "1"), [0, 0.5, 1]),
    ],
)
def test_quantities_of_one_kind_are_put_in_order(labels: tuple[str, ...], places: list[float]) -> None:
    """Sizes, rates, durations, shares and plain numbers are read with their units, smallest first."""
    found = positions(labels)
    assert found is not None
    assert list(found.values()) == pytest.approx(places)


@pytest.mark.parametrize(
    "labels",
    [("on", "off", "auto"), ("1500", "9000", "none"), ("64K", "1ms", "5"), ("1024", "1K", "2K"), ("1e3", "nan", "5"),
     ("1'2", "2", "3"), ("", "1", "2"), ("1 or so", "2", "3"), ("-1", "2", "3")],
)  # fmt: skip
def test_labels_that_are_no_quantities_of_one_kind_are_no_axis(labels: tuple[str, ...]) -> None:
    """Words, mixed units, the same value written twice, and what only a loose parser would take."""
    assert positions(labels) is None


def test_an_axis_is_logarithmic_where_the_levels_are_spread_more_evenly_so() -> None:
    """Frame sizes and windows are; MTUs and percents are not; an axis with zero cannot be."""
    assert logarithmic([64, 128, 256, 512, 1024, 1280, 1518])
    assert logarithmic([2**16, 2**18, 2**20])
    assert not logarithmic([1500, 3000, 4500, 9000])
    assert not logarithmic([0, 10, 50, 90])


def test_a_number_with_three_levels_is_an_axis_and_two_are_not() -> None:
    """MTU 1500 against 9000 stays a comparison in rows."""
    run, estimates = swept()
    found = sweep_of(estimates, run)
    assert found is not None
    assert found.factor == "links.lan.mtu"
    run, estimates = swept(mtus=("1500", "9000"))
    assert sweep_of(estimates, run) is None


def test_every_trial_is_a_point_and_every_cell_a_vertex() -> None:
    """The data of a line chart hold all trials at their place on the axis, line by line."""
    run, estimates = swept()
    chart = drawn(run, estimates)
    assert len(chart.panels) == 1
    data = chart.panels[0].data
    assert (len(data["points"]), len(data["means"])) == (4 * 4 * 3, 4 * 4)
    places = [row["x"] for row in data["means"] if row["series"] == "0"]
    assert places == pytest.approx([1500, 3000, 4500, 9000], abs=7500 * 0.0105 + 1)
    assert chart.panels[0].alt.count(" at 1500 to ") == 4


def drawn(run: StoredRun, estimates: Sequence[Estimate], most: int = 480) -> panels.Chart:
    """Draw as the page does."""
    sweep = sweep_of(estimates, run)
    assert sweep is not None
    shown = lines.choose(estimates, sweep, run, most)
    return lines.chart(shown, sweep, run, {}, names([each.name for each in run.plan.factors], EN))


def test_lines_of_equal_values_stand_beside_each_other_but_not_in_the_next_level() -> None:
    """Each line has a place of its own; all of a level are closer to it than to any other level."""
    for labels in (("64", "1280", "1518"), ("1500", "3000", "4500", "9000")):
        places = positions(labels)
        assert places is not None
        sweep = Sweep("x", places, logarithmic(list(places.values())))
        across = [sweep.beside(label, line, 6) for label in places for line in range(6)]
        assert across == sorted(set(across))
    assert sweep.beside("3000", 0, 1) == 3000


def test_lines_are_told_apart_without_colour() -> None:
    """No two lines of a key share both dash and symbol; the second factor is the dash alone."""
    chart = drawn(*swept())
    assert len({(line.dash, line.shape) for line in chart.lines}) == len(chart.lines) == 4
    assert len({(line.colour, line.dash) for line in chart.lines}) == 4
    many = [axes.line("", index, index) for index in range(lines.MOST_LINES)]
    assert len({line.dash for line in many}) == len({line.shape for line in many}) == lines.MOST_LINES


def test_too_many_lines_become_panels() -> None:
    """Seven directions times two offloads are seven panels of two lines, none with fourteen."""
    run, estimates = swept(directions=[f"d{number}" for number in range(7)])
    chart = drawn(run, estimates)
    assert (len(chart.panels), len(chart.lines)) == (7, 2)
    assert [panel.title for panel in chart.panels] == [f"d{number}" for number in range(7)]


def test_of_very_many_cells_whole_lines_are_kept() -> None:
    """No line is torn: what does not fit is left out whole, and the chart says how many cells it shows."""
    run, estimates = swept(directions=[f"d{number}" for number in range(20)])
    chart = drawn(run, estimates, most=30)
    assert (chart.shown, chart.total) == (24, 160)
    lengths = Counter((panel.title, row["series"]) for panel in chart.panels for row in panel.data["means"])
    assert set(lengths.values()) == {4}


def test_intervals_are_drawn_from_four_blocks_on() -> None:
    """Ends stand beside every mean, within the axis."""
    run, estimates = swept(blocks=5)
    chart = drawn(run, estimates)
    assert chart.with_ci
    rows = [row for panel in chart.panels for row in panel.data["means"]]
    for row in rows:
        low, mean, high = row["low"], row["mean"], row["high"]
        assert isinstance(low, float)
        assert isinstance(mean, float)
        assert isinstance(high, float)
        assert low < mean < high


def test_values_far_apart_get_a_logarithmic_axis() -> None:
    """A factor of 30 between smallest and largest is where a plain axis begins to hide the small ones."""
    assert axes.up("", [1, 31], (0, 32)).log
    assert not axes.up("", [1, 29], (0, 32)).log
    assert not axes.up("", [0, 1000], (0, 1040)).log
    assert axes.up("", [1, 31], (0, 32)).domain[0] < 1


def test_no_label_of_the_experiment_is_in_an_expression() -> None:
    """What Vega evaluates holds quantities only; a hostile name of a factor or level is data or a title."""
    run, estimates = swept(directions=("one-way", "'+alert(1)+'"))
    spec = json.loads(drawn(run, estimates).spec)
    told = [expression for key, expression in walk(spec) if key in ("labelExpr", "expr", "filter", "test")]
    assert told
    assert not [expression for expression in told if "alert" in str(expression)]


def walk(node: object) -> list[tuple[str, object]]:
    """Every key of a document with its value."""
    if isinstance(node, dict):
        return [pair for key, value in node.items() for pair in ((key, value), *walk(value))]
    return [pair for each in node for pair in walk(each)] if isinstance(node, list) else []


def test_frame_size_is_the_axis_whatever_else_is_a_number() -> None:
    """Of several numeric factors the one with most levels is the axis, but a frame size always is."""
    run, estimates = swept()
    sizes = ("64", "128", "256")
    cells = [{"a.queues": queues, "ndr.frame_size": size} for queues, size in product("12345", sizes)]
    planned = (PlannedFactor("a.queues", tuple("12345")), PlannedFactor("ndr.frame_size", sizes))
    run = replace(run, plan=replace(run.plan, factors=planned))
    found = sweep_of([replace(estimates[0], cell=cell) for cell in cells], run)
    assert isinstance(found, Sweep)
    assert found.factor == "ndr.frame_size"


def test_a_place_on_the_axis_is_marked_with_its_name() -> None:
    """Within the levels only; a chart without marks has none of it."""
    run, estimates = swept()
    sweep = sweep_of(estimates, run)
    assert sweep is not None
    shown = lines.choose(estimates, sweep, run, 100)
    named = names(("links.lan.mtu",), EN)
    marks = [(2000.0, "here"), (10000.0, "beyond")]
    marked, plain = (lines.chart(shown, sweep, run, {}, named, None, each) for each in (marks, ()))
    assert all(panel.data["marks"] == [{"x": 2000.0, "name": "here"}] for panel in marked.panels)
    assert all("marks" not in panel.data for panel in plain.panels)
    uses = [layer["data"]["name"] for layer in json.loads(marked.spec)["layer"]]
    assert uses.count("marks") == 2
    assert "marks" not in plain.spec


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
            "Each figure is computed over the levels within one block",
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
