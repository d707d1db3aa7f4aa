"""The whole line on real namespaces: from a file to results, through interruption, and back to a clean host."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.netns.conftest import IOLAB, SMALL
from tests.netns.runs import PATIENCE_S, Iolab, Measured, trials, until, value, wait_for_trials

pytestmark = pytest.mark.netns


def begin(small: Path, *more: str | Path) -> subprocess.Popen[str]:
    """Start a run of two trials, of which the second is long enough for what shall happen to it."""
    text = SMALL.replace("links.lan.mtu: [1500, 9000]", "tcp.duration: [1s, 6s]")
    small.write_text(text.replace("baseline: {links.lan.mtu: 1500}", ""))
    # A script's background ignores Ctrl-C.
    argv: tuple[str | Path, ...] = ("env", "--default-signal=INT", IOLAB, "run", small, "--blocks", "1")
    return subprocess.Popen(
        [*argv, *more],
        cwd=small.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def shown(iolab: Iolab, folder: Path) -> dict[str, Any]:
    """Return `show --json` of a run."""
    document = json.loads(iolab("show", folder, "--json").stdout)
    assert isinstance(document, dict)
    return document


def test_a_run_ends_with_its_folder_and_every_trial_is_there(iolab: Iolab, small: Path) -> None:
    """Exit code 0, the folder as last line, four trials with real rates and no warning about counters."""
    done = iolab("run", small)
    assert done.returncode == 0, done.stderr
    folder = Path(done.stdout.splitlines()[-1])
    document = shown(iolab, small.parent / folder)
    assert document["status"] == "complete"
    trials = document["trials"]
    assert len(trials) == 4
    assert {trial["status"] for trial in trials} == {"ok"}
    assert min(value(trial, "received_bps") for trial in trials) > 1e8
    assert {trial["block"] for trial in trials} == {1, 2}


def test_interrupted_by_ctrl_c_it_says_how_to_resume_and_resume_finishes(
    iolab: Iolab, small: Path, tmp_path: Path
) -> None:
    """Exit code 4, a clean host, and no trial measured twice."""
    running = begin(small)
    folder = wait_for_trials(tmp_path / "runs", 1)
    os.killpg(running.pid, signal.SIGINT)
    _, errors = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 4
    assert f"iolab resume {folder.relative_to(tmp_path)}" in errors
    stored = len((folder / "trials.jsonl").read_text().splitlines())
    assert iolab("resume", folder).returncode == 0
    keys = [json.loads(line)["key"] for line in (folder / "trials.jsonl").read_text().splitlines()]
    assert len(keys) == len(set(keys)) == 2
    assert stored == 1


@pytest.mark.full
def test_a_killed_controller_leaves_nothing_behind(iolab: Iolab, small: Path, tmp_path: Path) -> None:
    """The agent's dead-man's switch undoes the lab; the stored trials stay."""
    running = begin(small)
    folder = wait_for_trials(tmp_path / "runs", 1)
    running.kill()
    running.communicate()
    until(lambda: "in use by another lab" not in iolab("doctor", "--json").stdout)
    assert "iolab-near" not in subprocess.run(["ip", "netns"], capture_output=True, text=True).stdout
    assert iolab("resume", folder).returncode == 0


@pytest.mark.full
def test_after_a_killed_agent_the_next_command_undoes_what_it_left(
    iolab: Iolab, small: Path, tmp_path: Path
) -> None:
    """Exit code 3 and the advice; resume undoes the journal, says so and goes on; nothing is left to clean."""
    running = begin(small)
    folder = wait_for_trials(tmp_path / "runs", 1)
    children = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
    for child in children:
        os.kill(int(child), signal.SIGKILL)
    _, errors = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 3
    assert "iolab clean" in errors
    resumed = iolab("resume", folder)
    assert (resumed.returncode, "of a killed lab" in resumed.stderr) == (0, True)
    assert iolab("clean").stdout == "nothing to undo\n"


@pytest.mark.full
def test_an_extended_run_measures_only_what_is_new(iolab: Iolab, small: Path) -> None:
    """A third level adds two trials; the four before are kept as they were."""
    folder = small.parent / Path(iolab("run", small).stdout.splitlines()[-1])
    before = (folder / "trials.jsonl").read_text()
    small.write_text(SMALL.replace("[1500, 9000]", "[1500, 4500, 9000]"))
    assert iolab("extend", folder, small).returncode == 0
    after = (folder / "trials.jsonl").read_text()
    assert after.startswith(before)
    added = [json.loads(line) for line in after[len(before) :].splitlines()]
    assert [trial["cell"] for trial in added] == [{"links.lan.mtu": "4500"}] * 2
    assert (folder / "revisions" / "001" / "plan.json").exists()


@pytest.mark.full
def test_a_changed_folder_is_not_resumed_and_both_digests_are_named(iolab: Iolab, small: Path) -> None:
    """Exit code 2; nothing is measured under a plan that is not the run's."""
    folder = small.parent / Path(iolab("run", small, "--blocks", "1").stdout.splitlines()[-1])
    stored = folder / "experiment.yaml"
    stored.write_text(stored.read_text().replace("duration: 1s", "duration: 2s"))
    refused = iolab("resume", folder)
    assert refused.returncode == 2
    digests = [word for word in refused.stderr.replace(",", " ").replace(";", " ").split() if len(word) == 64]
    assert len(set(digests)) == 2


