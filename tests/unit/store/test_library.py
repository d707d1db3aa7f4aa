"""The library: concurrent and killed writers, damaged files, and queries that try to leave it."""

import json
import multiprocessing
import os
import random
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.store.libraries import FACTS, extended, made, values

from iolab.cli.main import run as command
from iolab.errors import InputError, StoreError, UnsupportedError
from iolab.store.digests import host_class, stable_facts
from iolab.store.library.adding import State, add
from iolab.store.library.checking import check
from iolab.store.library.checkpoints import contents
from iolab.store.library.manifests import MANIFESTS, manifests, put, read_manifest
from iolab.store.library.reading import described, query, trials_of
from iolab.store.pack import pack
from iolab.store.run_tables import open_run


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """Provide a library with two runs."""
    for number in (1, 40):
        add(tmp_path / "library", open_run(made(tmp_path, number, trials=2)))
    return tmp_path / "library"


def test_added_figures_are_read_back_bit_by_bit(library: Path) -> None:
    """Compare the values, the partitions and the tables that describe them."""
    assert values(library) == sorted(1e9 + number + at / 7 for number in (1, 40) for at in range(2))
    table = trials_of(contents(library)).to_table()
    assert set(table["month"].to_pylist()) == {"2026-01", "2026-02"}
    assert set(table["host_class"].to_pylist()) == {host_class(FACTS)}
    factors, series = described(contents(library))
    assert factors.to_pylist() == [
        {"cell": series["cell"][0].as_py(), "factor": "links.lan.mtu", "level": "1500"}
    ]
    assert series["metric"].to_pylist() == ["received_bps"]
    assert set(table["series"].to_pylist()) == set(series["series"].to_pylist())


def test_run_added_to_the_library_again_in_any_form_is_stored_once(tmp_path: Path) -> None:
    """Add a run again: unchanged, packed and renamed."""
    run = made(tmp_path, 1, trials=3)
    library = tmp_path / "library"
    assert add(library, open_run(run)).state is State.ADDED
    assert add(library, open_run(run)).state is State.EXISTS
    pack(run)
    renamed = run.rename(tmp_path / "renamed")
    assert add(library, open_run(renamed)).state is State.EXISTS
    assert len(values(library)) == 3


def test_extended_run_replaces_the_shorter_one_in_the_library(tmp_path: Path) -> None:
    """Count each trial once; afterwards, the shorter run counts as already stored."""
    run, library = made(tmp_path, 1, trials=2), tmp_path / "library"
    shutil.copytree(run, tmp_path / "short")
    add(library, open_run(run))
    extended(run, 2, trials=2)
    assert add(library, open_run(run)).state is State.ADDED
    assert len(values(library)) == 4
    assert add(library, open_run(tmp_path / "short")).state is State.EXISTS
    assert check(library).superseded == 1


def test_different_continuation_of_a_stored_run_is_refused(tmp_path: Path) -> None:
    """Lose neither of two copies that continues differently."""
    run, library = made(tmp_path, 1), tmp_path / "library"
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    extended(run, 2, trials=1)
    extended(copy, 3, trials=2)
    add(library, open_run(run))
    with pytest.raises(StoreError, match="continues differently"):
        add(library, open_run(copy))
    assert len(values(library)) == 2


def test_packed_and_loose_runs_give_equal_tables(tmp_path: Path) -> None:
    """Compare the tables of iolab.open; after an extension the old Parquet files are not used."""
    import iolab

    run = made(tmp_path, 1, trials=3)
    loose = iolab.open(run).trials()
    pack(run)
    assert iolab.open(str(run)).trials().equals(loose)
    assert iolab.open(run).series().num_rows == 1
    extended(run, 2, trials=1)
    assert iolab.open(run).trials().num_rows == 4


def adding(library: Path, runs: list[Path], seed: int) -> None:
    """Add runs in random order, as one of several writers."""
    order = random.Random(seed).sample(runs, len(runs))
    for run in order:
        add(library, open_run(run))


