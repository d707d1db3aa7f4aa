"""Report of measures that send frames, in every format."""

import csv as reader
import io
import json
import re
from dataclasses import replace
from itertools import pairwise

import altair as alt
import pytest
from rich.console import Console
from tests.unit.report.forwarding_run import FALLBACK, forwarding
from tests.unit.report.pages import charts_of, parsed
from tests.work import counted

from iolab.analysis import analyse
from iolab.analysis.forwarding_types import PacketKind
from iolab.analysis.types import Analysis, CellEstimates, Estimates
from iolab.experiment.experiment import Experiment
from iolab.messages.instrument import PathFallback, PortsUnplaced
from iolab.messages.places import AtPort, PlainPlace
from iolab.messages.searches import LibraryGaveUp
from iolab.report import curves, packet_tables, packets, tables
from iolab.report import formats as report
from iolab.report.locale import EN
from iolab.report.names import names
from iolab.report.selection import leading
from iolab.results.metric import Dimensions, Metrics, Quantity
from iolab.store.records import StoredRun, TrialRecord

Made = tuple[StoredRun, Analysis, Experiment]
SMALL_BY_XDP = {"machines.dut.forward": "xdp", "ndr.frame_size": "64"}
EVIL = '</script><img src=x onerror="alert(1)">'


@pytest.fixture(scope="module")
def made() -> Made:
    """Return the study with three blocks."""
    return forwarding()


@pytest.fixture(scope="module")
def page(made: Made) -> str:
    """Return its page."""
    return report.html(*made, "1.2.3")


def plain(text: str) -> str:
    """Return text without special spaces and escapes, on one line."""
    return " ".join(text.replace("\\", "").split())


def shown(page: str) -> str:
    """Return the visible text of the page, on one line."""
    return plain(" ".join(parsed(page).texts))


def test_limits_and_instrument_sections_follow_the_charts(page: str) -> None:
    """Place figure, limit and instrument next to each other."""
    ids = [each["id"] for each in parsed(page).named("section")]
    assert ids[:6] == ["summary", "results", "charts", "limits", "instrument", "effects"]


def test_every_format_states_the_limit_and_the_idle_cpu_share(made: Made, page: str) -> None:
    """Show the verdict's sentence, the busiest CPU and the idle share in page, Markdown and terminal."""
    run, analysis, experiment = made
    out = io.StringIO()
    Console(file=out, width=100, color_system=None).print(report.terminal(run, analysis))
    for text in (shown(page), plain(report.markdown(run, analysis, experiment, "1")), plain(out.getvalue())):
        assert "ndr: limited by one thread of the device (dut.eth0) in 42 of 42 cells." in text
        assert "napi/eth0-8193 ran 99 % of the time;" in text
        assert "CPU 1 was 100 % busy while the host was 38 % idle." in text
        assert "every frame of all 42 cells is accounted for" in text
        assert "receiver at tester.p1 and dut.eth0 share CPU 1" in text
    assert FALLBACK in shown(page)
    assert "AF_XDP native copy" in shown(page)


def test_every_format_marks_a_lower_bound_and_its_limit(made: Made) -> None:
    """Mark XDP's rate of small frames, limited by the line, in tables, charts, summary and exports."""
    run, analysis, experiment = bounded(made)
    out = io.StringIO()
    Console(file=out, width=200, color_system=None).print(report.terminal(run, analysis))
    page = report.html(run, analysis, experiment, "1")
    for text in (shown(page), plain(report.markdown(run, analysis, experiment, "1")), plain(out.getvalue())):
        assert "limited by" in text
        assert re.search(r"≥\s\d+(\.\d+)? ", text)
        assert "≥ marks a lower bound" in text
    assert any("≥" in json.dumps(chart, ensure_ascii=False) for chart in charts_of(page))
    rows = list(
        reader.DictReader(io.StringIO(report.csv(run, analysis, experiment, "1", "estimates"), newline=""))
    )
    limited = [row for row in rows if row["metric"] == "forwarded_fps" and row["bounds"] != "0"]
    assert {(row["bounds"], row["limited_by"], row["ci_low"]) for row in limited} == {("3", "line", "")}
    document = json.loads(report.show_json(run, analysis))
    estimates = [
        one for one in document["estimates"] if one["metric"] == "forwarded_fps" and one["bounds"] == 3
    ]
    assert len(estimates) == len(limited) == 2
    assert all(one["limited_by"] == ["line"] for one in estimates)
    assert sum(one.mean is None for one in analysis.forwarding[0].ratios) == 1
    assert {row.change for row in _results(run, analysis) if row.mean.startswith("≥")} == {"lower bound"}
    arrows = [
        layer
        for chart in charts_of(page)
        for layer in chart["spec"]["layer"]
        if layer["mark"].get("shape") == "arrow" and layer["transform"] == [{"filter": "datum.bound"}]
    ]
    assert arrows, "a bound is drawn as an arrow"


