"""Large runs are packed when they end; nothing that goes wrong then affects the run."""

from pathlib import Path

import pytest
from tests.unit.store.examples import PLAN, WALL, record
from tests.unit.store.stored import content

from iolab.cli.results import pack_at_end
from iolab.errors import StoreError
from iolab.store import pack
from iolab.store.folder import RunFolder, create_folder
from iolab.store.records import Samples


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Provide a complete run with two trials and two samples."""
    return made(tmp_path, ("k0", "k1"))


def made(parent: Path, keys: tuple[str, ...]) -> Path:
    """Return a run with trials of these keys."""
    folder = create_folder(parent, PLAN.title, WALL)
    folder.write_decision("title: A plan\n", PLAN, {})
    for key in keys:
        folder.append_trial(record(key), Samples(raw={"key": key}))
    folder.close()
    return folder.path


def is_packed(path: Path) -> bool:
    """Whether the samples of a run are in packs."""
    return [each.name for each in (path / "samples").iterdir()] == ["pack-001.zst"]


@pytest.mark.parametrize(("limit", "value"), [("MIN_FILES", 2), ("MIN_BYTES", 10)])
def test_run_with_many_or_large_samples_is_packed(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], limit: str, value: int
) -> None:
    """Print the effect on standard error, because a program reads the run's path from standard output."""
    monkeypatch.setattr(pack, limit, value)
    before = content(run)
    pack_at_end(run)
    assert is_packed(run)
    assert content(run) == before
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "packed" in printed.err


def test_small_run_stays_readable_without_decompression(run: Path) -> None:
    """Leave trials.jsonl in place."""
    pack_at_end(run)
    assert not is_packed(run)
    assert (run / "trials.jsonl").read_text().count("\n") == 2


def test_extended_run_that_was_packed_is_packed_again(run: Path) -> None:
    """Keep its tables current."""
    pack.pack(run)
    folder = RunFolder(run)
    folder.append_trial(record("k1"), Samples(raw={"key": "again"}))
    folder.close()
    pack_at_end(run)
    assert {each.name for each in (run / "samples").iterdir()} == {"pack-001.zst", "pack-002.zst"}


def test_interrupted_run_is_not_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for the resume."""
    monkeypatch.setattr(pack, "MIN_FILES", 1)
    run = made(tmp_path, ("k0",))
    pack_at_end(run)
    assert not is_packed(run)


def test_run_stays_as_it_is_without_pyarrow(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Print nothing and change no file."""
    monkeypatch.setattr(pack, "MIN_FILES", 1)
    monkeypatch.setattr(pack, "find_spec", lambda name: None)
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    pack_at_end(run)
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before


@pytest.mark.parametrize(
    ("error", "told"), [(StoreError("disk full"), "disk full"), (KeyboardInterrupt(), "iolab pack")]
)
def test_failed_packing_is_reported_and_changes_no_result(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    error: BaseException, told: str,
) -> None:  # fmt: skip
    """Name the way to complete it."""

    def fail(path: Path) -> None:
        raise error

    monkeypatch.setattr(pack, "MIN_FILES", 1)
    monkeypatch.setattr(pack, "pack", fail)
    before = content(run)
    pack_at_end(run)
    assert told in capsys.readouterr().err
    assert content(run) == before
