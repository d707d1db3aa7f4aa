"""The whole program on real namespaces: from a file to results, through interruption, and back to a clean host."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.netns.conftest import IOLAB, SMALL
from tests.netns.runs import PATIENCE_S, Iolab, Measured, netns_of, trials, until, value, wait_for_trials

pytestmark = pytest.mark.netns


def begin(small: Path, *more: str | Path) -> subprocess.Popen[str]:
    """Start a run of two trials, of which the second is long enough for the disturbance."""
    text = SMALL.replace("links.lan.mtu: [1500, 9000]", "tcp.duration: [1s, 6s]")
    small.write_text(text.replace("baseline: {links.lan.mtu: 1500}", ""))
    # Background processes of a script ignore Ctrl-C.
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


def test_completed_run_prints_its_folder_and_has_every_trial(iolab: Iolab, small: Path) -> None:
    """Check four trials with realistic rates and no counter warning."""
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


def test_interrupted_run_prints_the_resume_command_and_resume_finishes_it(
    iolab: Iolab, small: Path, tmp_path: Path
) -> None:
    """Exit with code 4; measure no trial twice."""
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
def test_lab_of_a_killed_controller_is_removed_completely(iolab: Iolab, small: Path, tmp_path: Path) -> None:
    """Keep the stored trials."""
    running = begin(small)
    folder = wait_for_trials(tmp_path / "runs", 1)
    running.kill()
    running.communicate()
    until(lambda: "in use by another lab" not in iolab("doctor", "--json").stdout)
    assert netns_of("near") is None
    assert iolab("resume", folder).returncode == 0


@pytest.mark.full
def test_changes_of_a_killed_agent_are_undone_by_resume(iolab: Iolab, small: Path, tmp_path: Path) -> None:
    """Exit with code 3 and advice; `clean` finds nothing after `resume`."""
    running = begin(small)
    folder = wait_for_trials(tmp_path / "runs", 1)
    children = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
    for child in children:
        os.kill(int(child), signal.SIGKILL)
    _, errors = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 3
    assert "iolab clean" in errors
    resumed = iolab("resume", folder)
    assert (resumed.returncode, "by a killed lab" in resumed.stderr) == (0, True)
    assert iolab("clean").stdout == "nothing to undo\n"


@pytest.mark.full
def test_extended_run_measures_only_new_trials(iolab: Iolab, small: Path) -> None:
    """Add two trials for a third level, and keep the four others."""
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
def test_packed_run_is_extended_and_packed_again_at_its_end(iolab: Iolab, small: Path) -> None:
    """Read the same trials by every command before and after; the library has the trials of both parts."""
    folder = small.parent / Path(iolab("run", small).stdout.splitlines()[-1])
    before = iolab("show", folder, "--json").stdout
    assert iolab("pack", folder).returncode == 0
    assert iolab("show", folder, "--json").stdout == before
    small.write_text(SMALL.replace("[1500, 9000]", "[1500, 4500, 9000]"))
    extended = iolab("extend", folder, small)
    assert (extended.returncode, "packed" in extended.stderr) == (0, True)
    assert {path.name for path in (folder / "samples").iterdir()} == {"pack-001.zst", "pack-002.zst"}
    assert (folder / "trials-002.jsonl.zst").exists()
    assert iolab("resume", folder).returncode == 0
    assert "6 trials" in iolab("library", "add", folder).stdout
    assert iolab("compare", folder / "revisions" / "001", folder).returncode == 0
    assert Path(iolab("report", folder).stdout.strip()).stat().st_size > 100_000


@pytest.mark.full
def test_changed_run_folder_is_not_resumed_and_both_digests_are_named(iolab: Iolab, small: Path) -> None:
    """Exit with code 2, and measure nothing."""
    folder = small.parent / Path(iolab("run", small, "--blocks", "1").stdout.splitlines()[-1])
    stored = folder / "experiment.yaml"
    stored.write_text(stored.read_text().replace("duration: 1s", "duration: 2s"))
    refused = iolab("resume", folder)
    assert refused.returncode == 2
    digests = [word for word in refused.stderr.replace(",", " ").replace(";", " ").split() if len(word) == 64]
    assert len(set(digests)) == 2


@pytest.mark.full
def test_full_disk_stops_the_run_and_stored_trials_stay_readable(
    iolab: Iolab, small: Path, tmp_path: Path
) -> None:
    """Exit with code 3; resume after making room."""
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


def test_mtu_changed_during_a_trial_makes_it_invalid(iolab: Iolab, small: Path, tmp_path: Path) -> None:
    """Report the read value, and exit with code 1."""
    running = begin(small)
    wait_for_trials(tmp_path / "runs", 1)
    near = netns_of("near") or ""
    client = ["ip", "netns", "pids", near]
    until(lambda: subprocess.run(client, capture_output=True).stdout, never="no stream was begun")
    subprocess.run(["ip", "-n", near, "link", "set", "dev", "eth0", "mtu", "1400"], check=True)
    output, _ = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 1
    document = shown(iolab, tmp_path / output.splitlines()[-1])
    invalid = [trial for trial in document["trials"] if trial["status"] == "invalid"]
    assert len(invalid) == 1
    assert "mtu of near.eth0 was set to 1500, but was read back as 1400" in invalid[0]["reason"]["text"]


def test_ordinary_user_runs_the_same_experiment(measured_by_user: Measured) -> None:
    """Check the rootless agent's trials."""
    folder = measured_by_user(SMALL, "--blocks", "1")
    assert [trial["status"] for trial in trials(folder)] == ["ok", "ok"]
    assert json.loads((folder / "facts.json").read_text())["hello"]["rootless"]


@pytest.mark.full
def test_record_replaced_by_rename_during_a_run_loses_no_trial(
    iolab: Iolab, small: Path, tmp_path: Path
) -> None:
    """Save it like an editor after the first trial."""
    running = begin(small)
    folder = wait_for_trials(tmp_path / "runs", 1)
    edited = folder / "edited"
    edited.write_text((folder / "trials.jsonl").read_text())
    edited.rename(folder / "trials.jsonl")
    running.communicate(timeout=PATIENCE_S)
    keys = [trial["key"] for trial in trials(folder)]
    assert (running.returncode, len(keys), len(set(keys))) == (0, 2, 2)


@pytest.mark.full
def test_run_with_missing_trial_records_exits_with_code_4(iolab: Iolab, small: Path, tmp_path: Path) -> None:
    """Report that another program changed it; resume measures it again."""
    running = begin(small)
    folder = wait_for_trials(tmp_path / "runs", 1)
    os.truncate(folder / "trials.jsonl", 0)
    _, errors = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 4
    assert "another program changed files in this folder" in errors
    assert iolab("resume", folder).returncode == 0