def bounded(made: Made) -> Made:
    """Return the study with XDP's forwarding of small frames limited by the line."""
    run, _, experiment = made
    trials = tuple(
        _of_line(trial) if SMALL_BY_XDP.items() <= trial.cell.items() else trial for trial in run.trials
    )
    run = replace(run, trials=trials)
    return run, analyse(run.trials, run.plan), experiment


def _results(run: StoredRun, analysis: Analysis) -> tuple[tables.ResultRow, ...]:
    (shown_first, *_) = leading(analysis, run.plan.measures, 400)
    return tables.results(shown_first, run, analysis, names([], EN)).rows


def _of_line(trial: TrialRecord) -> TrialRecord:
    metrics = (
        replace(metric, limited_by="line") if metric.name.startswith("forwarded") else metric
        for metric in trial.result.metrics
    )
    return replace(trial, result=replace(trial.result, metrics=Metrics(metrics)))


def test_ratio_table_has_mean_minimum_and_maximum_per_configuration(made: Made) -> None:
    """Check 21 configurations: XDP's directions are nearly independent, those of a bridge share one thread."""
    run, analysis, _ = made
    grid = packet_tables.direction_grid(
        analysis.forwarding[0], run, names([each.name for each in run.plan.factors], EN), 400
    )
    assert grid.heads == (
        "forward",
        "frame size",
        "mean, both ways / one way",
        "min, both ways / one way",
        "max, both ways / one way",
        "n",
    )
    assert len(grid.rows) == 21
    cells = {row[:2]: [float(text) for text in row[2:5]] for row in grid.rows}
    assert cells["bridge", "64"] == pytest.approx([1.06] * 3, abs=0.05)
    assert cells["xdp", "64"] == pytest.approx([1.71] * 3, abs=0.08)


def test_balance_sheet_always_shows_unexplained_frames(made: Made) -> None:
    """Show the column even for zeros, with a real minus sign."""
    run, analysis, _ = made
    found = analysis.forwarding[0]
    open_sheet = replace(found.cells[0].balance, unexplained_frames=-1234, closed_trials=20)
    found = replace(found, cells=(replace(found.cells[0], balance=open_sheet), *found.cells[1:]))
    named = names([each.name for each in run.plan.factors], EN)
    grid = packets.balance_grid(found, run, named, 400)
    column = grid.heads.index("unexplained")
    assert [row[column] for row in grid.rows][:2] == ["−1\u00a0234", "0"]
    assert "ndr: 1 of 42 cells have unexplained frames." in packets.limit_lines(
        replace(analysis, forwarding=(found,)), named
    )


def test_cause_with_the_same_text_as_its_place_is_written_once(made: Made) -> None:
    """Write 'the generator', not 'the generator: generator'."""
    _, analysis, _ = made
    found = analysis.forwarding[1]
    judged = replace(found.cells[0].verdict, limit="generator", place=PlainPlace(code="generator"))
    found = replace(found, cells=(replace(found.cells[0], verdict=judged),))
    lines = packets.limit_lines(replace(analysis, forwarding=(found,)), names([], EN))
    assert lines[0] == "curve: limited by the generator in 1 of 1 cells."


def test_rate_charts_show_frames_and_bits_with_the_line_rate(page: str) -> None:
    """Draw two charts over frame size, with a key of six lines and the limit."""
    text = shown(page)
    assert "kframe/s" in text
    assert "line rate" in text
    titles = [each.get("data-title") for each in parsed(page).named("div") if each.get("data-title")]
    assert titles[:2] == ["forwarded rate [kframe/s]", "layer 2 rate [Mbit/s]"]
    assert page.count('class="key lines"') >= 2


