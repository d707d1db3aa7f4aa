"""Compaction of a library: the same figures in fewer files, whoever reads, adds, compacts or is killed meanwhile."""

import multiprocessing
import os
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet
from tests.unit.store.libraries import extended, made, values
from tests.unit.store.stored import Killed

from iolab.cli.main import run as command
from iolab.errors import ExitCode, StoreError
from iolab.store.library import compaction
from iolab.store.library.adding import State, add
from iolab.store.library.checking import check
from iolab.store.library.checkpoints import checkpoints, contents, put_checkpoint
from iolab.store.library.compaction import Limits, compact
from iolab.store.library.reading import described, query, trials_of
from iolab.store.run_tables import open_run

NOW = datetime.now(UTC)
LATER = NOW + timedelta(days=9999)
RUNS = 5


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """Provide a library with five runs of two trials each, in two months."""
    for number in range(RUNS):
        add(tmp_path / "library", open_run(made(tmp_path / "runs", number * 8, trials=2)))
    return tmp_path / "library"


def rows(library: Path) -> list[dict[str, Any]]:
    """Return all rows of the figures, in a fixed order."""
    found = trials_of(contents(library)).to_table().to_pylist()
    return sorted(found, key=lambda row: (row["run"], row["series"], row["time"]))


def files(library: Path) -> set[str]:
    """Return the names of all Parquet files."""
    return {str(path.relative_to(library)) for path in library.rglob("*.parquet")}


def test_compacted_library_has_the_same_rows_in_fewer_files(library: Path) -> None:
    """Compare rows, factors, series, runs and partitions; the next compaction changes nothing."""
    before, described_before = rows(library), [table.to_pylist() for table in described(contents(library))]
    done = compact(library, NOW, min_files=2)
    assert rows(library) == before
    after = [table.to_pylist() for table in described(contents(library))]
    assert [sorted(map(str, table)) for table in after] == [
        sorted(map(str, table)) for table in described_before
    ]
    assert (done.files_before, done.files_after) == (5 + 1 + 1, 4)
    assert len(checkpoints(library)) == 1
    assert compact(library, NOW, min_files=2).files_after == done.files_after
    assert len(checkpoints(library)) == 1
    assert check(library).problems == ()


def test_merged_files_are_sorted_by_series_and_time(library: Path) -> None:
    """Skip row groups of other series when one series is read."""
    compact(library, NOW, min_files=2)
    for part in contents(library).parts:
        if part.table == "trials":
            found = parquet.read_table(library / part.path, partitioning=None).to_pylist()
            keys = [(row["series"], row["time"]) for row in found]
            assert keys == sorted(keys)


def test_small_library_stays_as_it_is(library: Path) -> None:
    """Merge only partitions with many files."""
    before = files(library)
    compact(library, NOW)
    assert files(library) == before
    assert checkpoints(library) == []


def test_replaced_files_are_kept_for_readers_and_deleted_later(library: Path) -> None:
    """Delete them when the grace time after the compaction has passed."""
    before = files(library)
    compact(library, NOW, min_files=2)
    assert files(library) > before
    kept = {part.path for part in contents(library).parts}
    wanted = rows(library)
    done = compact(library, LATER, min_files=2)
    assert files(library) == kept
    assert done.deleted == len(before - kept)
    assert rows(library) == wanted
    assert check(library).problems == ()


def test_reader_that_began_before_a_compaction_can_finish(library: Path) -> None:
    """Open the files after the compaction."""
    begun = trials_of(contents(library))
    compact(library, NOW, min_files=2)
    assert begun.count_rows() == 2 * RUNS


@pytest.mark.parametrize("is_deleted", [False, True])
def test_run_that_is_extended_after_a_compaction_counts_once(
    library: Path, tmp_path: Path, is_deleted: bool
) -> None:
    """Ignore its outdated rows in the merged file, and remove them by the next compaction."""
    compact(library, NOW, min_files=2)
    if is_deleted:
        compact(library, LATER, min_files=2)
    first = min((tmp_path / "runs").iterdir())
    extended(first, 100, 3)
    assert add(library, open_run(first)).state is State.ADDED
    wanted = rows(library)
    assert len(wanted) == 2 * RUNS + 3
    assert query(library, "SELECT count(*) AS n FROM trials").to_pylist() == [{"n": 2 * RUNS + 3}]
    compact(library, NOW, min_files=100)
    assert rows(library) == wanted
    assert not contents(library).outdated
    assert sum(part.rows for part in contents(library).parts if part.table == "trials") == len(wanted)


def test_runs_without_trials_in_the_last_months_are_removed(library: Path, tmp_path: Path) -> None:
    """Keep the runs of February only; a removed run is not added again."""
    done = compact(library, datetime(2026, 2, 10, tzinfo=UTC), limits=Limits(months=1))
    months = {str(row["month"]) for row in rows(library)}
    assert months == {"2026-02"}
    assert len(done.removed) + len(contents(library).runs) == RUNS
    removed = next(path for path in (tmp_path / "runs").iterdir() if path.name == done.removed[0].name)
    assert add(library, open_run(removed)).state is State.REMOVED
    extended(removed, 100, 3)
    assert add(library, open_run(removed)).state is State.REMOVED
    assert {str(row["month"]) for row in rows(library)} == {"2026-02"}
    assert check(library).problems == ()


