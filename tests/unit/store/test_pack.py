"""Packing of a run: every command reads the same data, whenever the process is killed."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet
from tests.unit.store.examples import PLAN, WALL, record
from tests.unit.store.stored import Killed, content, copied

from iolab.errors import InputError, StoreError
from iolab.results.trial import CommandRecord, Status
from iolab.store import frames, lines, packs, parquet_files
from iolab.store.folder import RunFolder, create_folder
from iolab.store.pack import pack as pack_run
from iolab.store.read import load_run, stacks_of
from iolab.store.records import SAMPLES, Samples, StoredRun
from iolab.store.series import series_of

RUNS = ("schema-3-first-mixed", "schema-2-last-wire", "schema-1-first-packets")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Provide a copy of a stored run."""
    return copied(RUNS[0], tmp_path)


@pytest.mark.parametrize("name", RUNS)
def test_packed_run_is_read_like_the_original(tmp_path: Path, name: str) -> None:
    """Compare trials, commands, packets, series and profiles; the number of files falls."""
    folder = copied(name, tmp_path)
    before = content(folder)
    packed = pack_run(folder)
    assert content(folder) == before
    assert packed.files_after == sum(len(files) for _, _, files in os.walk(folder))
    assert {path.name for path in (folder / SAMPLES).iterdir()} == {
        "pack-001.zst", f"{before['trials'][0].key}.near.eth0.pcapng",
    }  # fmt: skip


def test_packing_a_packed_run_changes_nothing(run: Path) -> None:
    """Pack a packed run again."""
    pack_run(run)
    before = {
        path: path.stat().st_mtime_ns for path in run.rglob("*") if path.stat().st_size and path.is_file()
    }
    pack_run(run)
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_extended_run_is_packed_again(run: Path) -> None:
    """Append to a packed run; a repeated trial's new samples take precedence over the packed ones."""
    pack_run(run)
    key = load_run(run).trials[0].key
    folder = RunFolder(run)
    folder.append_trial(
        record(key), Samples(raw={"again": 1}, files={"profile.near.folded": b"main;send 9\n"})
    )
    folder.close()
    stacks = {"near": "main;send 9\n"}
    assert stacks_of(run)(key) == stacks
    before = content(run)
    pack_run(run)
    assert content(run) == before
    assert stacks_of(run)(key) == stacks
    assert [path.name for path in lines.parts_of(run, "trials.jsonl")] == [
        "trials-001.jsonl.zst", "trials-002.jsonl.zst", "trials.jsonl",
    ]  # fmt: skip
    assert parquet_files.about_run(run / "trials.parquet")["trials"] == len(before["trials"])


STEPS: tuple[tuple[object, str], ...] = (
    (os, "fsync"), (Path, "replace"), (Path, "unlink"), (Path, "rename"), (lines, "compressed"),
    (packs, "compressed"), (packs, "decompressed"), (lines, "footer"), (packs, "footer"), (lines, "_decompressing"),
)  # fmt: skip
"""Calls between which a process may be killed."""