@pytest.mark.full
def test_a_full_disk_stops_the_run_and_what_was_stored_is_readable(
    iolab: Iolab, small: Path, tmp_path: Path
) -> None:
    """Exit code 3 with the reason; the trials before it are shown; after room is made, resume finishes."""
    place = tmp_path / "small-disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", place], check=True)
    try:
        filler = place / "filler"
        running = begin(small, "-o", place)
        folder = wait_for_trials(place, 1)
        with filler.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"x" * 1024)
            except OSError:
                pass
        _, errors = running.communicate(timeout=PATIENCE_S)
        assert running.returncode == 3
        assert "No space left" in errors
        assert len(shown(iolab, folder)["trials"]) >= 1
        filler.unlink()
        assert iolab("resume", folder).returncode == 0
    finally:
        subprocess.run(["umount", place], check=True)


def test_a_level_that_did_not_take_effect_makes_the_trial_invalid(
    iolab: Iolab, small: Path, tmp_path: Path
) -> None:
    """Somebody changes the MTU during a trial: it is stored as invalid, with what was seen, and the exit code is 1."""
    running = begin(small)
    wait_for_trials(tmp_path / "runs", 1)
    client = ["ip", "netns", "pids", "iolab-near"]
    until(lambda: subprocess.run(client, capture_output=True).stdout, never="no stream was begun")
    subprocess.run(["ip", "-n", "iolab-near", "link", "set", "dev", "eth0", "mtu", "1400"], check=True)
    output, _ = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 1
    document = shown(iolab, tmp_path / output.splitlines()[-1])
    invalid = [trial for trial in document["trials"] if trial["status"] == "invalid"]
    assert len(invalid) == 1
    assert "mtu of near.eth0 was set to 1500, but was read back as 1400" in invalid[0]["reason"]["text"]


def test_an_ordinary_user_runs_the_same_experiment(measured_by_user: Measured) -> None:
    """Without root the agent lives in namespaces of its own and the trials are as real."""
    folder = measured_by_user(SMALL, "--blocks", "1")
    assert [trial["status"] for trial in trials(folder)] == ["ok", "ok"]
    assert json.loads((folder / "facts.json").read_text())["hello"]["rootless"]


@pytest.mark.full
def test_a_record_that_is_replaced_in_mid_run_loses_no_trial(
    iolab: Iolab, small: Path, tmp_path: Path
) -> None:
    """An editor saves it by rename after the first trial: all of them are in it at the end."""
    running = begin(small)
    folder = wait_for_trials(tmp_path / "runs", 1)
    edited = folder / "edited"
    edited.write_text((folder / "trials.jsonl").read_text())
    edited.rename(folder / "trials.jsonl")
    running.communicate(timeout=PATIENCE_S)
    keys = [trial["key"] for trial in trials(folder)]
    assert (running.returncode, len(keys), len(set(keys))) == (0, 2, 2)


@pytest.mark.full
def test_a_run_whose_record_lacks_trials_does_not_end_well(iolab: Iolab, small: Path, tmp_path: Path) -> None:
    """What somebody empties in place cannot be had back: it is said, and resume measures it again."""
    running = begin(small)
    folder = wait_for_trials(tmp_path / "runs", 1)
    os.truncate(folder / "trials.jsonl", 0)
    _, errors = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 4
    assert "another program changed its files" in errors
    assert iolab("resume", folder).returncode == 0
