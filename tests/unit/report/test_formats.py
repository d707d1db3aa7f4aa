"""Contents of each report format for one run."""

import csv as reader
import io
import json
import math
import re
from dataclasses import replace

import pytest
from rich.console import Console, RenderableType
from tests.unit.records import metrics
from tests.unit.report.builder import FACTORS, quickstart
from tests.unit.report.conftest import Made

from iolab.analysis import analyse, compare
from iolab.analysis.path_product import PathProduct
from iolab.analysis.types import Interval
from iolab.cli.results import Format
from iolab.messages.evidence import ThreadRan
from iolab.messages.failures import PlainFailure
from iolab.messages.notes import LastLineCut, TrialsResembleNeighbours
from iolab.messages.places import AtMachine
from iolab.messages.streams import OfFlow, ProgramRan, WorkerRan
from iolab.messages.warnings import Emulated
from iolab.report import formats as report
from iolab.report import packets, sentences, spreadsheet
from iolab.report.locale import EN
from iolab.report.names import names
from iolab.results.metric import Dimensions, Metric, Metrics
from iolab.results.trial import Status
from iolab.results.verdict import Limit, Verdict
from iolab.store.records import RunStatus


def printed(shown: RenderableType, width: int) -> str:
    """Print to a string."""
    out = io.StringIO()
    Console(file=out, width=width, color_system=None).print(shown)
    return out.getvalue()


@pytest.mark.parametrize("width", [80, 100, 200])
def test_terminal_table_shows_every_cell_within_the_terminal_width(made: Made, width: int) -> None:
    """Show complete labels; drop min and max first on a narrow terminal."""
    run, analysis, _ = made
    text = printed(report.terminal(run, analysis), width)
    lines = text.split("\n")
    assert max(map(len, lines)) <= width
    assert sum(bool(re.match(r" ?(one-way|both-ways) +(1500|9000) +(on|off) ", line)) for line in lines) == 16
    assert "Gbit/s]" in text
    assert ("min" in text.split()) == (width > 100)
    assert "loss" in text.split()
    told = [
        line for line in lines if line.startswith("Columns not shown (the terminal is too narrow): min, max")
    ]
    assert len(told) == (2 if width <= 100 else 0), "of both measures"


def test_terminal_reports_outliers_warnings_and_invalid_trials(made: Made) -> None:
    """Show the reason of an outlier with the mean without it, counts of warnings, and reasons of lost trials."""
    run, analysis, _ = made
    text = " ".join(printed(report.terminal(run, analysis), 200).split())
    assert "† one-way, MTU 9000, offload on, block 2:" in text
    assert "Mean without this trial: 30" in text
    assert "counters-disagree: 40 of 160 trials" in text
    assert (
        "invalid trials: 1 (UDP, one-way, MTU 9000, offload off): MTU of near.eth0 read back as 1500" in text
    )


def test_summary_shows_changes_with_their_intervals(made: Made) -> None:
    """Find the simulated effects in sentences with signs, intervals and the reference."""
    run, analysis, experiment = made
    text = report.markdown(run, analysis, experiment, "1.2.3").replace("\\", "").replace("\u00a0", " ")
    assert re.search(r"MTU 9000 changes TCP by \+\d+ % \[\d+, \d+\] compared with 1500\.", text)
    assert re.search(r"Offload off changes TCP by −5\d\.\d % \[−5\d\.\d, −5\d\.\d\] compared with on\.", text)
    assert re.search(r"MTU 9000 shows no difference from 1500 for UDP", text)


def test_run_with_too_few_blocks_has_no_interval_column(small: Made) -> None:
    """Show neither column nor empty brackets with three blocks."""
    run, analysis, experiment = small
    text = report.markdown(run, analysis, experiment, "1.2.3")
    head = next(line for line in text.split("\n") if line.startswith("| direction"))
    assert "CI" not in head
    assert "nan" not in text.lower()
    assert "None" not in text


def test_markdown_table_rows_have_as_many_cells_as_the_head(made: Made) -> None:
    """Check every row, whatever the texts contain."""
    run, analysis, experiment = made
    lines = report.markdown(run, analysis, experiment, "1.2.3").split("\n")
    widths: list[int] = []
    for line in lines:
        if not line.startswith("|"):
            widths = []
            continue
        widths.append(len(re.findall(r"(?<!\\)\|", line)))
        assert widths[0] == widths[-1], line


