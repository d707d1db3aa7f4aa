"""The run folder: durable appends, truncated lines, locks, a full disk."""

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.store.examples import PLAN, STEPS, WALL, record

from iolab.errors import InputError, StoreError
from iolab.messages.commands import OpenDevice
from iolab.messages.notes import LastLineCut
from iolab.results.trial import CommandRecord, Status
from iolab.store.folder import RunFolder, create_folder, packages_digest
from iolab.store.read import experiment_text, find_runs, load_run
from iolab.store.records import RunStatus, Samples


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[RunFolder]:
    """Provide a run folder with a plan."""
    made = create_folder(tmp_path, "Quick start: TCP & UDP!", WALL)
    made.write_decision("title: A plan\n", PLAN, {"kernel": "6.1"})
    yield made
    with contextlib.suppress(StoreError):  # a test may have removed it
        made.close()


def test_run_folder_is_named_by_time_and_title(folder: RunFolder) -> None:
    """Sort names by time."""
    assert folder.path.name == "20260102T030405-quick-start-tcp-udp"


def test_second_run_in_the_same_second_gets_a_different_name(tmp_path: Path) -> None:
    """Overwrite nothing."""
    paths = {create_folder(tmp_path, "x", WALL).path for _ in range(3)}
    assert len(paths) == 3


def test_appended_records_are_read_back_equal(folder: RunFolder) -> None:
    """Check trials, commands, plan and facts."""
    command = CommandRecord(
        machine="near",
        kernel="pc6",
        netns="n",
        argv=("ip", "x"),
        undo=("ip", "y"),
        exit_status=0,
        duration_ns=5,
        notes=(OpenDevice(fd=10, path="/dev/vhost-net"),),
    )
    folder.append_commands([command])
    folder.append_trial(record("k0"), Samples(raw={"iperf3": [1, 2]}))
    folder.append_trial(record("k1", status=Status.FAILED), None)
    run = load_run(folder.path)
    assert run.trials == (record("k0"), record("k1", status=Status.FAILED))
    assert run.commands == (command,)
    assert (run.plan, run.facts, run.status) == (PLAN, {"kernel": "6.1"}, RunStatus.COMPLETE)


def test_run_is_partial_until_every_step_has_a_trial(folder: RunFolder) -> None:
    """Derive the status from plan and trials, without a flag."""
    folder.append_trial(record("k0"), None)
    assert load_run(folder.path).status is RunStatus.PARTIAL


@pytest.mark.parametrize("cut", [1, 10, 100])
def test_truncated_last_line_is_ignored_and_noted(folder: RunFolder, cut: int) -> None:
    """Lose only that trial after a kill; continue after the last complete line."""
    folder.append_trial(record("k0"), None)
    folder.append_trial(record("k1"), None)
    path = folder.path / "trials.jsonl"
    os.truncate(path, path.stat().st_size - cut)
    run = load_run(folder.path)
    assert [trial.key for trial in run.trials] == ["k0"]
    assert run.notes == (LastLineCut(file="trials.jsonl"),)
    folder.close()
    again = RunFolder(folder.path)
    again.append_trial(record("k1"), None)
    again.close()
    assert [trial.key for trial in load_run(folder.path).trials] == ["k0", "k1"]


def test_damaged_line_is_refused_with_its_location(folder: RunFolder) -> None:
    """Never skip damage in the middle."""
    folder.append_trial(record("k0"), None)
    path = folder.path / "trials.jsonl"
    path.write_text('{"schema":2}\n' + path.read_text())
    with pytest.raises(StoreError, match=r"trials\.jsonl:1: .* is not a record \(key: Field required"):
        load_run(folder.path)


def test_record_of_an_unknown_schema_is_refused_and_both_schemas_are_named(folder: RunFolder) -> None:
    """Refuse newer files."""
    path = folder.path / "trials.jsonl"
    path.write_text('{"schema":99}\n')
    with pytest.raises(
        StoreError, match=r"trials\.jsonl:1: .*of schema 99: .*reads schemas 1 to 3; use a version of iolab"
    ):
        load_run(folder.path)