def test_concurrent_and_killed_writers_neither_lose_nor_duplicate_a_run(tmp_path: Path) -> None:
    """Kill some of four writers; then one adds everything that is left."""
    runs = [made(tmp_path, number) for number in range(12)]
    library, chance = tmp_path / "library", random.Random(7)
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=adding, args=(library, runs, seed)) for seed in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers[:2]:
        time.sleep(chance.uniform(0.02, 0.2))  # kill at a random moment of an addition
        assert writer.pid is not None
        os.kill(writer.pid, signal.SIGKILL)
    for writer in writers:
        writer.join()
    assert not check(library).problems
    adding(library, runs, 0)
    assert values(library) == sorted(1e9 + number for number in range(12))
    assert not check(library).problems


def test_put_creates_a_complete_file_or_none(tmp_path: Path) -> None:
    """Leave nothing behind after a failure, and never change an existing file."""

    def fail(file: Any) -> None:
        file.write(b"half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        put(tmp_path / "a", fail)
    assert not [*tmp_path.iterdir()]
    assert put(tmp_path / "a", lambda file: file.write(b"1"))
    assert not put(tmp_path / "a", lambda file: file.write(b"2"))
    assert (tmp_path / "a").read_bytes() == b"1"


def test_library_check_reports_missing_changed_and_superfluous_files(library: Path) -> None:
    """Damage one file of each kind."""
    assert not check(library).problems
    assert not check(library).unnamed
    first, second = sorted(library.glob("trials/*/*/*.parquet"))
    first.write_bytes(first.read_bytes()[:-1] + b"x")
    second.unlink()
    left = library / "factors" / "part-0123456789abcdef.parquet"
    left.write_bytes(b"")
    found = check(library)
    assert {path.name for path in (first, second) if any(path.name in str(each) for each in found.problems)} == {
        first.name, second.name,
    }  # fmt: skip
    assert found.unnamed == (str(left.relative_to(library)),)
    assert command(["library", "check", "-l", str(library)]) == 3


@pytest.mark.parametrize(
    "change",
    [
        lambda it: it["parts"][0].update(path="../../etc/passwd"),
        lambda it: it["parts"][0].update(path="/etc/passwd"),
        lambda it: it["parts"][0].update(path="trials/host_class=x/../../../part-0123456789abcdef.parquet"),
        lambda it: it.update(schema=2),
        lambda it: it.update(trials=10**9),
        lambda it: it.update(colour=1),
        lambda it: it.pop("parts"),
    ],
)
def test_hostile_manifest_of_a_library_is_refused(library: Path, change: Any) -> None:
    """Read no file outside the library."""
    path = min((library / MANIFESTS).iterdir())
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    with pytest.raises(StoreError, match="restore the file from a backup"):
        read_manifest(path)
    with pytest.raises(StoreError):
        manifests(library)
    assert check(library).problems


def test_folder_that_is_not_a_library_is_refused(tmp_path: Path) -> None:
    """Name the command that creates a library."""
    with pytest.raises(InputError, match="library add"):
        manifests(tmp_path)


def test_host_class_ignores_facts_that_change_between_runs() -> None:
    """Compare facts with other load, memory, addresses and virtual interfaces; a different kernel is a new class."""
    later = {
        **FACTS, "load_1min_milli": 999, "memory_bytes": 5, "hostname": "x", "settings": {"a": "1"},
        "interfaces": [*FACTS["interfaces"], {"driver": "veth", "name": "v0"}, {"driver": None, "name": "lo"}],
    }  # fmt: skip
    assert host_class(later) == host_class(FACTS)
    assert host_class({**FACTS, "kernel": "6.2"}) != host_class(FACTS)
    assert "load_1min_milli" not in json.dumps(stable_facts(later))


def test_query_without_duckdb_prints_how_to_install_duckdb(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Name the extra in one sentence."""
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'iolab\[library\]'"):
        query(library, "SELECT 1")


def test_select_query_reads_all_tables_of_the_library(library: Path) -> None:
    """Join the tables; count every figure once."""
    pytest.importorskip("duckdb")
    text = (
        "SELECT runs.name, factors.level, count(*) AS n FROM trials JOIN runs USING (run) JOIN factors USING (cell) "
        "JOIN series USING (series) WHERE trials.month = '2026-01' GROUP BY ALL"
    )
    assert [row["n"] for row in query(library, text).to_pylist()] == [2]


def test_query_output_cannot_be_run_as_a_formula(library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Prefix a text that a spreadsheet would run; negative numbers stay numbers."""
    pytest.importorskip("duckdb")
    assert command(["library", "query", "SELECT '=1+1' AS a, -2 AS b", "-l", str(library)]) == 0
    assert capsys.readouterr().out.splitlines() == ["a,b", "'=1+1,-2"]


HOSTILE = (
    "COPY trials TO '{out}'", "COPY (SELECT 1) TO '{out}' (use_tmp_file false)", "ATTACH '{out}'",
    "EXPORT DATABASE '{out}'", "SELECT * FROM read_csv('{secret}')", "SELECT * FROM read_text('{secret}')",
    "SELECT * FROM read_blob('{secret}')", "SELECT * FROM '{secret}'", "SELECT * FROM glob('/*')",
    "SELECT * FROM read_parquet('{part}')", "SELECT * FROM parquet_metadata('{part}')",
    "SELECT * FROM sniff_csv('{secret}')", "SELECT * FROM read_duckdb('{out}')", "SELECT 1; SELECT 2",
    "SELECT 1; COPY trials TO '{out}'", "PRAGMA version", "PRAGMA database_list", "INSTALL httpfs",
    "LOAD httpfs", "SELECT getenv('HOME')", "SET memory_limit='9GB'", "RESET lock_configuration",
    "SET enable_external_access=true", "SELECT * FROM enable_logging(storage='file')", "CREATE TABLE x (a INT)",
    "SELECT * FROM query('COPY trials TO ''{out}''')", "WITH x AS (COPY trials TO '{out}') SELECT 1",
    "WITH x AS (INSERT INTO trials SELECT * FROM trials) SELECT 1", "DELETE FROM trials", "DROP VIEW trials",
    "CALL pragma_version()", "EXPLAIN ANALYZE COPY trials TO '{out}'", "PREPARE x AS SELECT 1", "VACUUM",
    "CHECKPOINT", "SELECT * FROM duckdb_secrets()", "SELECT * FROM 'https://127.0.0.1/x.parquet'",
    "SELECT * FROM connection", "SELECT * FROM hidden", "", ";", "SELEC", "SELECT * FROM nowhere",
)  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_query_can_neither_read_files_outside_the_library_nor_change_the_library(
    library: Path, tmp_path: Path, text: str
) -> None:
    """Refuse with one sentence and status 2."""
    pytest.importorskip("duckdb")
    hidden = pa.table({"a": [1]})
    secret, out = tmp_path / "secret.csv", tmp_path / "out"
    secret.write_text("a\n1\n")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    part = next(library.glob("trials/*/*/*.parquet"))
    assert (
        command(["library", "query", text.format(out=out, secret=secret, part=part), "-l", str(library)]) == 2
    )
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert hidden.num_rows


def test_history_marks_a_step_as_a_suspect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Follow one cell over 16 runs whose last four are 5 % slower, in each form."""
    library = tmp_path / "library"
    for number in range(16):
        value = (1e9 if number < 12 else 0.95e9) + 1e6 * (number % 3)
        add(library, open_run(made(tmp_path, number, value=value)))
    capsys.readouterr()
    options = ["library", "history", "tcp", "-l", str(library)]
    assert command([*options, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["series"][0]
    assert len(shown["points"]) == 16
    assert [suspect["begin"] for suspect in shown["suspects"]] == [12]
    assert command(options) == 0
    text = capsys.readouterr().out
    assert "received_bps" in text
    assert "since 2026-01-14 03:04" in text
    page = tmp_path / "page.html"
    assert command([*options, "-o", str(page)]) == 0
    assert 'class="suspect"' in page.read_text()
    assert command(["library", "history", "udp", "-l", str(library)]) == 2
    assert "tcp received_bps" in capsys.readouterr().err
