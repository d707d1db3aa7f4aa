"""Labs that run on one host at the same time: those that need the same resource wait or are refused."""

import signal
import subprocess
from pathlib import Path

import pytest
from tests.netns.conftest import IOLAB
from tests.netns.runs import PATIENCE_S, Iolab, netns_of, trials, until, wait_for_trials

pytestmark = pytest.mark.netns
SOON_S = 10
"""Upper limit of a start on a host whose CPUs are all in use."""
INTERRUPTED = 4
"""Exit status of an interrupted run."""
LAB = """
title: TITLE
lab:
  machines: {MACHINE: {kind: netns, program_cpus: CPUS}, far: {kind: netns}}
  links: {lan: {ends: [MACHINE.eth0, far.eth0]}}
measure:
  tcp: {kind: stream, from: MACHINE, to: far, duration: SECONDSs}
blocks: BLOCKS
"""


def written(folder: Path, title: str, cpus: str = "[]", seconds: int = 1, blocks: int = 1) -> Path:
    """Write a small lab whose first machine has the title as its name."""
    path, text = folder / title / f"{title}.yaml", LAB
    for word, value in {
        "TITLE": title, "MACHINE": title, "CPUS": cpus, "SECONDS": str(seconds), "BLOCKS": str(blocks),
    }.items():  # fmt: skip
        text = text.replace(word, value)
    path.parent.mkdir()
    path.write_text(text)
    return path


def begun(path: Path, *words: str) -> "subprocess.Popen[str]":
    """Start a run of a lab in the folder of its file."""
    return subprocess.Popen(
        [IOLAB, "run", path, *words],
        cwd=path.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_two_labs_run_concurrently_and_a_third_that_needs_their_resources_is_refused(
    iolab: Iolab, tmp_path: Path
) -> None:
    """Let the first two labs need different CPUs; the refused lab leaves no run folder."""
    one = begun(written(tmp_path, "one", "[0]", seconds=2, blocks=3))
    two = begun(written(tmp_path, "two", seconds=2, blocks=3))
    until(lambda: netns_of("one") and netns_of("two"))
    refused = iolab("run", written(tmp_path, "third", "[0]"))
    assert refused.returncode == 3
    assert "because one.yaml (agent process " in refused.stderr
    assert "uses cpu:0; to wait until the host is free, use --wait 10m" in refused.stderr
    assert not (tmp_path / "runs").exists()
    for running in (one, two):
        _, errors = running.communicate(timeout=PATIENCE_S)
        assert running.returncode == 0, errors
    for title in ("one", "two"):
        (folder,) = (tmp_path / title / "runs").iterdir()
        assert [trial["status"] for trial in trials(folder)] == ["ok"] * 3


def test_waiting_lab_starts_soon_after_the_other_lab_has_ended(tmp_path: Path) -> None:
    """Wait for the run folder, created with the leases; benches/faults/labs_at_once.py measures the time."""
    one = begun(written(tmp_path, "one", "[0]", blocks=200))
    wait_for_trials(tmp_path / "one" / "runs", 0, running=one)
    two = begun(written(tmp_path, "two", "[0]"), "--wait", "4m")
    assert two.stderr is not None
    assert "for this host because one.yaml (agent process " in two.stderr.readline()
    one.send_signal(signal.SIGINT)
    one.communicate(timeout=PATIENCE_S)
    assert one.returncode == INTERRUPTED
    assert until(lambda: list((tmp_path / "two").glob("runs/*"))) < SOON_S
    _, errors = two.communicate(timeout=PATIENCE_S)
    assert two.returncode == 0, errors


def test_clean_undoes_one_lab_and_leaves_another_running(iolab: Iolab, tmp_path: Path) -> None:
    """Kill controller and agent of the first lab."""
    one = begun(written(tmp_path, "one", seconds=20))
    until(lambda: netns_of("one"))
    two = begun(written(tmp_path, "two", seconds=2, blocks=60))
    wait_for_trials(tmp_path / "two" / "runs", 1, running=two)
    children = Path(f"/proc/{one.pid}/task/{one.pid}/children").read_text().split()
    for pid in (*children, str(one.pid)):
        subprocess.run(["kill", "-9", pid], check=True)
    one.communicate()
    kept = iolab("clean", "two.yaml").stdout
    assert "nothing to undo" in kept
    assert "changes of other killed labs are kept: one.yaml" in kept
    assert netns_of("one")
    done = iolab("clean", "one.yaml")
    assert done.returncode == 0, done.stderr
    assert "two.yaml (agent process " in done.stdout
    assert netns_of("one") is None
    assert netns_of("two")
    (folder,) = (tmp_path / "two" / "runs").iterdir()
    wait_for_trials(folder.parent, len(trials(folder)) + 1, running=two)
    two.send_signal(signal.SIGINT)
    _, errors = two.communicate(timeout=PATIENCE_S)
    assert two.returncode == INTERRUPTED, errors
    assert {trial["status"] for trial in trials(folder)} == {"ok"}
    assert netns_of("two") is None
