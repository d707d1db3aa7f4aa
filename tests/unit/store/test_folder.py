"""The run folder: durable appends, torn lines, locks, a full disk."""

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
    """A run folder with a plan."""
    made = create_folder(tmp_path, "Quick start: TCP & UDP!", WALL)
    made.write_decision("title: A plan\n", PLAN, {"kernel": "6.1"})
    yield made
    with contextlib.suppress(StoreError):  # a test may have removed it
        made.close()


def test_the_folder_is_named_by_time_and_title(folder: RunFolder) -> None:
    """The name sorts by time and says what it is."""
    assert folder.path.name == "20260102T030405-quick-start-tcp-udp"


def test_a_second_run_in_the_same_second_gets_a_name_of_its_own(tmp_path: Path) -> None:
    """Nothing is overwritten."""
    paths = {create_folder(tmp_path, "x", WALL).path for _ in range(3)}
    assert len(paths) == 3


def test_what_was_appended_is_read_back_equal(folder: RunFolder) -> None:
    """Trials, commands, plan and facts survive the disk."""
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


def test_a_run_is_partial_until_every_step_has_a_trial(folder: RunFolder) -> None:
    """Status follows from plan and trials; it is not a flag that could lie."""
    folder.append_trial(record("k0"), None)
    assert load_run(folder.path).status is RunStatus.PARTIAL


@pytest.mark.parametrize("cut", [1, 10, 100])
def test_a_torn_last_line_is_left_out_and_said(folder: RunFolder, cut: int) -> None:
    """A kill in the middle of writing costs that trial only; writing goes on after the last whole line."""
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


def test_a_damaged_line_is_an_error_with_its_place(folder: RunFolder) -> None:
    """Damage in the middle is never passed over in silence."""
    folder.append_trial(record("k0"), None)
    path = folder.path / "trials.jsonl"
    path.write_text('{"schema":2}\n' + path.read_text())
    with pytest.raises(StoreError, match=r"trials\.jsonl:1: .* is not a record \(key: Field required"):
        load_run(folder.path)


def test_a_record_of_another_schema_names_both_versions(folder: RunFolder) -> None:
    """Newer files are refused, not guessed at."""
    path = folder.path / "trials.jsonl"
    path.write_text('{"schema":99}\n')
    with pytest.raises(
        StoreError, match=r"trials\.jsonl:1: .*of schema 99: .*reads schemas 1 to 3; use a version of iolab"
    ):
        load_run(folder.path)


def test_a_run_of_an_older_schema_is_read_beside_newer_lines(folder: RunFolder) -> None:
    """Each line says its own schema, as where a run is resumed by a newer iolab."""
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


def test_what_is_in_a_guest_image_is_kept_once_under_the_digest_of_its_file(folder: RunFolder) -> None:
    """The file is named by what sha256sum says of it, so a stranger needs no iolab to check it."""
    packages = ("ethtool=1:6.1-1", "iperf3=3.12-1+deb12u1")
    for _ in range(2):
        folder.write_packages(packages)
    (place,) = (folder.path / "packages").iterdir()
    assert place.read_text() == "ethtool=1:6.1-1\niperf3=3.12-1+deb12u1\n"
    assert place.stem == hashlib.sha256(place.read_bytes()).hexdigest() == packages_digest(packages)


def test_two_writers_are_refused(folder: RunFolder) -> None:
    """One run, one controller."""
    with pytest.raises(StoreError, match="another iolab"):
        RunFolder(folder.path)


