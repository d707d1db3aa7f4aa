"""The quick command: every kind gives its table, and a run folder with the equivalent file."""

from pathlib import Path

import pytest
from tests.netns.runs import Iolab, trials

pytestmark = pytest.mark.netns
LINES = {
    "tcp": ("--mtu", "1500,9000", "--duration", "1s"),
    "udp": ("--rate", "10Mbit", "--duration", "1s"),
    "ping": ("--interval", "10ms", "--duration", "500ms"),
    "rr": ("--connections", "1,4", "--duration", "500ms"),
    "command": ("echo {b}",),
    # Time limit for the searches, which usually need 2 s, on a host that occasionally loses a frame.
    "forwarding": ("--trial", "50ms", "--limit", "8s", "--start", "20kpps"),
}
HEADS = {
    "tcp": "received rate",
    "udp": "received rate",
    "ping": "median RTT",
    "rr": "transactions",
    "command": "elapsed",
    "forwarding": "forwarded rate",
}
COVERED = ("udp", "rr", "command")
"""Kinds that other tests of the core measure."""


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.full] if kind in COVERED else []) for kind in LINES]
)
def test_quick_command_measures_and_stores_the_equivalent_experiment_file(
    iolab: Iolab, tmp_path: Path, kind: str
) -> None:
    """Use two local namespaces, and remove them."""
    done = iolab("quick", kind, "a", "b", *LINES[kind], "--blocks", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    found = trials(folder)
    assert len(found) == (2 if any("," in word for word in LINES[kind]) else 1)
    assert {trial["status"] for trial in found} == {"ok"}
    assert HEADS[kind] in done.stdout
    file = folder / "experiment.yaml"
    assert file.read_text().startswith(f"# iolab quick {kind} a b ")
    again = iolab("quick", kind, "a", "b", *LINES[kind], "--blocks", "1", "--print")
    assert again.stdout == file.read_text()
    assert iolab("check", file).returncode == 0