def test_markdown_escapes_markup_in_a_title() -> None:
    """Keep HTML, a table bar, emphasis and a line break as text on one line."""
    run, experiment = quickstart(3)
    run = replace(run, plan=replace(run.plan, title="<img src=x onerror=alert(1)> | *bold*\n# head"))
    text = report.markdown(run, analyse(run.trials, run.plan), experiment, "1.2.3")
    assert text.split("\n")[0] == r"# \<img src=x onerror=alert(1)\> \| \*bold\* \# head"


def test_csv_has_a_row_per_estimate_with_full_precision(made: Made) -> None:
    """Read back all estimates exactly, with CR LF line ends."""
    run, analysis, experiment = made
    text = report.csv(run, analysis, experiment, "1.2.3")
    rows = list(reader.DictReader(io.StringIO(text, newline="")))
    assert len(rows) == len(analysis.estimates)
    assert [float(row["mean"]) for row in rows] == [estimate.mean for estimate in analysis.estimates]
    assert rows[0]["links.lan.mtu"] == "1500"
    assert rows[0]["is_baseline"] == "yes"
    assert text.count("\r\n") == text.count("\n") == len(rows) + 1


def test_csv_has_a_row_per_trial(made: Made) -> None:
    """Include the metrics of every trial; leave those of an invalid one empty, with a reason."""
    run, analysis, experiment = made
    text = report.csv(run, analysis, experiment, "1.2.3", "trials")
    rows = list(reader.DictReader(io.StringIO(text, newline="")))
    assert len(rows) == 160
    assert float(rows[0]["received_bps [bit/s]"]) == run.trials[0].result.metrics["received_bps"].value
    invalid = [row for row in rows if row["status"] == "invalid"]
    assert len(invalid) == 2
    assert {row["received_bps [bit/s]"] for row in invalid} == {""}
    assert all("read back" in row["reason"] for row in invalid)


def test_csv_fields_cannot_be_run_as_formulas() -> None:
    """Prefix a level that a spreadsheet would run with an apostrophe; keep negative numbers."""
    factors = {
        "*.direction": ("=cmd|' /C calc'!A0", "-5"),
        "links.lan.mtu": ("1500",),
        "links.lan.offload": ("on",),
    }
    run, experiment = quickstart(3, factors=factors)
    text = report.csv(run, analyse(run.trials, run.plan), experiment, "1.2.3", "trials")
    labels = {
        row["'*.direction" if "'*.direction" in row else "*.direction"]
        for row in reader.DictReader(io.StringIO(text))
    }
    assert labels == {"'=cmd|' /C calc'!A0", "-5"}


def test_json_has_exactly_the_documented_keys(made: Made) -> None:
    """Compare with docs/reference/show-json.md; intervals are pairs or null."""
    run, analysis, _ = made
    document = json.loads(report.show_json(run, analysis))
    assert list(document) == [
        "schema", "run", "status", "notes", "joined_late", "trials", "estimates",
        "findings", "effects", "onsets", "warnings", "levels", "levels_ratios", "paths", "streams", "forwarding",
        "expectations",
    ]  # fmt: skip
    assert (document["schema"], document["run"], document["status"]) == (2, run.name, "complete")
    assert {tuple(trial) for trial in document["trials"]} == {
        (
            "key",
            "cell",
            "block",
            "measure",
            "status",
            "reason",
            "kind",
            "direction",
            "warnings",
            "verdict",
            "metrics",
            "in_effect",
        )
    }
    disagreeing = next(
        trial for trial in document["trials"] if trial["warnings"] and trial["measure"] == "udp"
    )
    (warning,) = disagreeing["warnings"]
    assert (warning["code"], warning["parameters"]["place"]) == ("counters-disagree", "far.eth0")
    assert "the counters of far.eth0 show 1300000000 bytes of payload" in warning["text"]
    assert "the receiver is the limit" in warning["advice"]
    keys = (
        "cell",
        "measure",
        "metric",
        "dimensions",
        "direction",
        "unit",
        "better",
        "method",
        "n",
        "mean",
        "min",
        "max",
        "median",
        "ci",
        "ratio",
        "ratio_ci",
        "bounds",
        "limited_by",
        "ratio_bound",
    )
    assert {tuple(estimate) for estimate in document["estimates"]} == {keys}
    assert document["trials"][0]["metrics"][0] == {
        "name": "received_bps",
        "dimensions": {},
        "value": run.trials[0].result.metrics["received_bps"].value,
        "unit": "bit/s",
        "limited_by": "",
        "better": "",
        "method": 1,
    }
    assert document["forwarding"] == []
    assert all(ci is None or len(ci) == 2 for ci in (estimate["ci"] for estimate in document["estimates"]))