def test_load_curves_show_rates_loss_cpu_and_latency_for_every_cell(made: Made) -> None:
    """Draw four charts per cell with twelve steps of medians; choose the busiest components."""
    run, analysis, _ = made
    named = names([each.name for each in run.plan.factors], EN)
    drawn = curves.charts(analysis.forwarding[1], named)
    assert len(drawn) == 6
    for _, charts in drawn:
        assert [chart.title.partition(" [")[0] for chart in charts] == [
            "offered and forwarded rate",
            "lost and unsent frames",
            "CPU time, as a share of one CPU",
            "one-way latency",
        ]
        assert all(len(chart.panels[0].data["means"]) == 12 * len(chart.lines) for chart in charts)
        cpu = [line.name for line in charts[2].lines]
        assert len(cpu) <= curves.MOST_COMPONENTS
        assert {"cpu1", "dut.eth0", "host (all CPUs)"} <= set(cpu)


def test_metric_at_a_load_is_named_with_the_load() -> None:
    """Show words instead of the stored name; list its definition once."""
    named = names([], EN)
    assert named.metric(Quantity("latency_p99_ns", Dimensions(load_ratio=0.5))) == "latency p99 at 50 %"
    assert (
        named.metric(Quantity("cpu_busy_ratio", Dimensions(load_ratio=1.1, cpu=1)))
        == "CPU utilisation at 110 %, cpu1"
    )
    assert (
        named.metric(Quantity("thread_cpu_ratio", Dimensions(role="device", port="dut.eth0")))
        == "thread CPU time dut.eth0"
    )


def test_csv_has_ratios_verdicts_and_drops(made: Made) -> None:
    """Write separate unrounded rows; the sum of every sheet is correct."""
    run, analysis, experiment = made
    rows = {
        kind: list(
            reader.DictReader(io.StringIO(report.csv(run, analysis, experiment, "1", kind), newline=""))
        )
        for kind in ("ratios", "limits", "drops")
    }
    assert [len(rows[kind]) for kind in ("ratios", "limits", "drops")] == [24, 48, 96]
    assert [float(row["mean_ratio"]) for row in rows["ratios"]][:21] == [
        each.mean for each in analysis.forwarding[0].ratios
    ]
    for row in rows["limits"]:
        counts = (int(row[f"{name}_frames"]) for name in ("offered", "forwarded", "dropped", "unexplained"))
        offered, forwarded, dropped, unexplained = counts
        assert offered == forwarded + dropped + unexplained
        assert row["limit"] == "thread"


def test_json_contains_bounds_rates_latency_verdict_and_balance_per_cell(made: Made) -> None:
    """Include strict and robust rate, CPU use at loads, and ratios."""
    run, analysis, _ = made
    search, curve = json.loads(report.show_json(run, analysis))["forwarding"]
    assert (search["kind"], curve["kind"]) == ("forwarding", "load-curve")
    assert len(search["cells"]) == 42
    cell = search["cells"][0]
    means = {
        each.metric: each.mean
        for each in analysis.estimates
        if each.measure == "ndr" and each.cell == cell["cell"]
    }
    for metric in ("forwarded_fps", "forwarded_strict_fps", "lower_fps", "upper_fps", "forwarded_bps_l2"):
        assert cell["rates"][metric] == means[Quantity(metric)]
    assert [each["load_ratio"] for each in cell["loads"]] == [0, 0.1, 0.5, 0.9]
    for each in cell["loads"]:
        medians = {metric["metric"]: metric["median"] for metric in each["metrics"]}
        assert medians["latency_p99_ns"] >= medians["latency_p50_ns"]
    assert cell["verdict"]["limit"] == "thread"
    sheet = cell["balance"]
    named = sum(drop["frames"] for drop in sheet["drops"])
    assert sheet["offered_frames"] == sheet["forwarded_frames"] + named + sheet["unexplained_frames"]
    assert search["ratios"][0]["mean"] == analysis.forwarding[0].ratios[0].mean
    step = curve["cells"][0]["loads"][-1]
    assert step["load_ratio"] == 1.2
    assert next(each["median"] for each in step["metrics"] if each["metric"] == "loss_ratio") > 0
    assert [each["dimensions"] for each in step["metrics"] if each["metric"] == "thread_cpu_ratio"] == [
        {"port": "tester.p0", "role": "generator"},
        {"port": "tester.p1", "role": "receiver"},
        {"port": "dut.eth0", "role": "device"},
    ]


