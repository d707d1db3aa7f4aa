"""`make demo`, with a stand-in for iolab that records its labs."""

import subprocess
from pathlib import Path

DEMO = Path(__file__).parents[3] / "scripts" / "demo.sh"
STAND_IN = """#!/bin/sh
echo "$*" >>asked
case $1 in run) case " $REFUSED " in *" $2 "*) exit 3;; esac; mkdir -p "runs/$(wc -l <asked)";; esac
exit "${STATUS:-0}"
"""


def demo(folder: Path, *arguments: str, **environment: str) -> tuple[int, list[str]]:
    """Run the script in a folder; return its status and the calls of iolab."""
    iolab = folder / ".venv" / "bin" / "iolab"
    iolab.parent.mkdir(parents=True)
    iolab.write_text(STAND_IN)
    iolab.chmod(0o755)
    argv = ["bash", str(DEMO), *arguments]
    done = subprocess.run(argv, cwd=folder, env={"PATH": "/usr/bin:/bin", **environment}, capture_output=True)
    return done.returncode, (folder / "asked").read_text().splitlines()


def test_demo_runs_and_reports_the_quickstart(tmp_path: Path) -> None:
    """Return the status of the run; the report shows failed trials."""
    status, asked = demo(tmp_path, STATUS="1")
    assert (status, asked[0]) == (1, "run labs/quickstart.yaml")
    assert asked[1].startswith("report runs/")


def test_demo_falls_back_to_the_loopback_lab_on_an_unsuitable_host(tmp_path: Path) -> None:
    """Cover an unprivileged container."""
    status, asked = demo(tmp_path, REFUSED="labs/quickstart.yaml")
    assert status == 0
    assert asked[:2] == ["run labs/quickstart.yaml", "run labs/loopback.yaml"]
    assert asked[2].startswith("report runs/")


def test_demo_of_a_named_lab_has_no_fallback(tmp_path: Path) -> None:
    """Return its status, and report nothing."""
    status, asked = demo(tmp_path, "labs/iscsi.yaml", REFUSED="labs/iscsi.yaml")
    assert (status, asked) == (3, ["run labs/iscsi.yaml"])