def test_oldest_runs_are_removed_until_the_others_fit_the_size(library: Path) -> None:
    """Remove them from merged files too."""
    compact(library, NOW, min_files=2)
    runs = sorted(contents(library).runs, key=lambda run: run.name)
    size = sum(part.bytes for run in runs[-2:] for part in run.parts)
    done = compact(library, LATER, limits=Limits(bytes=size), grace_s=0)
    assert [run.name for run in done.removed] == [run.name for run in runs[:-2]]
    assert len(rows(library)) == 4
    compact(library, LATER + timedelta(days=1), grace_s=0)
    stored = [
        parquet.read_table(library / name, partitioning=None)
        for name in files(library)
        if name.startswith("trials")
    ]
    assert sum(table.num_rows for table in stored) == 4
    assert check(library).problems == ()


def test_large_partition_is_split_into_several_files(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin a new file at a range of series."""
    wanted = rows(library)
    monkeypatch.setattr(compaction, "MAX_ROWS", 1)
    compact(library, NOW, min_files=2)
    assert rows(library) == wanted


def test_second_of_two_compactions_is_refused(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let another compaction finish between reading and writing."""
    usual = put_checkpoint

    def after_another(*arguments: Any) -> bool:
        monkeypatch.setattr(compaction, "put_checkpoint", usual)
        compact(library, NOW, min_files=2)
        return usual(*arguments)

    wanted = rows(library)
    monkeypatch.setattr(compaction, "put_checkpoint", after_another)
    with pytest.raises(StoreError, match="another compaction"):
        compact(library, NOW, min_files=3)
    assert rows(library) == wanted


STEPS: tuple[tuple[object, str], ...] = (
    (os, "fsync"), (os, "link"), (Path, "unlink"), (parquet.ParquetWriter, "write_table"),
    (parquet.ParquetWriter, "close"), (compaction, "put_part"), (compaction, "put_checkpoint"),
)  # fmt: skip
"""Calls before which a process may be killed."""


def moments(library: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a copy of a library for each call before which a compaction was killed."""
    for at in range(1, 1000):
        copy, calls = scratch / str(at), 0
        shutil.copytree(library, copy)

        def cut(usual: Callable[..., Any], at: int = at) -> Callable[..., Any]:
            def call(*arguments: Any, **named: Any) -> Any:
                nonlocal calls
                calls += 1
                if calls == at:
                    raise Killed
                return usual(*arguments, **named)

            return call

        with monkeypatch.context() as patch:
            for owner, name in STEPS:
                patch.setattr(owner, name, cut(getattr(owner, name)))
            try:
                compact(copy, LATER, min_files=2, grace_s=0)
            except Killed:
                yield copy
                continue
        return


def test_library_is_readable_at_whatever_step_a_compaction_is_killed(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read the same rows; the next compaction completes the work and deletes the remains."""
    wanted, killed = rows(library), 0
    for copy in moments(library, tmp_path / "cut", monkeypatch):
        killed += 1
        assert rows(copy) == wanted
        compact(copy, LATER, min_files=2, grace_s=0)
        compact(copy, LATER, min_files=2, grace_s=0)
        assert rows(copy) == wanted
        assert check(copy).unnamed == ()
    assert killed > 15


def adding(library: Path, runs: list[Path]) -> None:
    """Add runs; executed in a separate process."""
    for path in runs:
        add(library, open_run(path))


def test_runs_added_during_compactions_are_not_lost(library: Path, tmp_path: Path) -> None:
    """Add in two processes while this one compacts again and again."""
    more = [made(tmp_path / "more", number) for number in range(50, 70)]
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=adding, args=(library, more[at::2])) for at in range(2)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        compact(library, datetime.now(UTC), min_files=2)
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    compact(library, datetime.now(UTC), min_files=2)
    assert len(values(library)) == 2 * RUNS + 20
    assert check(library).problems == ()


@pytest.mark.parametrize("damage", [b"", b"{}", b'{"schema": 2, "number": 1}', b"[" * 9999])
def test_damaged_checkpoint_is_reported(
    library: Path, damage: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    """Name the file, and never read the files of the additions instead."""
    compact(library, NOW, min_files=2)
    checkpoints(library)[0].write_bytes(damage)
    with pytest.raises(StoreError, match=r"checkpoint-000001\.json"):
        contents(library)
    assert command(["library", "check", "--library", str(library)]) == ExitCode.HOST_CANNOT
    assert "checkpoint-000001.json" in capsys.readouterr().err


def test_checkpoint_cannot_name_files_outside_the_library(library: Path) -> None:
    """Refuse a path with dots."""
    compact(library, NOW, min_files=2)
    path = checkpoints(library)[0]
    path.write_text(path.read_text().replace("factors/part-", "../part-"))
    with pytest.raises(StoreError, match="does not lead to a file in the library"):
        contents(library)


def test_command_compacts_and_names_removed_runs(library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Limit the size on the command line."""
    arguments = ["library", "compact", "-l", str(library), "--min-files", "2"]
    assert command([*arguments, "--max-size", "1GiB"]) == ExitCode.DONE
    assert "7 files are now 4 files" in capsys.readouterr().out
    assert command([*arguments, "--keep-months", "1", "--grace", "0s"]) == ExitCode.DONE
    assert command([*arguments, "--max-size", "big"]) == ExitCode.INPUT_WRONG
