"""The example of docs/how-to/add-a-measure.md: installed like by a user, and run."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.netns.conftest import IOLAB
from tests.netns.runs import Iolab, trials

from iolab.store.series import read_series

pytestmark = pytest.mark.netns
EXAMPLE = Path(__file__).parents[2] / "examples" / "iolab-handshakes"


def test_example_package_adds_a_measure_and_an_instrument(
    iolab: Iolab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check, plan, measure and report with it."""
    target, source = tmp_path / "packages", tmp_path / "source"
    shutil.copytree(EXAMPLE, source)  # build remains stay in this folder
    install = (str(IOLAB.with_name("uv")), "pip", "install", "--offline", "--no-deps", "--target")
    subprocess.run([*install, str(target), str(source)], check=True, capture_output=True)
    experiment = source / "handshakes.yaml"
    without = iolab("check", experiment)
    assert "saw handshakes; allowed: " in without.stderr
    monkeypatch.setenv("PYTHONPATH", str(target))
    assert "connect" in iolab("check", experiment).stdout
    ran = iolab("run", experiment, "--blocks", "1")
    assert ran.returncode == 0, ran.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    records = trials(folder)
    assert [record["kind"] for record in records] == ["handshakes", "handshakes"]
    assert "connect: handshakes_per_s" in ran.stdout
    shown = json.loads(iolab("show", folder, "--json").stdout)
    assert "context_switches_per_s" in json.dumps(shown)
    for record in records:
        assert "context_switches_per_s" in {one.name for one in read_series(folder, record["key"])}
