"""Runs of older versions (tests/golden/) are read, shown and reported with the figures in their files."""

import csv
import gzip
import io
import json
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from iolab.analysis import analyse, compare
from iolab.analysis.types import Analysis
from iolab.experiment import parse
from iolab.experiment.experiment import Experiment
from iolab.plan.planning import gives_plan
from iolab.report import formats
from iolab.results.metric import Dimensions, Metrics
from iolab.store.read import experiment_text, load_run, read_packets
from iolab.store.records import TRIAL_SCHEMA, StoredRun, TrialRecord
from iolab.store.series import series_of

GOLDEN = Path(__file__).parents[2] / "golden"
RUNS = sorted(path.parent for path in GOLDEN.glob("*/plan.json"))
LARGEST_BYTES = 3 * 2**20
WITH_METHODS = 3
"""The first schema whose metrics have a method version."""
UNITS = {"pps": "frame/s"}
"""Unit names of the first schema."""

each_run = pytest.mark.parametrize("folder", RUNS, ids=lambda folder: folder.name)


def expected(folder: Path) -> dict[str, Any]:
    """Return the figures in the files of a run, as extracted by tests/golden/make.py without any code of iolab."""
    document: dict[str, Any] = json.loads(folder.with_name(f"{folder.name}.expected.json").read_text())
    return document


def read(folder: Path) -> tuple[StoredRun, Analysis, Experiment]:
    """Return a run as read by the commands."""
    run = load_run(folder)
    analysis = analyse(run.trials, run.plan, partial(read_packets, folder))
    return run, analysis, parse(experiment_text(folder), folder.name)


def label(about: Dimensions, name: str) -> str:
    """Return a metric's name in the first schema's form, with its dimensions in square brackets."""
    load = "" if about.load_ratio is None else f"{about.load_ratio * 100:.6g} %"
    rest = {
        "device": about.port,
        "guest": f"{about.machine} {about.thread}",
        "kernel": f"{about.machine or ''} {about.thread}".strip(),
    }.get(about.role or "", " ".join(filter(None, (about.role, about.port))))
    if about.queue is not None:
        rest = f"{about.port} rx {about.queue}"
    if about.cpu is not None:
        rest = f"cpu{about.cpu}"
    rest = rest or about.flow or about.machine or ""
    return f"{name}[{f'{load} {rest}'.strip()}]" if load or rest else name


@each_run
def test_every_figure_of_an_old_trial_is_read_unchanged(folder: Path) -> None:
    """Compare dimensions, unit and bound to the digit; include failed and invalid trials."""
    run = load_run(folder)
    recorded = expected(folder)["trials"]
    assert len(run.trials) == len(recorded) > 0
    for record, trial in zip(run.trials, recorded, strict=True):
        assert (record.key, record.measure, record.block) == (trial["key"], trial["measure"], trial["block"])
        assert (dict(record.cell), record.result.status.value) == (trial["cell"], trial["status"])
        assert (record.result.reason is None) == (trial["reason"] is None)
        assert record.kind
        read_back = [
            [
                label(metric.dimensions, metric.name) if not about else metric.name,
                dict(metric.dimensions.known()) if about else {},
                metric.unit,
                metric.value,
                metric.limited_by,
            ]
            for metric, (_, about, *_) in zip(record.result.metrics, trial["figures"], strict=True)
        ]
        assert read_back == [
            [
                name.replace("arrivals", "napi"),
                about,
                UNITS.get(unit, unit),
                *figure,
            ]  # a renamed role
            for name, about, unit, *figure in trial["figures"]
        ]
        if trial["schema"] < WITH_METHODS:
            assert all(metric.method is None for metric in record.result.metrics), "unknown, and not guessed"


@each_run
def test_load_trials_and_series_of_an_old_run_are_read_unchanged(folder: Path) -> None:
    """Read them from any file of an older version."""
    recorded = expected(folder)
    run = load_run(folder)
    assert recorded["packets"].keys() == {
        each.key for each in run.trials if read_packets(folder, each.key) is not None
    }
    for key, load_trials in recorded["packets"].items():
        packets = read_packets(folder, key)
        assert packets is not None
        assert [
            [
                one.result.offered_frames,
                one.result.forwarded_frames,
                one.verdict.limit.value,
                [[drop.frames for drop in balance.drops] for balance in one.balances],
            ]
            for one in packets.load_trials
        ] == load_trials
    read_series = series_of(folder)
    for key, found in recorded["series"].items():
        assert [
            [each.name, len(each.values), repr(float(each.values[0])), repr(float(each.values[-1]))]
            for each in read_series(key)
        ] == found


