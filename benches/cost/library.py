"""Measure packing of a large run and a large library, and check that concurrent and killed writers lose nothing.

Usage: python -m benches.cost.library [TRIALS] [ROWS] [RUNS]. A made-up run of TRIALS trials is packed, shown
and added to a library; ROWS made-up figures of 12 months are added, and one series is read; then 8 processes
add RUNS runs, each run by two of them, and 5 % of the writers are killed at a random moment. Limits for 10^6
trials: 1 GB and 100 files without raw output, `show` in 20 s and 1 GB; for 10^7 rows: 30 s to add, 0.2 s to
read one series.
"""

import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from benches.cost.report_100k import BLOCKS, make_run
from benches.harness.arguments import Argument, arguments
from pyarrow import compute as pc

from iolab.store.columns import TRIALS_COLUMNS, Tables
from iolab.store.folder import RunFolder
from iolab.store.library.adding import add, add_tables
from iolab.store.library.checking import check
from iolab.store.library.checkpoints import contents
from iolab.store.library.reading import trials_of
from iolab.store.read import load_run
from iolab.store.run_tables import Run, open_run

ARGUMENTS = (
    Argument("trials", 1_000_000, "trials of the packed run"),
    Argument("rows", 10_000_000, "figures that are added to a library"),
    Argument("runs", 400, "small runs that concurrent writers add"),
)
IOLAB = (sys.executable, "-c", "from iolab.cli.main import main; main()")
SERIES = 5760
WRITERS = 8
KILLED = 0.05
US_PER_YEAR = 31_536_000_000_000
BEGIN_US = 1_767_225_600_000_000
"""2026-01-01 [us since 1970]."""


def main() -> None:
    """Print each figure with its limit."""
    given = arguments(__doc__, *ARGUMENTS)
    with tempfile.TemporaryDirectory(dir="build" if Path("build").is_dir() else None) as scratch:
        folder = Path(scratch)
        if given.trials:
            packing(folder, given.trials)
        if given.rows:
            adding(folder / "library", given.rows)
        if given.runs:
            writing(folder, given.runs)