def test_json_writes_non_finite_values_as_null(made: Made) -> None:
    """Replace NaN and infinity, which JSON lacks."""
    run, analysis, _ = made
    odd = replace(run.trials[0].result, metrics=metrics({"received_bps": (math.nan, "bit/s")}))
    text = report.show_json(replace(run, trials=(replace(run.trials[0], result=odd),)), analysis)
    assert json.loads(text)["trials"][0]["metrics"][0]["value"] is None


def test_repeated_trial_is_shown_once(made: Made) -> None:
    """Show only the last of two records with one key."""
    run, analysis, _ = made
    again = replace(run.trials[0], wall="2026-08-01T00:00:00+00:00")
    document = json.loads(report.show_json(replace(run, trials=(*run.trials, again)), analysis))
    assert len(document["trials"]) == 160


def test_partial_run_states_its_progress_in_every_format(made: Made) -> None:
    """State that figures are preliminary."""
    run, _, experiment = made
    partial = replace(run, trials=run.trials[:100], status=RunStatus.PARTIAL)
    analysis = analyse(partial.trials, partial.plan)
    for text in (
        printed(report.terminal(partial, analysis), 200),
        report.markdown(partial, analysis, experiment, "1.2.3"),
        report.html(partial, analysis, experiment, "1.2.3"),
    ):
        assert "100 of 160 planned trials are recorded" in text


def test_run_without_trials_can_be_reported_in_every_format(made: Made) -> None:
    """Accept an empty run in any format."""
    run, _, experiment = made
    empty = replace(run, trials=(), commands=(), status=RunStatus.PARTIAL, facts={})
    analysis = analyse((), empty.plan)
    assert "No trial has succeeded yet" in printed(report.terminal(empty, analysis), 80)
    assert "No trial has succeeded yet" in report.markdown(empty, analysis, experiment, "1.2.3")
    page = report.html(empty, analysis, experiment, "1.2.3")
    assert "No trial has succeeded yet" in page
    assert len(page) < 100_000, "the charts' library is left out where there are no charts"


def test_emulated_results_are_marked_before_the_first_figure(made: Made) -> None:
    """Mark a run with the warning emulated in every format."""
    run, _, experiment = made
    mark = Emulated(machines=("dut",))
    trials = tuple(replace(trial, result=replace(trial.result, warnings=(mark,))) for trial in run.trials)
    emulated = replace(run, trials=trials)
    analysis = analyse(emulated.trials, emulated.plan)
    for text in (
        printed(report.terminal(emulated, analysis), 200),
        report.markdown(emulated, analysis, experiment, "1.2.3"),
        report.html(emulated, analysis, experiment, "1.2.3"),
    ):
        assert "Emulated: the figures of" in text
        assert text.index("Emulated: the figures of") < text.index("received rate")


def test_failed_baseline_is_reported_as_the_reason_for_missing_changes(made: Made) -> None:
    """State in every format why percentages are missing."""
    run, _, experiment = made
    failed = [
        replace(
            trial,
            result=replace(
                trial.result,
                status=Status.FAILED,
                reason=PlainFailure(code="nothing-forwarded"),
                metrics=Metrics(),
            ),
        )
        if trial.measure == "tcp"
        and trial.cell["links.lan.mtu"] == "1500"
        and trial.cell["links.lan.offload"] == "on"
        else trial
        for trial in run.trials
    ]
    lost = replace(run, trials=tuple(failed))
    analysis = analyse(lost.trials, lost.plan)
    said = "No change is given for 6 of 6 cells. Their baseline (MTU 1500, offload on) has no such figure"
    assert said in " ".join(printed(report.terminal(lost, analysis), 200).split())
    assert said in report.markdown(lost, analysis, experiment, "1")
    assert said in report.html(lost, analysis, experiment, "1")


