"""Every kind of record, written, read, concluded from and reported in every format: nothing is lost on the way."""

import csv
import json
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.records import balance, load_record, packet_trial, port
from tests.unit.store.drawn import any_series, dimensions

from iolab import report
from iolab.analysis import analyse
from iolab.experiment import parse
from iolab.plan.types import Plan, PlannedFactor, Step
from iolab.record.metric import Metric, Metrics
from iolab.record.packets import PacketTrial
from iolab.record.series import Series
from iolab.record.trial import Status, TrialResult
from iolab.statements.drop_reasons import RingFull
from iolab.statements.places import AtPort
from iolab.statements.warnings import CountersMissing
from iolab.store.folder import create_folder
from iolab.store.read import load_run
from iolab.store.records import Samples, TrialRecord
from iolab.store.samples import read_packets
from iolab.store.series import read_series

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
KINDS = ("stream", "forwarding", "load-curve", "latency", "made-elsewhere")
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
                    (AtPort(port="dut.eth0"), RingFull(), draw(frames)),
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
    """Return a plan of two cells."""
    return Plan(
        title="All kinds",
        factors=(PlannedFactor("links.lan.mtu", ("1500", "9000")),),
        measures=("it",),
        baseline={"links.lan.mtu": "1500"},
        grouping=(),
        seed=1,
        blocks=1,
        steps=tuple(Step(f"k{level}", "it", 1, 0, (level,)) for level in (0, 1)),
        unsupported=(),
        estimate_ns=1,
        digest="d" * 64,
    )


def record(key: str, kind: str, label: str, metrics: Metrics) -> TrialRecord:
    """Return a record of a trial that ended well."""
    result = TrialResult(
        status=Status.OK, metrics=metrics, warnings=(CountersMissing(place="far.eth0"),),
        begin_ns=0, end_ns=2, measured_ns=1,
    )  # fmt: skip
    return TrialRecord(
        key=key, measure="it", kind=kind, direction="one-way", rest="r", block=1, cell={"links.lan.mtu": label},
        wall="2026-01-01T00:00:00+00:00", result=result,
    )  # fmt: skip


@settings(max_examples=6, deadline=None)
@given(
    st.sampled_from(KINDS),
    st.tuples(any_metrics(), any_metrics()),
    any_packets(),
    st.lists(any_series(), max_size=2),
)
def test_nothing_is_lost_between_a_measure_and_a_report(
    tmp_path_factory: pytest.TempPathFactory,
    kind: str,
    both: tuple[Metrics, Metrics],
    packets: PacketTrial,
    series: list[Series],
) -> None:
    """What is read is what was written, and every metric is in the JSON and the CSV with its dimensions."""
    plan = plan_of(kind)
    folder = create_folder(tmp_path_factory.mktemp("runs"), "all", datetime(2026, 1, 1, tzinfo=UTC))
    folder.write_decision(FILE, plan, {})
    records = tuple(record(f"k{at}", kind, plan.factors[0].labels[at], own) for at, own in enumerate(both))
    for one in records:
        folder.append_trial(one, Samples(raw={"said": 1}, packets=packets, series=tuple(series)))
    folder.close()
    run = load_run(folder.path)
    assert run.trials == records
    assert read_packets(folder.path, "k0") == packets
    assert read_series(folder.path, "k1") == tuple(series)
    analysis = analyse(run.trials, run.plan, lambda key: read_packets(folder.path, key))
    assert {(each.metric, each.cell["links.lan.mtu"], each.mean) for each in analysis.estimates} == {
        (metric.quantity, one.cell["links.lan.mtu"], metric.value)
        for one in records
        for metric in one.result.metrics
    }
    _in_every_format(folder.path, records)


def _in_every_format(path: Path, records: tuple[TrialRecord, ...]) -> None:
    run, experiment = load_run(path), parse(FILE, "all.yaml")
    analysis = analyse(run.trials, run.plan, lambda key: read_packets(path, key))
    shown = json.loads(report.show_json(run, analysis))
    for one, trial in zip(records, shown["trials"], strict=True):
        assert [
            (each["name"], each["unit"], each["value"], each["dimensions"], each["limited_by"])
            for each in trial["metrics"]
        ] == [
            (each.name, each.unit, each.value, each.dimensions.known(), each.limited_by)
            for each in one.result.metrics
        ]
    rows = list(csv.DictReader(StringIO(report.csv(run, analysis, experiment, "1", "estimates"), newline="")))
    assert len(rows) == len(analysis.estimates)
    for row, estimate in zip(rows, analysis.estimates, strict=True):
        known = estimate.metric.dimensions.known()
        assert all(row[name] in (str(value), f"'{value}") for name, value in known.items())
    for text in (
        report.html(run, analysis, experiment, "1"),
        report.markdown(run, analysis, experiment, "1"),
    ):
        assert "All kinds" in text
    report.terminal(run, analysis)