def test_a_full_disk_stops_with_a_clear_error_and_keeps_what_was_written(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line that does not fit is taken back whole."""
    folder.append_trial(record("k0"), None)

    def no_room(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_room)
    with pytest.raises(StoreError, match=r"No space left.*readable.*resume"):
        folder.append_trial(record("k1"), None)
    monkeypatch.undo()
    assert load_run(folder.path).trials[0] == record("k0")


@pytest.mark.parametrize("saved", ["{}", "", "{}\nwritten by hand"], ids=["as it was", "empty", "longer"])
def test_an_editor_that_saves_by_rename_costs_no_trial(folder: RunFolder, saved: str) -> None:
    """What the new file lacks is written to it; what somebody added to it stays."""
    folder.append_trial(record("k0"), None)
    place = folder.path / "trials.jsonl"
    (folder.path / "edited").write_text(saved.format(place.read_text().rstrip()))
    (folder.path / "edited").rename(place)
    folder.append_trial(record("k1"), None)
    lines = place.read_text().splitlines()
    assert [json.loads(line)["key"] for line in lines if line != "written by hand"] == ["k0", "k1"]
    assert ("written by hand" in lines) == ("by hand" in saved)


def test_a_record_that_is_deleted_while_the_run_goes_on_is_there_again(folder: RunFolder) -> None:
    """Also when nothing is appended after it: the end of the run looks."""
    folder.append_trial(record("k0"), None)
    folder.append_trial(record("k1"), None)
    (folder.path / "trials.jsonl").unlink()
    folder.close()
    assert load_run(folder.path).trials == (record("k0"), record("k1"))


def test_a_folder_that_is_gone_is_said_and_not_taken_for_stored(folder: RunFolder) -> None:
    """There is no file to append to, so the trial is not stored."""
    shutil.rmtree(folder.path)
    with pytest.raises(StoreError, match="the folder was removed"):
        folder.append_trial(record("k0"), None)


def test_a_new_decision_keeps_the_earlier_one(folder: RunFolder) -> None:
    """An extended run still shows what it was before."""
    folder.write_decision("title: Larger\n", PLAN, {"kernel": "6.1"})
    assert (folder.path / "revisions" / "001" / "experiment.yaml").read_text() == "title: A plan\n"
    assert (folder.path / "experiment.yaml").read_text() == "title: Larger\n"


def test_a_revision_is_read_as_the_run_was_then(folder: RunFolder) -> None:
    """With the trials that it had, and a name that says whose it is; so two of them can be compared."""
    folder.append_trial(record("k0"), None)
    folder.write_decision("title: Larger\n", PLAN, {"kernel": "6.1"})
    folder.append_trial(record("k1"), None)
    earlier, now = load_run(folder.path / "revisions" / "001"), load_run(folder.path)
    assert earlier.trials == (record("k0"),)
    assert now.trials == (record("k0"), record("k1"))
    assert earlier.name == f"{folder.path.name}, revision 001"
    assert earlier.plan == PLAN


def test_a_revision_of_an_older_iolab_has_the_trials_that_it_wanted(folder: RunFolder) -> None:
    """It did not say how many there were."""
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
    """What stands for SIGKILL: nothing catches it."""


TOUCHES = (
    "os.fsync",
    "os.link",
    "pathlib.Path.rename",
    "pathlib.Path.replace",
    "pathlib.Path.mkdir",
    "pathlib.Path.rmdir",
)


def die_at(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Make the process die at its n-th touch of the disk."""
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
    """Read back what counts."""
    run = load_run(path)
    return experiment_text(path), run.plan.digest, run.facts["kernel"]


def test_a_kill_at_any_moment_leaves_the_old_decision_or_the_new_one(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never a mixture; whoever opens the folder next can go on, and the same extension can be asked for again."""
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


def test_trials_that_joined_a_block_later_are_counted(folder: RunFolder) -> None:
    """A block that an earlier plan had measured already; a block of its own is measured in turn."""
    folder.append_trial(record("k0"), None)
    late, new_block = replace(STEPS[0], key="k7"), replace(STEPS[0], key="k8", block=2)
    folder.write_decision("title: B\n", replace(PLAN, steps=(*STEPS, late, new_block), blocks=2), {})
    folder.append_trial(record("k7"), None)
    folder.append_trial(replace(record("k8"), block=2), None)
    assert load_run(folder.path).joined_late == 1


def test_what_is_no_run_is_said_so(tmp_path: Path) -> None:
    """Neither a missing folder nor an empty one is a run."""
    with pytest.raises(InputError, match="no such folder"):
        load_run(tmp_path / "nothing")
    with pytest.raises(InputError, match=r"without plan\.json"):
        load_run(tmp_path)
    assert find_runs(tmp_path) == []


def test_what_is_stored_does_not_land_elsewhere_by_a_link(tmp_path: Path) -> None:
    """A run folder that somebody gave us: its lines and samples are written in it, or not at all."""
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
