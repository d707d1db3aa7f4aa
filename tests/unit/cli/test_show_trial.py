"""`iolab show RUN --trial KEY`: one trial over time, selected by the beginning of its key."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.unit.records import metrics

from iolab.cli.main import run
from iolab.errors import ExitCode
from iolab.plan.types import Plan, PlannedFactor, Step
from iolab.results.metric import Dimensions
from iolab.results.series import series
from iolab.results.trial import Status, TrialResult
from iolab.store.folder import create_folder
from iolab.store.records import Samples, TrialRecord

FILE = """
title: Two MTUs
lab:
  machines: {near: {kind: netns}, far: {kind: netns}}
  links: {lan: {ends: [near.eth0, far.eth0]}}
measure:
  tcp: {kind: stream, from: near, to: far}
factors:
  links.lan.mtu: [1500, 9000]
"""
PLAN = Plan(
    title="Two MTUs", factors=(PlannedFactor("links.lan.mtu", ("1500", "9000")),), measures=("tcp",),
    baseline={"links.lan.mtu": "1500"}, grouping=(), seed=1, blocks=1,
    steps=(Step("a001", "tcp", 1, 0, (0,)), Step("a002", "tcp", 1, 0, (1,))),
    unsupported=(), estimate_ns=1, digest="d" * 64,
)  # fmt: skip
SECOND_NS = 1_000_000_000
RISING = tuple((at * SECOND_NS, at * 1e8) for at in range(1, 9))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a run of two trials, a001 with series and a002 without."""
    monkeypatch.setenv("COLUMNS", "120")
    made = create_folder(tmp_path / "runs", "two", datetime(2026, 1, 1, tzinfo=UTC))
    made.write_decision(FILE, PLAN, {})
    port = Dimensions(port="far.eth0")
    every = (series("rx_bps", "bit/s", RISING, port), series("rx_drops_pps", "packet/s", RISING[:1], port))
    for key, mtu, own in (("a001", "1500", every), ("a002", "9000", ())):
        result = TrialResult(
            status=Status.OK, metrics=metrics({"received_bps": (8e8, "bit/s")}), begin_ns=0, end_ns=2,
            measured_ns=1,
        )  # fmt: skip
        record = TrialRecord(
            key=key, measure="tcp", kind="stream", direction="one-way", rest="r", block=1,
            cell={"links.lan.mtu": mtu}, wall="2026-01-01T00:00:00+00:00", result=result,
        )  # fmt: skip
        made.append_trial(record, Samples(raw={}, packets=None, series=own))
    made.close()
    return made.path


def test_show_trial_prints_a_line_per_series(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Print its course, minimum, mean and maximum, and the trial."""
    assert run(["show", str(folder), "--trial", "a001"]) == ExitCode.DONE
    shown = capsys.readouterr().out
    assert "TCP, MTU 1500, block 1" in shown
    assert sum("far.eth0" in line for line in shown.splitlines()) == 2
    (line,) = [line for line in shown.splitlines() if "▂" in line]
    places = [line.index(block) for block in "▂▃▄▅▆▇█"]
    assert places == sorted(places)
    assert "100" in line
    assert "450" in line
    assert "800\u00a0Mbit/s" in line


def test_unambiguous_beginning_of_a_key_selects_a_trial(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Report that a trial stored no series, without an error."""
    assert run(["show", str(folder), "--trial", "a002"]) == ExitCode.DONE
    assert "MTU 9000" in capsys.readouterr().out
    assert run(["show", str(folder), "--trial", "a00"]) == ExitCode.INPUT_WRONG
    complaint = capsys.readouterr().err
    assert "saw 2 trials whose keys start with 'a00'" in complaint
    assert "a001 (tcp, 1500, block 1), a002 (tcp, 9000, block 1)" in complaint


def test_unknown_trial_key_is_refused_with_the_existing_keys(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit with code 2 and no traceback."""
    assert run(["show", str(folder), "--trial", "zzz"]) == ExitCode.INPUT_WRONG
    complaint = capsys.readouterr().err
    assert "saw 0 trials whose keys start with 'zzz'" in complaint
    assert "a001 (tcp" in complaint
    assert "Traceback" not in complaint
