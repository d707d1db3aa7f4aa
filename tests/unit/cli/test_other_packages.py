"""Packages that bring parts: a broken one stops every command with a message that names it, and no traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from iolab.errors import ExitCode

METADATA = "Metadata-Version: 2.1\nName: iolab-broken\nVersion: 1.0\n"
TAKEN = """
from iolab.experiment.measures import Stream
from iolab.parts.rows import MeasureKind

PART = MeasureKind(model=Stream, duration_ns=lambda _: 1, measure=None)
"""
OTHER = """
from typing import Literal
from pydantic import BaseModel
from iolab.parts.rows import MeasureKind

class Other(BaseModel):
    kind: Literal["other"]

PART = MeasureKind(model=Other, duration_ns=lambda _: 1, measure=None)
"""


def installed(folder: Path, group: str, code: str) -> None:
    """Install a package that has one part, as an installer would leave it."""
    (folder / "broken.py").write_text(code)
    about = folder / "iolab_broken-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(METADATA)
    (about / "entry_points.txt").write_text(f"[{group}]\nbroken = broken:PART\n")


@pytest.mark.parametrize(
    ("group", "code", "seen"),
    [
        ("iolab.measures", "1 / 0", "ZeroDivisionError: division by zero; mend or update that package"),
        ("iolab.measures", "PART = [", "SyntaxError: '[' was never closed"),
        ("iolab.measures", "import sys; sys.exit(3)", "SystemExit: 3"),
        ("iolab.instruments", "PART = 5", "it is of type int; make it iolab.parts.rows.InstrumentKind"),
        (
            "iolab.measures",
            TAKEN,
            "its name 'stream' is taken by iolab itself; give it another name",
        ),
        (
            "iolab.measures",
            OTHER,
            "its model Other is no iolab.experiment.measures.Measure",
        ),
    ],
    ids=["raises", "no Python", "exits", "no row", "a taken name", "another model"],
)
def test_a_broken_package_is_named_and_the_command_ends(
    tmp_path: Path, group: str, code: str, seen: str
) -> None:
    """Exit code 3, one line; an experiment is never read with fewer kinds than it was written for."""
    installed(tmp_path, group, code)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    argv = [sys.executable, "-c", "import sys; from iolab.cli.main import run; sys.exit(run(['schema']))"]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == ExitCode.HOST_CANNOT
    (line,) = done.stderr.splitlines()
    assert f"loading 'broken' of {group} from the package iolab-broken 1.0, broken:PART: " in line
    assert seen in line
