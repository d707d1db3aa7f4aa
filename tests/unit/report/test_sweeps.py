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
    """Return the run of a stream over several MTUs and the estimates of its leading metric."""
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
def test_labels_that_are_quantities_of_one_kind_are_sorted_by_value(
    labels: tuple[str, ...], places: list[float]
) -> None:
    """Read sizes, rates, durations, shares and plain numbers with their units, smallest first."""
    found = positions(labels)
    assert found is not None
    assert list(found.values()) == pytest.approx(places)


@pytest.mark.parametrize(
    "labels",
    [("on", "off", "auto"), ("1500", "9000", "none"), ("64K", "1ms", "5"), ("1024", "1K", "2K"), ("1e3", "nan", "5"),
     ("1'2", "2", "3"), ("", "1", "2"), ("1 or so", "2", "3"), ("-1", "2", "3")],
)  # fmt: skip
def test_labels_that_are_not_quantities_of_one_kind_form_no_axis(labels: tuple[str, ...]) -> None:
    """Refuse words, mixed units, duplicate values, and loosely parsed texts."""
    assert positions(labels) is None


def test_axis_is_logarithmic_if_that_spaces_the_levels_more_evenly() -> None:
    """Use it for frame sizes and windows, not for MTUs and percentages, and never with zero."""
    assert logarithmic([64, 128, 256, 512, 1024, 1280, 1518])
    assert logarithmic([2**16, 2**18, 2**20])
    assert not logarithmic([1500, 3000, 4500, 9000])
    assert not logarithmic([0, 10, 50, 90])


def test_numeric_factor_with_three_levels_is_an_axis() -> None:
    """Keep MTU 1500 against 9000 as a comparison in rows."""
    run, estimates = swept()
    found = sweep_of(estimates, run)
    assert found is not None
    assert found.factor == "links.lan.mtu"
    run, estimates = swept(mtus=("1500", "9000"))
    assert sweep_of(estimates, run) is None


def test_line_chart_contains_every_trial_as_a_point_and_every_cell_as_a_vertex() -> None:
    """Place all trials on the axis, line by line."""
    run, estimates = swept()
    chart = drawn(run, estimates)
    assert len(chart.panels) == 1
    data = chart.panels[0].data
    assert (len(data["points"]), len(data["means"])) == (4 * 4 * 3, 4 * 4)
    places = [row["x"] for row in data["means"] if row["series"] == "0"]
    assert places == pytest.approx([1500, 3000, 4500, 9000], abs=7500 * 0.0105 + 1)
    assert chart.panels[0].alt.count(" at 1500 to ") == 4


def drawn(run: StoredRun, estimates: Sequence[Estimate], most: int = 480) -> panels.Chart:
    """Draw like the page."""
    sweep = sweep_of(estimates, run)
    assert sweep is not None
    shown = lines.choose(estimates, sweep, run, most)
    return lines.chart(shown, sweep, run, {}, names([each.name for each in run.plan.factors], EN))


def test_overlapping_lines_are_offset_within_their_level() -> None:
    """Keep all lines of a level closer to it than to any other level."""
    for labels in (("64", "1280", "1518"), ("1500", "3000", "4500", "9000")):
        places = positions(labels)
        assert places is not None
        sweep = Sweep("x", places, logarithmic(list(places.values())))
        across = [sweep.beside(label, line, 6) for label in places for line in range(6)]
        assert across == sorted(set(across))
    assert sweep.beside("3000", 0, 1) == 3000


def test_lines_are_distinguishable_without_colour() -> None:
    """Use different dashes and symbols in a key; show the second factor by the dash alone."""
    chart = drawn(*swept())
    assert len({(line.dash, line.shape) for line in chart.lines}) == len(chart.lines) == 4
    assert len({(line.colour, line.dash) for line in chart.lines}) == 4
    many = [axes.line("", index, index) for index in range(lines.MOST_LINES)]
    assert len({line.dash for line in many}) == len({line.shape for line in many}) == lines.MOST_LINES


