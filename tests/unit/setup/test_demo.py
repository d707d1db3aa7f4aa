"""What `make demo` runs, with a stand-in for iolab that says which labs it was given."""

import subprocess
from pathlib import Path

DEMO = Path(__file__).parents[3] / "scripts" / "demo.sh"
STAND_IN = """#!/bin/sh
echo "$*" >>asked
case $1 in run) case " $REFUSED " in *" $2 "*) exit 3;; esac; mkdir -p "runs/$(wc -l <asked)";; esac
exit "${STATUS:-0}"
"""


def demo(folder: Path, *arguments: str, **environment: str) -> tuple[int, list[str]]:
    """Run the script in a folder; return its status and what iolab was asked to do."""
    iolab = folder / ".venv" / "bin" / "iolab"
    iolab.parent.mkdir(parents=True)
    iolab.write_text(STAND_IN)
    iolab.chmod(0o755)
    argv = ["bash", str(DEMO), *arguments]
    done = subprocess.run(argv, cwd=folder, env={"PATH": "/usr/bin:/bin", **environment}, capture_output=True)
    return done.returncode, (folder / "asked").read_text().splitlines()


def test_the_quickstart_is_run_and_reported(tmp_path: Path) -> None:
    """Trials that fail are for the report to say; the status stays that of the run."""
    status, asked = demo(tmp_path, STATUS="1")
    assert (status, asked[0]) == (1, "run labs/quickstart.yaml")
    assert asked[1].startswith("report runs/")


def test_a_host_that_cannot_run_it_measures_its_loopback(tmp_path: Path) -> None:
    """As in a container without privileges."""
    status, asked = demo(tmp_path, REFUSED="labs/quickstart.yaml")
    assert status == 0
    assert asked[:2] == ["run labs/quickstart.yaml", "run labs/loopback.yaml"]
    assert asked[2].startswith("report runs/")


def test_a_lab_that_was_named_has_no_stand_in(tmp_path: Path) -> None:
    """It is refused as it is, and nothing is reported."""
    status, asked = demo(tmp_path, "labs/iscsi.yaml", REFUSED="labs/iscsi.yaml")
    assert (status, asked) == (3, ["run labs/iscsi.yaml"])