def packing(folder: Path, trials: int) -> None:
    """Pack, show and add one large run."""
    run, _ = make_run(folder, -(-trials // BLOCKS))
    before = timed("show, before", [*IOLAB, "show", str(run)])
    timed("pack", [*IOLAB, "pack", str(run)])
    files = [path for path in run.rglob("*") if path.is_file() and path.parent.name != "samples"]
    size = sum(path.stat().st_size for path in files)
    print(f"packed: {len(files)} files (limit 100), {size / 1e6:.0f} MB (limit 1000) without raw output")
    after = timed("show, packed (limit 20 s, 1000 MB)", [*IOLAB, "show", str(run)])
    print(f"show prints the same: {before == after}")
    timed("library add, packed", [*IOLAB, "library", "add", str(run), "-l", str(folder / "of-run")])


def timed(name: str, argv: Sequence[str]) -> bytes:
    """Run a command; print its time and peak memory; return its output."""
    begin = time.monotonic()
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        output = program.stdout.read()
        _, status, used = os.wait4(program.pid, 0)
        program.returncode = os.waitstatus_to_exitcode(status)
    assert program.returncode == 0, argv
    cpu_s = used.ru_utime + used.ru_stime
    print(
        f"{name}: {time.monotonic() - begin:.1f} s, CPU {cpu_s:.1f} s, peak {used.ru_maxrss * 1024 / 1e6:.0f} MB",
        flush=True,
    )
    return output


def made_up(rows: int) -> Tables:
    """Return figures of 12 months with full mantissas, sorted by series and time."""
    chance = np.random.default_rng(1)
    series = np.sort(chance.integers(0, SERIES, rows, dtype=np.int32))
    times = BEGIN_US + (np.arange(rows) * (US_PER_YEAR // rows))
    names = [f"{number:016x}" for number in range(SERIES)]

    def texts(values: list[str], numbers: Any) -> Any:
        return pa.DictionaryArray.from_arrays(pa.array(numbers.astype(np.int32)), pa.array(values))

    none = np.zeros(rows, dtype=np.int32)
    metrics = [f"metric_{number}_bps" for number in range(15)]
    columns = {
        "series": texts(names, series),
        "time": pa.array(chance.permutation(times)).cast(pa.timestamp("us", tz="UTC")),
        "run": texts(["0" * 16], none),
        "block": pa.array(chance.integers(1, 6, rows, dtype=np.int32)),
        "cell": texts(names, series // 15),
        "measure": texts(["tcp"], none),
        "kind": texts(["stream"], none),
        "metric": texts(metrics, series % 15),
        "unit": texts(["bit/s"], none),
        "method": pa.array(np.ones(rows, dtype=np.int16)),
        "dimensions": pa.array([[], [("cpu", "1")]], pa.map_(pa.string(), pa.string())).take(
            pa.array(series % 3 // 2)
        ),
        "value": pa.array(1e9 * (1 + 0.02 * chance.standard_normal(rows))),
        "limited_by": texts(["line"], none),
        "status": texts(["ok"], none),
        "limit": texts(["path"], none),
        "flags": texts([""], none),
        "host_class": texts(["1" * 16], none),
    }
    about = {
        "run": "0" * 16,
        "name": "made-up",
        "title": "",
        "trials": rows // 15,
        "host_class": "1" * 16,
        "hosts": {},
    }
    described = pa.table({"series": pa.array(names)})
    return Tables(
        trials=pa.table(columns, schema=TRIALS_COLUMNS), factors=pa.table({"cell": pa.array(names)}),
        series=described, about={**about, "first": "a" * 64, "last": "b" * 64},
    )  # fmt: skip


def adding(library: Path, rows: int) -> None:
    """Add made-up figures, compare them bit by bit, and read one series."""
    tables = made_up(rows)
    begin, cpu_s = time.monotonic(), time.process_time()
    add_tables(library, tables)
    spent_s, cpu_s = time.monotonic() - begin, time.process_time() - cpu_s
    found = check(library)
    print(
        f"add {rows} rows: {spent_s:.1f} s, CPU {cpu_s:.1f} s (limit 30 per 10^7), {found.bytes / rows:.1f} B a row",
        flush=True,
    )
    data = trials_of(contents(library))
    for _ in range(2):
        begin, cpu_s = time.monotonic(), time.process_time()
        one = data.to_table(columns=["time", "value"], filter=pc.field("series") == f"{SERIES // 2:016x}")
        spent_s, cpu_s = time.monotonic() - begin, time.process_time() - cpu_s
    print(f"one series, {one.num_rows} rows, second time: {spent_s:.2f} s, CPU {cpu_s:.2f} s (limit 0.2)")
    bits = data.to_table(columns=["value"])["value"].to_numpy().view(np.uint64)
    equal = np.array_equal(np.sort(bits), np.sort(tables.trials["value"].to_numpy().view(np.uint64)))
    print(f"bit-exact: {equal}; peak memory of this process {peak_mb():.0f} MB", flush=True)


def writing(folder: Path, runs: int) -> None:
    """Let several processes add runs, kill some of them, and count the lost and the duplicated runs."""
    small, _ = make_run(folder, 2)
    trial = load_run(small).trials[0]
    paths = []
    for number in range(runs):
        path = folder / f"run-{number}"
        path.mkdir()
        for name in ("experiment.yaml", "plan.json", "facts.json"):
            (path / name).write_bytes((small / name).read_bytes())
        (path / "samples").mkdir()
        opened = RunFolder(path)
        opened.append_trial(trial.__class__(**{**fields_of(trial), "block": number + 1}))
        opened.close()
        paths.append(path)
    library, chance, killed = folder / "many", random.Random(1), 0
    turns = [paths[at::WRITERS] + paths[(at + 1) % WRITERS :: WRITERS] for at in range(WRITERS)]
    waiting = [(turn, at) for turn in turns for at in range(0, len(turn), 10)]
    chance.shuffle(waiting)
    while waiting:
        batch, waiting = waiting[:WRITERS], waiting[WRITERS:]
        writers = [start(library, turn[at : at + 10]) for turn, at in batch]
        for writer in writers:
            if chance.random() < KILLED:
                time.sleep(chance.uniform(0, 0.3))  # kill at a random moment of an addition
                os.kill(writer.pid, signal.SIGKILL)
                killed += 1
        for (turn, at), writer in zip(batch, writers, strict=True):
            writer.join()
            if writer.exitcode:
                waiting.append((turn, at))
    found = check(library)
    names = {each.name for each in contents(library).runs}
    rows = trials_of(contents(library)).to_table(columns=["run"]).num_rows
    per_run = len(trial.result.metrics)
    print(
        f"{WRITERS} writers, {runs} runs tried twice, {killed} killed: lost {runs - len(names)}, doubled "
        f"{rows - runs * per_run}, damaged {len(found.problems)}, left over {len(found.unnamed)} files"
    )


def fields_of(record: Any) -> dict[str, Any]:
    """Return the fields of a frozen type by name."""
    return {name: getattr(record, name) for name in record.__dataclass_fields__}


def start(library: Path, runs: Sequence[Path]) -> Any:
    """Start a writer."""
    writer = get_context("fork").Process(target=write, args=(library, runs, add))
    writer.start()
    return writer


def write(library: Path, runs: Sequence[Path], add_run: Callable[[Path, Run], object]) -> None:
    """Add runs one after the other."""
    for run in runs:
        add_run(library, open_run(run))


def peak_mb() -> float:
    """Return the peak memory of this process [MB]."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


if __name__ == "__main__":
    main()