def test_too_many_lines_are_split_into_panels() -> None:
    """Draw seven directions with two offloads as seven panels of two lines."""
    run, estimates = swept(directions=[f"d{number}" for number in range(7)])
    chart = drawn(run, estimates)
    assert (len(chart.panels), len(chart.lines)) == (7, 2)
    assert [panel.title for panel in chart.panels] == [f"d{number}" for number in range(7)]


def test_chart_of_many_cells_shows_only_complete_lines() -> None:
    """Leave out whole lines, and state the number of cells."""
    run, estimates = swept(directions=[f"d{number}" for number in range(20)])
    chart = drawn(run, estimates, most=30)
    assert (chart.shown, chart.total) == (24, 160)
    lengths = Counter((panel.title, row["series"]) for panel in chart.panels for row in panel.data["means"])
    assert set(lengths.values()) == {4}


def test_intervals_are_drawn_only_if_there_are_at_least_four_blocks() -> None:
    """Draw the ends of every mean, within the axis."""
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


def test_widely_spread_values_get_a_logarithmic_axis() -> None:
    """Switch at a factor of 30, at which a linear axis hides small values."""
    assert axes.up("", [1, 31], (0, 32)).log
    assert not axes.up("", [1, 29], (0, 32)).log
    assert not axes.up("", [0, 1000], (0, 1040)).log
    assert axes.up("", [1, 31], (0, 32)).domain[0] < 1


def test_experiment_labels_never_appear_in_vega_expressions() -> None:
    """Pass a hostile name of a factor or level only as data or title."""
    run, estimates = swept(directions=("one-way", "'+alert(1)+'"))
    spec = json.loads(drawn(run, estimates).spec)
    told = [expression for key, expression in walk(spec) if key in ("labelExpr", "expr", "filter", "test")]
    assert told
    assert not [expression for expression in told if "alert" in str(expression)]


def walk(node: object) -> list[tuple[str, object]]:
    """Yield every key of a document with its value."""
    if isinstance(node, dict):
        return [pair for key, value in node.items() for pair in ((key, value), *walk(value))]
    return [pair for each in node for pair in walk(each)] if isinstance(node, list) else []


def test_frame_size_is_preferred_as_the_axis_over_other_numeric_factors() -> None:
    """Prefer it to the factor with most levels."""
    run, estimates = swept()
    sizes = ("64", "128", "256")
    cells = [{"a.queues": queues, "ndr.frame_size": size} for queues, size in product("12345", sizes)]
    planned = (PlannedFactor("a.queues", tuple("12345")), PlannedFactor("ndr.frame_size", sizes))
    run = replace(run, plan=replace(run.plan, factors=planned))
    found = sweep_of([replace(estimates[0], cell=cell) for cell in cells], run)
    assert isinstance(found, Sweep)
    assert found.factor == "ndr.frame_size"


def test_marked_position_on_the_axis_is_labelled_with_its_name() -> None:
    """Draw it within the levels only; draw nothing without marks."""
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
    """Return a forwarding study with mean, minimum and maximum over its frame sizes."""
    run, _, experiment = forwarding(4, measures=("ndr",))
    asked = replace(run, plan=replace(run.plan, summaries=(SIZE,)))
    return asked, analyse(asked.trials, asked.plan), experiment


def texts(made: Made) -> dict[str, str]:
    """Return each text format."""
    run, analysis, experiment = made
    console = Console(width=140, file=io.StringIO(), record=True)
    console.print(report.terminal(run, analysis))
    return {
        "terminal": console.export_text(),
        "html": report.html(run, analysis, experiment, "1"),
        "markdown": report.markdown(run, analysis, experiment, "1").replace("\\", ""),
    }


def test_every_format_shows_figures_over_levels_and_their_ratios(summed: Made) -> None:
    """Include levels and ratio pairs in the captions."""
    for form, text in texts(summed).items():
        for wanted in (
            "ndr: forwarded rate over frame size 64, 128, 256, 512, 1024, 1280, 1518",
            "1518, both-ways / one-way",
            "Each figure is computed over the levels within one block",
        ):
            assert wanted in text, form


def test_json_and_csv_contain_unrounded_figures_over_levels(summed: Made) -> None:
    """Compare both; the minimum both ways over one way is 2 at line rate, as simulated."""
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
