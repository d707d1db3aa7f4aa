"""Packages with entry points: a broken one stops every command with a message that names it, and no traceback."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from iolab.errors import ExitCode, UnsupportedError
from iolab.registry import registry

METADATA = "Metadata-Version: 2.1\nName: iolab-broken\nVersion: 1.0\n"
TAKEN = """
from iolab.experiment.model.measures import Stream
from iolab.registry.rows import MeasureKind

PART = MeasureKind(model=Stream, duration_ns=lambda _: 1, measure=None)
"""
OTHER = """
from typing import Literal
from pydantic import BaseModel
from iolab.registry.rows import MeasureKind

class Other(BaseModel):
    kind: Literal["other"]

PART = MeasureKind(model=Other, duration_ns=lambda _: 1, measure=None)
"""


PICKY = """
from typing import Literal
from pydantic import field_validator
from iolab.experiment.model.measures import Measure
from iolab.registry.rows import MeasureKind

class Picky(Measure):
    kind: Literal["picky"] = "picky"
    count: int = 1

    @field_validator("count")
    @classmethod
    def few(cls, count: int) -> int:
        if count > 9:
            raise ValueError("at most 9, as the far end has as many ports")
        return {1: 1}[count]

PART = MeasureKind(model=Picky, duration_ns=lambda _: 1, measure=None)
"""
LAB = """title: Picky
lab:
  machines: {a: {kind: netns}, b: {kind: netns}}
  links: {x: {ends: [a.p, b.p]}}
measure:
  far: {kind: picky, count: COUNT}
"""


def installed(folder: Path, group: str, code: str) -> None:
    """Install a package with one entry point, as an installer would."""
    (folder / "broken.py").write_text(code)
    about = folder / "iolab_broken-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(METADATA)
    (about / "entry_points.txt").write_text(f"[{group}]\nbroken = broken:PART\n")


@pytest.mark.parametrize(
    ("group", "code", "seen"),
    [
        (
            "iolab.measures",
            "1 / 0",
            "ZeroDivisionError: division by zero; fix, update or uninstall that package",
        ),
        ("iolab.measures", "PART = [", "SyntaxError: '[' was never closed"),
        ("iolab.measures", "import sys; sys.exit(3)", "SystemExit: 3"),
        (
            "iolab.instruments",
            "PART = 5",
            "the object has the type int; provide an object of type iolab.registry.rows.InstrumentKind",
        ),
        (
            "iolab.measures",
            TAKEN,
            "the name 'stream' is already used by iolab itself; choose a different name",
        ),
        (
            "iolab.measures",
            OTHER,
            "the model Other is not a subclass of iolab.experiment.model.measures.Measure",
        ),
    ],
    ids=["raises an exception", "syntax error", "exits", "not a row", "duplicate name", "wrong model type"],
)
def test_entry_point_that_fails_to_load_is_reported_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: str, code: str, seen: str
) -> None:
    """Exit with code 3 and one line; never read an experiment with fewer kinds than it needs."""
    installed(tmp_path, group, code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "broken", raising=False)
    # As in a process that has not searched for packages yet.
    monkeypatch.setattr(registry, "every_installed", registry.every_installed.__wrapped__)
    kinds = cache(registry.measure_kinds.__wrapped__), cache(registry.instrument_kinds.__wrapped__)
    with pytest.raises(UnsupportedError) as caught:
        {"iolab.measures": kinds[0], "iolab.instruments": kinds[1]}[group]()
    assert caught.value.exit_code == ExitCode.HOST_CANNOT
    (line,) = str(caught.value).splitlines()
    assert (
        f"cannot load the entry point 'broken' of group {group} from the package iolab-broken 1.0, broken:PART: "
        in line
    )
    assert seen in line
    sys.modules.pop("broken", None)


def test_command_with_a_broken_package_exits_with_code_3_and_one_line(tmp_path: Path) -> None:
    """Print one line and no traceback."""
    installed(tmp_path, "iolab.measures", "1 / 0")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    argv = [sys.executable, "-c", "import sys; from iolab.cli.main import run; sys.exit(run(['schema']))"]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == ExitCode.HOST_CANNOT
    (line,) = done.stderr.splitlines()
    assert "the package iolab-broken 1.0" in line


@pytest.mark.parametrize(
    ("count", "seen"),
    [
        (12, "reading measure.far.count: saw 12; allowed: at most 9, as the far end has as many ports"),
        (2, "KeyError at broken.py:"),
    ],
    ids=["raises ValueError", "raises an exception"],
)
def test_check_reports_problems_from_the_model_of_another_package(
    tmp_path: Path, count: int, seen: str
) -> None:
    """Show the model's own message, or the package if it fails, with file and line."""
    installed(tmp_path, "iolab.measures", PICKY)
    (tmp_path / "lab.yaml").write_text(LAB.replace("COUNT", str(count)))
    script = "import sys; from iolab.cli.main import run; sys.exit(run(['check', 'lab.yaml']))"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    argv = [sys.executable, "-c", script]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode == ExitCode.INPUT_WRONG, done.stderr
    told = " ".join(done.stderr.split())
    assert "lab.yaml:6" in told
    assert seen in told
    assert ("iolab-broken 1.0" in told) is (count == 2)
    assert "internal error" not in told