def killing(monkeypatch: pytest.MonkeyPatch, at: int) -> Callable[[], int]:
    """Let the call number `at` of any step end the process; return the number of calls so far."""
    count = 0

    def cut(usual: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            nonlocal count
            count += 1
            if count == at:
                raise Killed
            return usual(*args, **named)

        return call

    for owner, name in STEPS:
        monkeypatch.setattr(owner, name, cut(getattr(owner, name)))
    return lambda: count


def moments(of: Path, monkeypatch: pytest.MonkeyPatch, scratch: Path) -> Iterator[Path]:
    """Yield a copy of a run for each call at which packing it was killed."""
    for at in range(1, 1000):
        folder = scratch / str(at)
        shutil.copytree(of, folder)
        with monkeypatch.context() as patch:
            killing(patch, at)
            try:
                pack_run(folder)
            except Killed:
                yield folder
                continue
        return


def test_run_is_readable_at_whatever_step_packing_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kill the process at every write, sync, rename and removal; the next call completes the packing."""
    made = create_folder(tmp_path, "x", WALL)
    made.write_decision("title: A plan\n", PLAN, {"kernel": "6.1"})
    made.append_commands(
        [CommandRecord(machine="a", netns=None, argv=("x",), undo=None, exit_status=0, duration_ns=1)]
    )
    for key in ("k0", "k1"):
        made.append_trial(record(key), Samples(files={"profile.near.folded": key.encode()}))
    made.close()
    run = made.path
    monkeypatch.setattr(packs, "PACK_BYTES", 1)  # a pack for each file
    before, killed = content(run), 0
    for folder in moments(run, monkeypatch, tmp_path / "cut"):
        killed += 1
        assert content(folder) == before
        pack_run(folder)
        assert content(folder) == before
        packed = {path.name for path in (folder / SAMPLES).iterdir()}
        assert packed == {"pack-001.zst", "pack-002.zst"}, killed
        assert not [
            path for path in folder.iterdir() if path.name in ("trials-001.jsonl", "commands-001.jsonl")
        ]
    assert killed > 30


def test_packed_file_truncated_at_any_byte_is_refused(run: Path) -> None:
    """Truncate the sealed trials and the pack: the message names the file; no trial is missing silently."""
    pack_run(run)
    for name in ("trials-001.jsonl.zst", "samples/pack-001.zst"):
        path = run / name
        whole = path.read_bytes()
        for size in {*range(0, len(whole), max(1, len(whole) // 40)), len(whole) - 1, len(whole) - 8}:
            path.write_bytes(whole[:size])
            with pytest.raises((StoreError, ValueError, OSError)) as caught:
                read_all(run)
            assert name.startswith("samples") or str(path) in str(caught.value)
        path.write_bytes(whole)


def read_all(run: Path) -> None:
    """Read the trials and the packed series of a run."""
    load_run(run)
    series_of(run)


def test_changed_byte_of_a_sealed_file_is_refused(run: Path) -> None:
    """Compare the checksum: zstd itself accepts some changed bytes."""
    pack_run(run)
    path, refused, trials = run / "trials-001.jsonl.zst", 0, load_run(run).trials
    whole = path.read_bytes()
    places = range(0, len(whole), max(1, len(whole) // 60))
    for at in places:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        try:
            assert load_run(run).trials == trials  # some bytes have no effect: unused bits of a frame's head
        except StoreError as error:
            refused += "restore the file from a backup" in str(error)
    assert refused > 0.8 * len(places)


def test_small_packed_file_that_expands_to_one_huge_line_does_not_exhaust_memory(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refuse a decompression bomb."""
    monkeypatch.setattr(lines, "MAX_LINE", 1 << 16)
    path = run / "trials-001.jsonl.zst"
    path.write_bytes(frames.compressed(b"0" * 10_000_000) + frames.footer({"lines": 1}))
    with pytest.raises(StoreError, match="the last line is incomplete"):
        load_run(run)


def test_other_programs_can_read_sealed_files(run: Path) -> None:
    """Decompress by the zstd program, where it is installed."""
    if shutil.which("zstd") is None:
        pytest.skip("needs zstd (package zstd)")
    original = (run / "trials.jsonl").read_bytes()
    pack_run(run)
    shown = subprocess.run(["zstd", "-dc", run / "trials-001.jsonl.zst"], check=True, capture_output=True)
    assert shown.stdout == original
    subprocess.run(["zstd", "-tq", run / SAMPLES / "pack-001.zst"], check=True)


def test_run_in_use_is_not_packed(run: Path) -> None:
    """Refuse while a different process measures."""
    folder = RunFolder(run)
    with pytest.raises(StoreError, match="another iolab process is writing"):
        pack_run(run)
    folder.close()


def test_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    """Write nothing into a foreign folder."""
    with pytest.raises(InputError):
        pack_run(tmp_path)
    assert not [*tmp_path.iterdir()]


def test_figures_in_the_packed_table_equal_those_in_the_records(run: Path) -> None:
    """Compare every value bit by bit, with its metric, unit and dimensions; a failed trial has a row without value."""
    folder = RunFolder(run)
    failed = record("f" * 32, status=Status.FAILED)
    folder.append_trial(failed)
    folder.close()
    pack_run(run)
    rows = parquet.read_table(run / "trials.parquet").to_pylist()
    stored = sorted(row_of(row) for row in rows)
    assert stored == sorted(expected(load_run(run)))
    assert [row["status"] for row in rows if row["value"] is None].count("failed") == 1
    series = parquet.read_table(run / "series.parquet").to_pylist()
    assert {each["series"] for each in series} == {row["series"] for row in rows if row["metric"]}
    factors = parquet.read_table(run / "factors.parquet").to_pylist()
    assert {each["cell"] for each in factors} <= {row["cell"] for row in rows}


def row_of(row: dict[str, Any]) -> tuple[str, ...]:
    """Return a row in a comparable form."""
    value = "" if row["value"] is None else float(row["value"]).hex()
    dimensions = dict(row["dimensions"] or {})
    return (row["measure"], str(row["block"]), row["metric"] or "", value, row["unit"] or "", str(dimensions),
            str(row["method"]), row["status"], row["limited_by"] or "", row["limit"] or "", row["flags"])  # fmt: skip


def expected(run: StoredRun) -> Iterator[tuple[str, ...]]:
    """Yield the rows that the records give."""
    for trial in run.trials:
        result = trial.result
        limit = result.verdict.limit.value if result.verdict else ""
        flags = ",".join(sorted({each.code for each in result.warnings}))
        end = (result.status.value,)
        for each in result.metrics:
            known = {name: str(value) for name, value in each.dimensions.known().items()}
            yield (trial.measure, str(trial.block), each.name, each.value.hex(), each.unit, str(known),
                   str(each.method), *end, each.limited_by, limit, flags)  # fmt: skip
        if not len(result.metrics):
            yield trial.measure, str(trial.block), "", "", "", "{}", "None", *end, "", limit, flags
