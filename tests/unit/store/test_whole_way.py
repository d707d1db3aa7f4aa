"""Every kind of record, written, read, analysed and reported in every format, without any loss."""

import csv
import json
import re
from datetime import UTC, datetime
from functools import partial
from io import StringIO
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from rich.console import Console
from tests.unit.records import balance, load_record, packet_trial, port
from tests.unit.report.pages import parsed
from tests.unit.store.drawn import any_of, any_series, dimensions

from iolab.analysis import analyse
from iolab.analysis.types import Analysis
from iolab.experiment import parse
from iolab.messages.failures import Failure
from iolab.messages.places import AtPort
from iolab.messages.streams import AllCpusBusy
from iolab.messages.warnings import TrialWarning
from iolab.plan.types import Plan, PlannedFactor, Step
from iolab.report import formats as report
from iolab.report import tables
from iolab.report.locale import EN
from iolab.report.names import names_of
from iolab.report.selection import leading
from iolab.results.metric import Metric, Metrics
from iolab.results.packets import PacketTrial
from iolab.results.series import Over, Series
from iolab.results.trial import Status, TrialResult
from iolab.results.verdict import Verdict
from iolab.store.folder import create_folder
from iolab.store.read import load_run, read_packets
from iolab.store.records import Samples, StoredRun, TrialRecord
from iolab.store.series import read_series
from iolab.trial.counters.drops import RING_FULL

FILE = """title: All kinds
lab:
  machines: {near: {kind: netns}, far: {kind: netns}}
  links: {lan: {ends: [near.eth0, far.eth0]}}
measure:
  it: {kind: stream, from: near, to: far}
factors:
  links.lan.mtu: [1500, 9000]
blocks: 1
"""
MTU, LABELS = "links.lan.mtu", ("1500", "9000")
KINDS = ("stream", "forwarding", "load-curve", "latency", "made-elsewhere")
LIMIT_NAMES = tuple(
    EN.table(f"packets.{table}")
    for table in ("limit_names", "program_limit_names", "own_program_limit_names")
)
"""A limit has one name for a device, one for iperf3 and one for a program of the user's own."""
ALL_BUSY = EN.text("packets.all_busy")
"""Limits at which all CPUs may be reported as busy."""
names = st.sampled_from(
    ["received_bps", "forwarded_fps", "loss_ratio", "cpu_busy_ratio", "made_elsewhere_ns"]
)
UNITS = {"_bps": "bit/s", "_fps": "frame/s", "atio": "ratio", "e_ns": "ns"}
values = st.floats(min_value=0, max_value=1e12, allow_subnormal=False)


@st.composite
def any_metrics(draw: st.DrawFn) -> Metrics:
    """Draw metrics of several quantities."""
    found = draw(st.lists(st.tuples(names, dimensions), min_size=1, max_size=6, unique=True))
    return Metrics(
        Metric(name, UNITS[name[-4:]], draw(values), about, draw(st.sampled_from(["", "generator", "line"])))
        for name, about in found
    )


@st.composite
def any_packets(draw: st.DrawFn) -> PacketTrial:
    """Draw the load trials of a packet trial."""
    frames = st.integers(0, 2**40)
    loads = [
        load_record(
            draw(values),
            draw(st.sampled_from(["none", "hop", "thread", "host", "unexplained"])),
            draw(st.none() | st.builds(AtPort, port=st.text(max_size=5))),
            purpose=draw(st.sampled_from(["search", "curve", "latency", "at-rate"])),
            share_ratio=draw(st.none() | st.floats(0, 2)),
            balances=[
                balance(
                    draw(frames),
                    draw(frames),
                    draw(frames),
                    (AtPort(port="dut.eth0"), RING_FULL, draw(frames)),
                )
            ],
            busy={draw(st.integers(0, 512)): draw(st.floats(0, 1))},
        )
        for _ in range(draw(st.integers(0, 3)))
    ]
    return packet_trial(
        loads, ports=(port("p", "send", "AF_XDP copy", "why"),), rate_fps=draw(st.none() | values)
    )


def plan_of(kind: str) -> Plan:
    """Return a plan of two cells in two blocks."""
    return Plan(
        title=f"All of {kind}",
        factors=(PlannedFactor(MTU, LABELS),),
        measures=("it",),
        baseline={MTU: LABELS[0]},
        grouping=(),
        seed=1,
        blocks=2,
        steps=tuple(
            Step(f"k{block}{level}", "it", block, 0, (level,)) for block in (1, 2) for level in (0, 1)
        ),
        unsupported=(),
        estimate_ns=1,
        digest="d" * 64,
    )


def record(step: Step, kind: str, **result: Any) -> TrialRecord:
    """Return a record of a step."""
    times = {"begin_ns": 0, "end_ns": 2, "measured_ns": 1}
    return TrialRecord(
        key=step.key, measure="it", kind=kind, direction="one-way", rest="r", block=step.block,
        cell={MTU: LABELS[step.levels[0]]}, wall="2026-01-01T00:00:00+00:00",
        result=TrialResult(**{"status": Status.OK} | times | result),
    )  # fmt: skip