@each_run
def test_every_report_format_shows_the_means_of_an_old_run(folder: Path) -> None:
    """Check exact figures in formats for programs, and the rendering of formats for people."""
    run, analysis, experiment = read(folder)
    shown = json.loads(formats.show_json(run, analysis))
    rows = list(csv.DictReader(io.StringIO(formats.csv(run, analysis, experiment, "test", "estimates"))))
    for measure, cell, name, mean in expected(folder)["means"]:
        (estimate,) = [
            each
            for each in shown["estimates"]
            if (each["measure"], each["cell"], each["metric"], each["dimensions"])
            == (measure, cell, name, {})
        ]
        assert estimate["mean"] == mean
        assert mean in {float(row["mean"]) for row in rows if row["metric"] == name}
    for other in ("trials", "levels", "level-ratios", "ratios", "limits", "drops"):
        formats.csv(run, analysis, experiment, "test", other)
    page = formats.html(run, analysis, experiment, "test", series_of(folder))
    assert page.startswith("<!doctype html>")
    assert len(formats.xlsx(run, analysis, experiment, "test")) > 0
    for text in (
        formats.markdown(run, analysis, experiment, "test"),
        formats.pukiwiki(run, analysis, experiment, "test"),
    ):
        assert run.plan.title in text
    assert "samples-unreadable" not in {each.code for each in analysis.notes}


@each_run
def test_old_run_is_compared_with_a_new_run_without_claiming_a_change(folder: Path) -> None:
    """Compare means, but claim no change, because the old methods are unknown."""
    run, _, _ = read(folder)
    today = replace(run, trials=tuple(_as_of_today(each) for each in run.trials), trial_schema=TRIAL_SCHEMA)
    found = compare(run, today)
    assert found.cells
    if run.trial_schema < WITH_METHODS:
        assert all(each.ratio is None for each in found.cells)
    assert formats.comparison_text(found)
    assert formats.comparison_json(found)


@each_run
def test_plan_of_an_old_run_equals_the_plan_of_its_experiment_today(folder: Path) -> None:
    """Allow `resume`, and report no edited experiment."""
    run, _, experiment = read(folder)
    assert gives_plan(experiment, run.plan, run.facts)
    assert run.plan.computers


def _as_of_today(record: TrialRecord) -> TrialRecord:
    """Return a trial as if it had been measured by the first method versions."""
    figures = Metrics(replace(metric, method=1) for metric in record.result.metrics)
    return replace(record, result=replace(record.result, metrics=figures))


def test_golden_runs_are_anonymous_and_small() -> None:
    """Exclude names, paths, kernels, hardware addresses and serial numbers."""
    telling = re.compile(
        r'/(?:work|root|tmp)/|"hostname": ?"(?!host"|dut"|pc6"|left")|\bfc-v\d|EPYC|Xeon'
        r"|\b(?!02:00:00:00:00:01)(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\b"
    )
    files = [
        path for path in GOLDEN.rglob("*") if path.is_file() and path.name not in ("make.py", "README.md")
    ]
    for path in files:
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode(errors="replace")
        assert telling.search(text) is None, path
    assert sum(path.stat().st_size for path in files) <= LARGEST_BYTES


def test_run_whose_plan_renames_a_measure_is_analysed() -> None:
    """Match trials to steps by keys, which exclude names."""
    run = load_run(GOLDEN / "schema-2-last-streams")
    names = {"tcp": "renamed"}
    steps = tuple(replace(step, measure=names.get(step.measure, step.measure)) for step in run.plan.steps)
    plan = replace(run.plan, measures=tuple(names.get(each, each) for each in run.plan.measures), steps=steps)
    found = analyse(run.trials, plan)
    assert {each.measure for each in found.estimates} == {"renamed", "udp"}
    assert compare(run, replace(run, plan=plan)).only_a


@pytest.mark.parametrize("name", ["schema-1-first-packets", "schema-2-first-packets"])
def test_figures_that_an_old_packet_trial_lacks_are_none(name: str) -> None:
    """Return None instead of zero for uncounted figures."""
    folder = GOLDEN / name
    found = [read_packets(folder, one.key) for one in load_run(folder).trials]
    results = [trial.result for packets in found if packets is not None for trial in packets.load_trials]
    assert results
    assert {(one.held_ns, one.calm_frames, one.calm_lost_frames) for one in results} == {(None, None, None)}
    counted = name == "schema-2-first-packets"
    assert all(
        (one.excused_frames is not None) == (one.late_frames is not None) == counted for one in results
    )
