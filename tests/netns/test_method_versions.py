"""Runs of an older iolab: extended, resumed and compared by this one."""

import json
import re
import shutil
from pathlib import Path

import pytest
from tests.netns.runs import Iolab, trials

pytestmark = [pytest.mark.netns, pytest.mark.full]
LAB = """title: Methods
lab:
  machines: {a: {kind: netns}, b: {kind: netns}}
  links: {x: {ends: [a.p, b.p]}}
measure:
  tcp: {kind: stream, protocol: tcp, from: a, to: b, duration: 1s}
factors:
  links.x.mtu: [1500, 9000]
baseline: {links.x.mtu: 1500}
"""


def age(folder: Path) -> None:
    """Change the trials of a run into those of an iolab without method versions."""
    lines = (folder / "trials.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    for record in records:
        assert not any("method" in metric for metric in record["metrics"])
        record["schema"] = 2
    (folder / "trials.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in records))


def test_run_with_older_methods_is_extended_and_compared_without_pooling(
    iolab: Iolab, tmp_path: Path
) -> None:
    """Add a block and a level; check both commands' notes."""
    file = tmp_path / "lab.yaml"
    file.write_text(LAB)
    ran = iolab("run", file)
    assert ran.returncode == 0, ran.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    fresh = tmp_path / "fresh"
    shutil.copytree(folder, fresh)
    age(folder)
    file.write_text(f"{LAB}blocks: 2\n")
    extended = iolab("extend", folder, file)
    assert extended.returncode == 0, extended.stderr
    assert re.search(
        r"tcp: this run computed received_bps, .* with method version unknown, but new trials use version 1",
        extended.stderr,
    )
    assert len(trials(folder)) == 4
    shown = json.loads(iolab("show", folder, "--json").stdout)
    rates = [each for each in shown["estimates"] if each["metric"] == "received_bps"]
    assert [(each["n"], each["method"]) for each in rates] == [(1, 1), (1, 1)]
    assert "methods-mixed" in {warning["code"] for warning in shown["warnings"]}
    assert {metric["method"] for trial in shown["trials"] for metric in trial["metrics"]} == {None, 1}
    newer = (fresh / "trials.jsonl").read_text().replace('"unit":"bit/s"', '"unit":"bit/s","method":7')
    (fresh / "trials.jsonl").write_text(newer)
    compared = json.loads(iolab("compare", folder, fresh, "--json").stdout)
    cells = [each for each in compared["cells"] if each["metric"] == "received_bps"]
    assert [(each["method"], each["ratio"]) for each in cells] == [([1, 7], None)] * 2
    assert any(each["metric"] == "retransmits" and each["method"] == [1, 1] for each in compared["cells"])
    assert "methods-differ" in {warning["code"] for warning in compared["warnings"]}
    text = iolab("compare", folder, fresh).stdout
    assert "different method" in text