def test_baseline_excluded_from_the_run_is_not_reported_as_failed(made: Made) -> None:
    """Name the level that all cells of the run lack."""
    run, _, _ = made
    place = [factor.name for factor in run.plan.factors].index("links.lan.mtu")
    kept = tuple(
        step for step in run.plan.steps if run.plan.factors[place].labels[step.levels[place]] == "9000"
    )
    keys = {step.key for step in kept}
    part = replace(
        run,
        plan=replace(run.plan, steps=kept),
        trials=tuple(trial for trial in run.trials if trial.key in keys),
    )
    text = " ".join(printed(report.terminal(part, analyse(part.trials, part.plan)), 200).split())
    said = "No change is given for 4 of 4 cells, because no cell of this run has the levels of the baseline"
    assert f"{said}: MTU 1500." in text


def with_flows(whole: Metrics) -> Metrics:
    """Return metrics with those of two flows, one of which gets three quarters."""
    rate_bps = whole["received_bps"].value
    shares = {"near->far": 0.75, "far->near": 0.25}
    return Metrics(
        (
            *whole,
            *(
                Metric("received_bps", "bit/s", rate_bps * share, Dimensions(flow=flow))
                for flow, share in shares.items()
            ),
        )
    )


def test_loss_fairness_and_flow_rates_are_shown_with_the_rate(made: Made) -> None:
    """Show UDP loss, fairness and each flow's rate, which a sum hides."""
    run, _, _ = made
    both = [
        replace(trial, result=replace(trial.result, metrics=with_flows(trial.result.metrics)))
        if trial.cell["*.direction"] == "both-ways" and len(trial.result.metrics) else trial
        for trial in run.trials
    ]  # fmt: skip
    double = replace(run, trials=tuple(both))
    lines = printed(report.terminal(double, analyse(double.trials, double.plan)), 120).split("\n")
    (begin,) = [index for index, line in enumerate(lines) if line.startswith("UDP: means of received rate [")]
    assert "near → far" in lines[begin + 2]
    assert sum("both-ways" in line for line in lines[begin : begin + 8]) == 4
    assert not any("one-way" in line for line in lines[begin : begin + 8])
    (heads,) = [index for index, line in enumerate(lines) if line.split() == ["mean", "loss", "sent", "rate"]]
    units = re.findall(r"\[.*?\]", lines[heads + 1])
    assert (units[1], units[0]) == ("[%]", units[2]), "what was sent stands in the unit of what was received"
    assert any(" fairness " in line for line in lines)


def test_rates_of_flows_are_visible_without_a_click(made: Made) -> None:
    """Do not fold the shares of a link."""
    run, _, experiment = made
    trials = tuple(
        replace(trial, result=replace(trial.result, metrics=with_flows(trial.result.metrics)))
        for trial in run.trials
        if len(trial.result.metrics)
    )
    double = replace(run, trials=trials)
    page = report.html(double, analyse(double.trials, double.plan), experiment, "1")
    before = page[: page.index("UDP: means of received rate")]
    assert before.count("<details") == before.count("</details>")


def test_notes_on_the_run_come_before_the_first_figure(made: Made) -> None:
    """Show late trials and reading problems in every format."""
    run, analysis, experiment = made
    told = replace(run, joined_late=7, notes=(LastLineCut(file="trials.jsonl"),))
    for text in (
        printed(report.terminal(told, analysis), 400),
        report.markdown(told, analysis, experiment, "1"),
        report.html(told, analysis, experiment, "1"),
    ):
        assert "by `iolab extend`: 7." in text.replace("\\`", "`")
        assert "was not written completely" in text


def test_summary_shows_a_common_value_once() -> None:
    """Avoid 'from 12 to 12'."""
    run, _ = quickstart(1, outlier=False)
    same = [
        replace(trial, result=replace(trial.result, metrics=metrics({"received_bps": (12e9, "bit/s")})))
        for trial in run.trials
    ]
    analysis = analyse(same, run.plan)
    lines = sentences.summary(analysis, run.plan.measures, names(FACTORS, EN))
    assert lines[0].replace("\u00a0", " ") == "TCP received rate: 12.0 Gbit/s in all 8 cells."


