"""A run that is disturbed from outside: stopped, or without its folder, its terminal, a program or descriptors."""

import contextlib
import os
import pty
import resource
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.netns.conftest import IOLAB
from tests.netns.runs import PATIENCE_S, Iolab, trials, wait_for_trials

pytestmark = pytest.mark.netns
HELD_UP_S = 30


def begin(small: Path, **options: object) -> subprocess.Popen[str]:
    """Start a run of the small experiment in its folder."""
    given: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
    running: subprocess.Popen[str] = subprocess.Popen([IOLAB, "run", small], cwd=small.parent, **given)
    return running


@pytest.mark.full
def test_run_stopped_for_half_a_minute_continues(iolab: Iolab, small: Path) -> None:
    """Keep all results."""
    running = begin(small)
    folder = wait_for_trials(small.parent / "runs", 1, running=running)
    running.send_signal(signal.SIGSTOP)
    with pytest.raises(subprocess.TimeoutExpired):
        running.wait(HELD_UP_S)
    running.send_signal(signal.SIGCONT)
    said = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 0, said
    assert [record["status"] for record in trials(folder)] == ["ok"] * 4


def test_run_reports_that_its_folder_was_removed(iolab: Iolab, small: Path) -> None:
    """Neither recreate the folder nor promise figures."""
    running = begin(small)
    folder = wait_for_trials(small.parent / "runs", 1, running=running)
    folder.parent.rename(small.parent / "elsewhere")
    _, said = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 3
    assert "the folder was removed together with the stored trials" in said
    assert "its folder was removed during the run; start the run again" in said
    assert not folder.parent.exists()


@pytest.mark.full
def test_run_ends_when_its_terminal_is_closed_and_keeps_its_trials(iolab: Iolab, small: Path) -> None:
    """Simulate a broken ssh connection; resume the run."""
    near, far = pty.openpty()
    running = begin(small, stdin=far, stdout=far, stderr=far, start_new_session=True)
    os.close(far)
    folder = wait_for_trials(small.parent / "runs", 1, running=running)
    os.close(near)
    running.send_signal(signal.SIGHUP)
    assert running.wait(PATIENCE_S) == -signal.SIGHUP
    assert trials(folder)[0]["status"] == "ok"
    assert iolab("resume", folder).returncode == 0
    assert [record["status"] for record in trials(folder)] == ["ok"] * 4


def test_program_removed_during_a_run_fails_its_trials_with_the_reason(iolab: Iolab, small: Path) -> None:
    """Keep earlier trials."""
    programs = small.parent / "bin"
    programs.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for program in Path(folder).glob("*"):
            with contextlib.suppress(FileExistsError):
                (programs / program.name).symlink_to(program)
    running = begin(small, env={**os.environ, "PATH": str(programs)})
    run = wait_for_trials(small.parent / "runs", 1, running=running)
    (programs / "iperf3").unlink()
    said = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 1, said
    last = trials(run)[-1]
    assert last["status"] == "failed"
    assert "iperf3" in str(last)


@pytest.mark.full
def test_low_limit_of_open_files_is_raised_or_reported(iolab: Iolab, small: Path) -> None:
    """Name the limit if it cannot be raised, not a missing program."""

    def few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

    done = iolab("run", small, "--blocks", "1", preexec_fn=few)
    assert done.returncode == 0 or "a lab needs 128: raise the limit (ulimit -n)" in done.stderr
    soft = iolab("run", small, "--blocks", "1", preexec_fn=lambda: _soft(64))
    assert soft.returncode == 0, soft.stderr


def _soft(limit: int) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