@settings(max_examples=12, deadline=None, phases=[Phase.reuse, Phase.generate])
@given(
    st.sampled_from(KINDS),
    st.tuples(any_metrics(), any_metrics()),
    any_packets(),
    st.lists(any_series(), max_size=2),
    st.tuples(any_of(Verdict), any_of(TrialWarning), any_of(Failure), any_of(Failure)),
)
def test_every_result_of_a_measure_reaches_the_stored_record_and_the_report(
    tmp_path_factory: pytest.TempPathFactory,
    kind: str,
    both: tuple[Metrics, Metrics],
    packets: PacketTrial,
    series: list[Series],
    stated: tuple[Verdict, TrialWarning, Failure, Failure],
) -> None:
    """Compare records before and after, and check every format."""
    plan, (verdict, warning, failed, invalid) = plan_of(kind), stated
    folder = create_folder(tmp_path_factory.mktemp("runs"), "all", datetime(2026, 1, 1, tzinfo=UTC))
    folder.write_decision(FILE, plan, {})
    verdicts = verdict if kind == "stream" else None
    results: tuple[dict[str, Any], ...] = (
        {"metrics": both[0], "verdict": verdicts, "warnings": (warning,)},
        {"metrics": both[1], "verdict": verdicts},
        {"status": Status.FAILED, "reason": failed},
        {"status": Status.INVALID, "reason": invalid},
    )
    records = tuple(record(step, kind, **own) for step, own in zip(plan.steps, results, strict=True))
    for one in records:
        well = one.result.status is Status.OK
        samples = Samples(raw={"said": 1}, packets=packets, series=tuple(series)) if well else None
        folder.append_trial(one, samples)
    folder.close()
    run = load_run(folder.path)
    assert run.trials == records
    assert read_packets(folder.path, "k10") == packets
    assert read_series(folder.path, "k11") == tuple(series)
    analysis = analyse(run.trials, run.plan, lambda key: read_packets(folder.path, key))
    assert {(each.metric, each.cell[MTU], each.mean) for each in analysis.estimates} == {
        (metric.quantity, one.cell[MTU], metric.value) for one in records for metric in one.result.metrics
    }
    in_documents(run, analysis)
    in_texts(run, analysis)
    drawn = parsed(report.html(run, analysis, parse(FILE, "all.yaml"), "1", partial(read_series, run.folder)))
    folded = [each for each in drawn.named("details") if each.get("class") == "course"]
    assert len(folded) == (2 if any(each.over is Over.TIME for each in series) else 0)


def in_documents(run: StoredRun, analysis: Analysis) -> None:
    """Check that JSON and CSV have every figure, with its dimensions, and every statement."""
    shown = json.loads(report.show_json(run, analysis))
    for one, trial in zip(run.trials, shown["trials"], strict=True):
        assert [
            (each["name"], each["unit"], each["value"], each["dimensions"], each["limited_by"])
            for each in trial["metrics"]
        ] == [
            (each.name, each.unit, each.value, each.dimensions.known(), each.limited_by)
            for each in one.result.metrics
        ]
        assert [each["code"] for each in trial["warnings"]] == [each.code for each in one.result.warnings]
        assert (trial["status"], trial["reason"] and trial["reason"]["code"]) == (
            one.result.status.value,
            one.result.reason and one.result.reason.code,
        )
        assert (trial["verdict"] or {}).get("limit") == (one.result.verdict and one.result.verdict.limit)
    experiment = parse(FILE, "all.yaml")
    rows = list(csv.DictReader(StringIO(report.csv(run, analysis, experiment, "1", "estimates"), newline="")))
    for row, estimate in zip(rows, analysis.estimates, strict=True):
        known = estimate.metric.dimensions.known()
        assert all(row[name] in (str(value), f"'{value}") for name, value in known.items())
        assert float(row["mean"]) == estimate.mean


def in_texts(run: StoredRun, analysis: Analysis) -> None:
    """Check that page, Markdown and terminal show the leading figures, and every statement."""
    experiment, screen = parse(FILE, "all.yaml"), Console(file=StringIO(), width=400, record=True)
    screen.print(report.terminal(run, analysis))
    texts = {
        "html": " ".join(parsed(report.html(run, analysis, experiment, "1")).texts),
        "markdown": re.sub(r"\\(.)", r"\1", report.markdown(run, analysis, experiment, "1")),
        "terminal": screen.export_text(),
    }
    named = names_of(run.plan, EN)
    wanted, limits = [run.plan.title], []
    for shown in leading(analysis, run.plan.measures, 100):
        written = tables.results(shown, run, analysis, named)
        wanted.append(written.caption)
        cells = [row.cell for row in written.rows]
        assert all(estimate.cell in cells for estimate in shown.estimates)
        wanted += [text for row in written.rows for text in (row.mean, row.n)]
    for one in run.trials:
        wanted += [warning.code for warning in one.result.warnings]
        wanted += [EN.said.say_any(one.result.reason)] if one.result.reason else []
        verdict = one.result.verdict
        if verdict:
            by_limit = [each.get(verdict.limit, str(verdict.limit)) for each in LIMIT_NAMES]
            limits.append(
                [*by_limit, *([ALL_BUSY] if isinstance(next(iter(verdict.seen), None), AllCpusBusy) else [])]
            )
    for form, text in texts.items():
        whole = plain(text)
        assert [each for each in limits if not any(plain(name) in whole for name in each)] == [], form
        assert [each for each in map(plain, wanted) if each not in whole] == [], form


def plain(text: str) -> str:
    """Return a text without white space and unprintable characters."""
    return "".join(each for each in text if each.isprintable() and not each.isspace())
