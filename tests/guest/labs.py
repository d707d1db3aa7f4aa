"""Helpers of tests with real guests: run an experiment, read its trials, use a guest's monitor."""

import json
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.netns.conftest import IOLAB
from tests.netns.runs import until

from iolab.experiment import load

LABS = Path(__file__).parents[2] / "labs"
PATIENCE_S = 500.0
"""Time limit of a run that hangs [s]: a calm host takes half a minute for nested guests, an overloaded host takes
minutes."""


def measured(tmp_path: Path, text: str) -> Path:
    """Run an experiment whose trials must all succeed; return the run's folder."""
    file = tmp_path / "lab.yaml"
    file.write_text(text)
    running = run_in_background(tmp_path, file)
    try:
        said, _ = running.communicate(timeout=PATIENCE_S)
    finally:
        running.kill()
    assert running.returncode == 0, said
    return tmp_path / said.splitlines()[-1]


def wait_for_console(state: Path, machine: str) -> Path:
    """Wait until a guest's hypervisor has created its monitor; return the guest's scratch folder."""
    folder = state / "f" / machine
    until((folder / "monitor").exists, never=f"{folder} has no monitor")
    return folder


def run_in_background(tmp_path: Path, file: Path) -> subprocess.Popen[str]:
    """Start a run in a separate session."""
    return subprocess.Popen(
        [IOLAB, "run", file],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def ask_monitor(path: Path, command: str) -> None:
    """Send a command to QEMU's monitor, without any code of iolab."""
    with socket.socket(socket.AF_UNIX) as end:
        end.settimeout(PATIENCE_S)
        end.connect(str(path))
        messages = map(json.loads, end.makefile("rb"))
        for name in ("qmp_capabilities", command):
            end.sendall(json.dumps({"execute": name}).encode())
            # A command may be lost if its sender closes before the answer; events arrive in between.
            next(message for message in messages if "return" in message)


def short_study(folder: Path, name: str, shorter: Mapping[str, str]) -> Path:
    """Copy a study's lab with shorter durations."""
    text = (LABS / name).read_text()
    for written, instead in shorter.items():
        assert written in text
        text = text.replace(written, instead)
    copy = folder / name
    copy.write_text(text)
    return copy


def one_cell(lab: Path, site: Path) -> str:
    """Return a selection of one cell of the lab's quick run; other factors are as in the baseline."""
    study = load(lab, site)
    quick = {name: labels[0] for name, labels in study.quick[0].items()}
    return ",".join(f"{name}={label}" for name, label in {**study.baseline, **quick}.items())