def test_packet_charts_conform_to_the_vega_lite_schema(page: str) -> None:
    """Validate sweeps and curves, with and without decades, because the report does not."""
    for spec in {json.dumps(chart["spec"]) for chart in charts_of(page)}:
        alt.LayerChart.from_dict(json.loads(spec))


def test_loss_axis_is_logarithmic_with_a_separate_zero_below_it(made: Made) -> None:
    """Show the accepted loss of 0.01 % next to 12 %, which a linear axis hides."""
    _, analysis, _ = made
    (_, drawn), *_ = curves.charts(analysis.forwarding[1], names([], EN))
    loss = json.loads(next(chart for chart in drawn if "lost" in chart.title).spec)
    axes = [layer["encoding"]["y"] for layer in loss["layer"]]
    assert {axis["scale"]["type"] for axis in axes} == {"symlog"}
    ticks = axes[0]["axis"]["values"]
    assert ticks[0] == 0
    assert ticks[-1] == 10
    assert {round(above / below, 6) for below, above in pairwise(ticks[1:])} == {10}


def test_cell_without_a_found_rate_has_a_row_and_a_reason(made: Made) -> None:
    """Keep the bounds of a search that ran out of time."""
    run, analysis, _ = made
    first = next(
        each
        for each in analysis.estimates
        if (each.measure, each.metric) == ("ndr", Quantity("forwarded_fps"))
    )
    groups = dict(analysis.estimates.by_metric)
    others = groups["ndr", first.metric][1:]
    groups["ndr", first.metric] = CellEstimates(
        [each.cell for each in others], lambda rows: [others[index] for index in rows]
    )
    fewer = replace(analysis, estimates=Estimates(groups))
    (shown_first, *_) = leading(fewer, run.plan.measures, 400)
    table = tables.results(shown_first, run, fewer, names([], EN))
    assert len(table.rows) == 42
    (row,) = [row for row in table.rows if row.n == "0"]
    assert (row.cell, row.mean, row.change) == (first.cell, "–", "–")
    assert any(
        "Cells without a value of forwarded rate, although their trials succeeded: 1." in note
        for note in table.notes
    )


def test_report_without_samples_states_their_absence(made: Made) -> None:
    """Invent no verdict; keep rates, ratios and curves."""
    run, analysis, experiment = made
    silent = tuple(
        replace(each, cells=(), paths=(), shared=(), samples_read=0) for each in analysis.forwarding
    )
    run = replace(run, facts={})
    text = shown(report.html(run, replace(analysis, forwarding=silent), experiment, "1"))
    assert "ndr: no raw samples are stored, so there is no verdict and no frame accounting." in text
    assert "No calibration of this host is stored" in text
    assert "used separate CPUs" not in text
    assert "rate both ways divided by rate one way" in text


def test_calibration_is_shown_with_units(page: str) -> None:
    """Include limits of generator and receiver per frame size, pacing, timestamps and A/A spread."""
    part = shown(page.split('<section id="instrument"')[1].split("</section>", maxsplit=1)[0])
    for text in (
        "AF_XDP", "64 2.41 Mframe/s", "receiver, maximum rate without loss 1.46 Mframe/s", "0.004 %",
        "p99 minus minimum latency 210 ns", "A/A: spread of repeated measurements 0.4 %",
    ):  # fmt: skip
        assert text in part


def test_calibration_of_a_remote_host_is_shown_under_its_name(made: Made) -> None:
    """Do not repeat it among the host's facts."""
    run, analysis, experiment = made
    there = {"hosts": {"tester": {"hostname": "t", "calibration": run.facts["calibration"]}}}
    text = shown(report.html(replace(run, facts=there), analysis, experiment, "1"))
    assert "tester AF_XDP" in text
    assert text.count("receiver, maximum rate without loss 1.46 Mframe/s") == 1