def test_trials_of_different_schemas_in_one_run_are_read(folder: RunFolder) -> None:
    """Read the schema of each line, as in a run that a newer iolab resumed."""
    path = folder.path / "trials.jsonl"
    folder.append_trial(record("k1"), None)
    path.write_text(
        '{"schema":1,"key":"k0","measure":"tcp","block":1,"cell":{},"wall":"","status":"ok","reason":null,'
        '"begin_ns":0,"end_ns":1,"measured_ns":1,"metrics":{"received_bps[a->b]":{"value":1.0,"unit":"bit/s"}},'
        '"warnings":[]}\n' + path.read_text()
    )
    run = load_run(folder.path)
    assert [record.key for record in run.trials] == ["k0", "k1"]
    assert [metric.method for record in run.trials for metric in record.result.metrics] == [None, 1]
    assert run.trial_schema == 1


def test_package_list_of_a_guest_image_is_stored_once_by_its_digest(folder: RunFolder) -> None:
    """Name the file by its sha256sum, which anyone can check."""
    packages = ("ethtool=1:6.1-1", "iperf3=3.12-1+deb12u1")
    for _ in range(2):
        folder.write_packages(packages)
    (place,) = (folder.path / "packages").iterdir()
    assert place.read_text() == "ethtool=1:6.1-1\niperf3=3.12-1+deb12u1\n"
    assert place.stem == hashlib.sha256(place.read_bytes()).hexdigest() == packages_digest(packages)


def test_second_writer_of_a_run_is_refused(folder: RunFolder) -> None:
    """Allow one controller per run."""
    with pytest.raises(StoreError, match="another iolab"):
        RunFolder(folder.path)