def test_summary_leaves_out_cells_with_only_a_bound_where_it_states_a_common_value() -> None:
    """Let one cell of eight be limited by the generator at twice the rate."""
    run, _ = quickstart(1, outlier=False)
    bounded = run.trials[0].cell
    same = [
        replace(
            trial,
            result=replace(
                trial.result,
                metrics=Metrics(
                    [Metric.of("received_bps", 24e9, limited_by="the generator")]
                    if trial.cell == bounded
                    else [Metric.of("received_bps", 12e9)]
                ),
            ),
        )
        for trial in run.trials
    ]
    analysis = analyse(same, run.plan)
    (line, *_) = sentences.summary(analysis, run.plan.measures, names(FACTORS, EN))
    assert line.replace("\u00a0", " ") == (
        "TCP received rate: 12.0 Gbit/s in 7 of 8 cells; the other cells have only a bound."
    )


@pytest.mark.parametrize(
    ("factor", "level", "begin"),
    [
        ("pairs.flows", "second", "Flows second "),
        ("pair", "second", "Pair second "),
        ("machines.dut.nic", "e1000", "e1000 "),
        ("*.direction", "both-ways", "Both-ways "),
        ("links.lan.mtu", "9000", "MTU 9000 "),
    ],
)
def test_finding_sentence_names_the_changed_factor(made: Made, factor: str, level: str, begin: str) -> None:
    """Avoid 'second gives -46 %'."""
    _, analysis, _ = made
    found = replace(analysis.findings[0], factor=factor, level=level, reference="other", conditions={})
    assert sentences.finding(found, analysis, names([factor], EN)).startswith(begin)


def test_finding_sentence_states_that_the_figure_is_per_direction(made: Made) -> None:
    """Distinguish it from the table, which has sums over both directions."""
    _, analysis, _ = made
    found = replace(analysis.findings[0], measure="udp", conditions={}, each_direction=True)
    assert " changes UDP in each direction by " in sentences.finding(found, analysis, names(FACTORS, EN))
    assert "direction" not in sentences.finding(
        replace(found, factor="links.lan.mtu", each_direction=False), analysis, names(FACTORS, EN)
    )


def test_insignificant_finding_states_detection_limit_or_correction_as_reason(made: Made) -> None:
    """Give the detectable change for one comparison whose interval excludes 0."""
    _, analysis, _ = made
    found = replace(
        analysis.findings[0],
        measure="tcp",
        ratio=1.3,
        ci=Interval(1.05, 1.6, "t"),
        shown=False,
        conditions={},
    )
    told = {
        least: sentences.finding(found, replace(analysis, detectable={"tcp": least}), names(FACTORS, EN))
        for least in (0.4, 0.2)
    }
    assert "interval excludes 0, because it is smaller than 40" in told[0.4]
    assert (
        "interval excludes 0, because it is not significant after the correction for all comparisons"
        in told[0.2]
    )


def test_wide_interval_around_no_change_is_reported_as_not_told_apart(made: Made) -> None:
    """State no difference for an interval of 10 % both ways, but not for one of 60 %, if 20 % can be detected."""
    _, analysis, _ = made
    able = replace(analysis, detectable={"tcp": 0.2})
    none = replace(analysis.findings[0], measure="tcp", ratio=1.0, shown=False)
    narrow = replace(none, ci=Interval(0.9, 1.1, "t"))
    assert "shows no difference" in sentences.finding(narrow, able, names(FACTORS, EN))
    wide = replace(none, ci=Interval(0.4, 1.6, "t"))
    assert "too wide to tell whether there is a difference" in sentences.finding(
        wide, able, names(FACTORS, EN)
    )


def test_run_with_a_huge_detection_limit_is_reported_as_too_few_blocks(made: Made) -> None:
    """Hide a detection limit of 35189 %, which is no information."""
    _, analysis, _ = made
    found = replace(analysis.findings[0], measure="tcp", ratio=1.3, ci=Interval(0.1, 9, "t"), shown=False)
    coarse = replace(analysis, detectable={"tcp": 351.89}, spread={"tcp": 0.5})
    assert "too few blocks to distinguish" in sentences.finding(found, coarse, names(FACTORS, EN))
    assert all("35189" not in line for line in sentences.resolution(coarse, ("tcp",), names(FACTORS, EN)))