def test_html_in_packet_results_is_escaped(made: Made) -> None:
    """Escape a verdict, a place, a port and a fallback that look like HTML."""
    run, analysis, experiment = made
    found = analysis.forwarding[0]
    cell = found.cells[0]
    evil = replace(
        found,
        cells=(
            replace(
                cell,
                verdict=replace(
                    cell.verdict, seen=(LibraryGaveUp(said=EVIL),), place=AtPort(port=EVIL), limit=EVIL
                ),
            ),
        ),
        paths=(replace(found.paths[0], port=EVIL, path=EVIL, reasons=(PathFallback(said=EVIL),)),),
        shared=(replace(found.shared[0], seen=PortsUnplaced(code="no-thread-of-its-own", ports=(EVIL,))),),
        curves=tuple(
            replace(curve, metric=replace(curve.metric, dimensions=Dimensions(part=EVIL)))
            for curve in analysis.forwarding[1].curves
        ),
    )
    text = report.html(run, replace(analysis, forwarding=(evil,)), experiment, "1")
    elements = parsed(text)
    assert not list(elements.named("img"))
    assert "".join(elements.texts).count(EVIL) >= 6
    assert "<img" not in report.markdown(run, replace(analysis, forwarding=(evil,)), experiment, "1").replace(
        r"\<", ""
    )


@pytest.mark.parametrize("width", [60, 120])
def test_terminal_tables_fit_the_width_without_truncated_figures(made: Made, width: int) -> None:
    """Drop bounds that do not fit."""
    run, analysis, _ = made
    out = io.StringIO()
    Console(file=out, width=width, color_system=None).print(report.terminal(run, analysis))
    assert max(map(len, out.getvalue().split("\n"))) <= width
    assert "…" not in out.getvalue()
    told = " ".join(re.findall(r"Columns not shown \(the terminal is too narrow\): [^`]*`", out.getvalue()))
    assert ("upper bound" in " ".join(told.split())) == (width == 60)
    tables = re.sub(r"Columns not shown \(the terminal is too narrow\): [^`]*`", "", out.getvalue())
    assert bool(re.search(r"upper bound", tables)) == (width > 60)


def test_markdown_table_rows_have_as_many_cells_as_the_head(made: Made) -> None:
    """Check every row of a table."""
    run, analysis, experiment = made
    widths: list[int] = []
    for line in report.markdown(run, analysis, experiment, "1").split("\n"):
        widths = [*widths, len(re.findall(r"(?<!\\)\|", line))] if line.startswith("|") else []
        assert len(set(widths)) <= 1, line


def test_report_of_a_large_study_has_bounded_size_and_work(made: Made) -> None:
    """Show some hundred of 5 000 cells, state it, and bound the work."""
    run, analysis, experiment = made
    found = analysis.forwarding[0]
    many = replace(found, cells=found.cells * 120, ratios=found.ratios * 240)
    crowd = replace(analysis.forwarding[1], curves=tuple(
        replace(curve, cell={**curve.cell, "machines.dut.forward": f"f{number}"})
        for number in range(200) for curve in analysis.forwarding[1].curves
    ))  # fmt: skip
    with counted() as work:
        text = report.html(run, replace(analysis, forwarding=(many, crowd)), experiment, "1")
    assert work.calls < 6_000_000
    assert len(text) < 8_000_000
    assert "Shown: the first 400 of 5040 cells" in text
    assert "Shown: the first 12 of 400 cells" in text


def test_forwarding_table_shows_rates_in_bits(made: Made) -> None:
    """Show mean, minimum and maximum of every cell, of frames with their checksum."""
    run, analysis, _ = made
    found = next(each for each in analysis.forwarding if each.kind is PacketKind.FORWARDING)
    wanted = [
        each
        for each in analysis.estimates
        if (each.measure, each.metric) == (found.measure, Quantity("forwarded_bps_l2"))
    ]
    grid = packet_tables.bits_grid(wanted, found, run, names([], EN), 400)
    assert [head.partition(" [")[0] for head in grid.heads[-4:]] == ["mean", "min", "max", "n"]
    assert len(grid.rows) == len(wanted)
    first = next(each for each in wanted if [*each.cell.values()] == [*grid.rows[0][: grid.labels]])
    assert float(grid.rows[0][-2].replace("\u2007", "").replace("\u2008", "")) == pytest.approx(
        first.max / 1e6, rel=0.05
    )