def test_full_disk_raises_a_clear_error_and_keeps_the_stored_trials(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Remove the incomplete line."""
    folder.append_trial(record("k0"), None)

    def no_room(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_room)
    with pytest.raises(StoreError, match=r"No space left.*readable.*resume"):
        folder.append_trial(record("k1"), None)
    monkeypatch.undo()
    assert load_run(folder.path).trials[0] == record("k0")


@pytest.mark.parametrize("saved", ["{}", "", "{}\nwritten by hand"], ids=["unchanged", "empty", "extended"])
def test_trials_survive_an_editor_that_saves_by_rename(folder: RunFolder, saved: str) -> None:
    """Write missing lines to the new file, and keep additional ones."""
    folder.append_trial(record("k0"), None)
    place = folder.path / "trials.jsonl"
    (folder.path / "edited").write_text(saved.format(place.read_text().rstrip()))
    (folder.path / "edited").rename(place)
    folder.append_trial(record("k1"), None)
    lines = place.read_text().splitlines()
    assert [json.loads(line)["key"] for line in lines if line != "written by hand"] == ["k0", "k1"]
    assert ("written by hand" in lines) == ("by hand" in saved)


def test_record_file_deleted_during_the_run_is_rewritten(folder: RunFolder) -> None:
    """Check at the end of the run, too, without a further append."""
    folder.append_trial(record("k0"), None)
    folder.append_trial(record("k1"), None)
    (folder.path / "trials.jsonl").unlink()
    folder.close()
    assert load_run(folder.path).trials == (record("k0"), record("k1"))


def test_removed_run_folder_is_reported_as_an_error(folder: RunFolder) -> None:
    """Report that the trial is not stored."""
    shutil.rmtree(folder.path)
    with pytest.raises(StoreError, match="the folder was removed"):
        folder.append_trial(record("k0"), None)


def test_new_decision_keeps_the_earlier_one_as_a_revision(folder: RunFolder) -> None:
    """Show the earlier state of an extended run."""
    folder.write_decision("title: Larger\n", PLAN, {"kernel": "6.1"})
    assert (folder.path / "revisions" / "001" / "experiment.yaml").read_text() == "title: A plan\n"
    assert (folder.path / "experiment.yaml").read_text() == "title: Larger\n"


def test_revision_is_read_with_its_own_plan_and_trials(folder: RunFolder) -> None:
    """Include its trials and a name, so that revisions can be compared."""
    folder.append_trial(record("k0"), None)
    folder.write_decision("title: Larger\n", PLAN, {"kernel": "6.1"})
    folder.append_trial(record("k1"), None)
    earlier, now = load_run(folder.path / "revisions" / "001"), load_run(folder.path)
    assert earlier.trials == (record("k0"),)
    assert now.trials == (record("k0"), record("k1"))
    assert earlier.name == f"{folder.path.name}, revision 001"
    assert earlier.plan == PLAN


def test_revision_without_a_trial_count_has_the_trials_of_its_plan(folder: RunFolder) -> None:
    """Select the trials by the old plan."""
    folder.append_trial(record(STEPS[0].key), None)
    folder.append_trial(record("another"), None)
    folder.write_decision("title: Larger\n", PLAN, {"kernel": "6.1"})
    kept = folder.path / "revisions" / "001"
    (kept / "kept.json").unlink()
    assert load_run(kept).trials == (record(STEPS[0].key),)
    (kept / "kept.json").write_text("[]")
    with pytest.raises(StoreError, match=r"kept\.json"):
        load_run(kept)


class Killed(BaseException):
    """A stand-in for SIGKILL: nothing catches it."""


TOUCHES = (
    "os.fsync",
    "os.link",
    "pathlib.Path.rename",
    "pathlib.Path.replace",
    "pathlib.Path.mkdir",
    "pathlib.Path.rmdir",
)


def die_at(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Make the process die at its n-th disk operation."""
    left = [number]
    for name in TOUCHES:
        module, _, attribute = name.rpartition(".")
        owner = Path if module.endswith("Path") else os
        real = getattr(owner, attribute)

        def touch(*args: Any, real: Any = real, **options: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                raise Killed
            return real(*args, **options)

        monkeypatch.setattr(owner, attribute, touch)


def decision(path: Path) -> tuple[str, str, object]:
    """Return the parts of a decision, read back."""
    run = load_run(path)
    return experiment_text(path), run.plan.digest, run.facts["kernel"]


def test_kill_at_any_moment_leaves_the_old_or_the_new_decision(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never leave a mixture; allow opening, and repeating the extension."""
    old, new = ("title: A plan\n", "d" * 64, "6.1"), ("title: B\n", "e" * 64, "6.2")
    larger = replace(PLAN, digest="e" * 64)
    folder.append_trial(record("k0"), None)
    folder.close()
    seen = set()
    for number in range(1, 40):
        path = folder.path.with_name(f"copy-{number}")
        shutil.copytree(folder.path, path)
        writer = RunFolder(path)
        with monkeypatch.context() as patch:
            die_at(patch, number)
            try:
                writer.write_decision("title: B\n", larger, {"kernel": "6.2"})
                done = True
            except Killed:
                done = False
        writer.close()
        assert decision(path) in (old, new)
        seen.add(decision(path))
        before = decision(path)
        again = RunFolder(path)
        assert decision(path) == before
        again.write_decision("title: B\n", larger, {"kernel": "6.2"})
        again.close()
        assert decision(path) == new
        first = path / "revisions" / "001" / "experiment.yaml"
        assert first.read_text() == "title: A plan\n"
        assert load_run(path).trials == (record("k0"),)
        if done:
            break
    assert done
    assert seen == {old, new}


def test_trials_added_to_an_existing_block_are_counted(folder: RunFolder) -> None:
    """Ignore a new block, which is measured in turn."""
    folder.append_trial(record("k0"), None)
    late, new_block = replace(STEPS[0], key="k7"), replace(STEPS[0], key="k8", block=2)
    folder.write_decision("title: B\n", replace(PLAN, steps=(*STEPS, late, new_block), blocks=2), {})
    folder.append_trial(record("k7"), None)
    folder.append_trial(replace(record("k8"), block=2), None)
    assert load_run(folder.path).joined_late == 1


def test_folder_that_is_not_a_run_is_refused(tmp_path: Path) -> None:
    """Refuse a missing and an empty folder."""
    with pytest.raises(InputError, match="no such folder"):
        load_run(tmp_path / "nothing")
    with pytest.raises(InputError, match=r"without plan\.json"):
        load_run(tmp_path)
    assert find_runs(tmp_path) == []


def test_run_folder_with_a_symbolic_link_is_refused(tmp_path: Path) -> None:
    """Write lines and samples inside a foreign run folder, or not at all."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").write_text("keep me")
    for name, target in (("trials.jsonl", "file"), ("commands.jsonl", "file"), ("samples", "")):
        folder = create_folder(tmp_path, "links", WALL)
        folder.close()
        place = folder.path / name
        if place.is_dir():
            place.rmdir()
        else:
            place.unlink()
        place.symlink_to(elsewhere / target)
        with pytest.raises(StoreError, match="symbolic link"):
            RunFolder(folder.path)
    assert (elsewhere / "file").read_text() == "keep me"