def test_comparison_names_both_runs_and_judges_each_cell() -> None:
    """Compare two runs of equal truth: no cell differs; the table fits 80 columns."""
    (a, _), (b, _) = quickstart(4, outlier=False), quickstart(4, seed=9, outlier=False)
    compared = compare(replace(a, name="run-a"), replace(b, name="run-b"))
    text = printed(report.comparison(compared), 80)
    assert "run-a (A) compared with run-b (B)" in text
    assert text.count("none shown") == 16
    assert max(map(len, text.split("\n"))) <= 80
    assert report.comparison_text(compared).count("none shown") == 16


def test_notes_of_the_analysis_are_in_every_format(made: Made) -> None:
    """Include autocorrelation and excluded trials in every format."""
    run, analysis, experiment = made
    said = "trials of tcp are correlated with the previous trial"
    note = TrialsResembleNeighbours(measure="tcp", autocorrelation=0.61)
    noted = replace(analysis, notes=(*analysis.notes, note))
    assert said in printed(report.terminal(run, noted), 200)
    assert said in report.markdown(run, noted, experiment, "1")
    assert said in report.html(run, noted, experiment, "1")


@pytest.mark.parametrize(
    ("limit", "words"),
    [(Limit.THREAD, "one thread of iperf3"), (Limit.CPU, "the CPU of one thread of iperf3")],
)
def test_cpu_bound_program_of_a_stream_is_not_reported_as_the_device(
    made: Made, limit: Limit, words: str
) -> None:
    """Attribute a thread at an end to the measuring program, and one on the path to the device."""
    run, _, _ = made
    own = ProgramRan(machine="near", busy_ratio=0.99, wait_ratio=0.0)
    for seen, said in (
        ((own,), words),
        ((OfFlow(flow="near->far", clauses=(own,)),), words),
        ((WorkerRan(thread="ksoftirqd/1", busy_ratio=0.99),), "of the device"),
    ):
        verdict = Verdict(limit, seen, AtMachine(machine="near"))
        trials = tuple(replace(each, result=replace(each.result, verdict=verdict)) for each in run.trials)
        lines = packets.limit_lines(analyse(trials, run.plan), names(FACTORS, EN))
        assert lines
        assert all(said in line for line in lines)


def test_stream_limit_is_in_json_and_in_the_table_of_limits(made: Made) -> None:
    """Give a verdict per trial, and the most common one per cell with its sentence."""
    run, _, _ = made
    verdict = Verdict(Limit.THREAD, (ThreadRan(thread="iperf3", busy_ratio=0.99),), AtMachine(machine="near"))
    trials = tuple(replace(each, result=replace(each.result, verdict=verdict)) for each in run.trials)
    limited = replace(run, trials=trials)
    analysis = analyse(trials, run.plan)
    document = json.loads(report.show_json(limited, analysis))
    said = [each["verdict"] for each in document["trials"]]
    assert {(each["limit"], each["place"]["parameters"]["machine"]) for each in said} == {("thread", "near")}
    cells = [cell for measure in document["streams"] for cell in measure["cells"]]
    assert {cell["verdict"]["limit"] for cell in cells} == {"thread"}
    rows = list(reader.DictReader(io.StringIO(spreadsheet.table(limited, analysis, "limits"))))
    assert len(rows) == len(cells)
    assert {(row["limit"], row["place"]) for row in rows} == {("thread", "near")}


def test_path_factors_are_shown_with_rate_rtt_and_bandwidth_delay_product(small: Made) -> None:
    """Include a cable with declared path: 10 Gbit/s times 40 ms are 50 MB."""
    run, analysis, experiment = small
    declared = PathProduct(rate_bps=10_000_000_000, one_way_ns=20_000_000, rtt_ns=40_000_000)
    known = replace(analysis, paths={"tcp": declared})
    texts = [
        " ".join(printed(report.terminal(run, known), 200).split()),
        report.markdown(run, known, experiment, "1"),
        report.pukiwiki(run, known, experiment, "1"),
        report.html(run, known, experiment, "1"),
    ]
    for text in texts:
        assert "a rate of 10 Gbit/s and an unloaded round-trip time of 40 ms" in text
        assert "bandwidth-delay product is 47.7 MiB" in text
    (shown,) = json.loads(report.show_json(run, known))["paths"]
    assert (shown["rate_bps"], shown["rtt_ns"], shown["round_trip_bytes"]) == (10**10, 40_000_000, 5e7)


def test_command_line_offers_every_report_format() -> None:
    """List the names without loading the formats."""
    assert [form.value for form in Format] == list(report.FORMATS)
