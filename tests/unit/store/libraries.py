"""Runs that tests add to libraries, and the figures of a library."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.unit.store.examples import PLAN, WALL, record

from iolab.results.metric import Metric, Metrics
from iolab.store.folder import RunFolder, create_folder
from iolab.store.library.checkpoints import contents
from iolab.store.library.reading import trials_of

FACTS: dict[str, Any] = {
    "kernel": "6.1",
    "cpu_model": "Processor",
    "cpus": 2,
    "interfaces": [{"driver": "igc", "name": "enp1s0"}],
}


def made(parent: Path, number: int, trials: int = 1, value: float = 1e9) -> Path:
    """Return a run folder with trials of one cell, `number` days after the first."""
    wall = WALL + timedelta(days=number)
    folder = create_folder(parent, f"run {number}", wall)
    folder.write_decision("title: A plan\n", PLAN, FACTS)
    folder.close()
    extended(folder.path, number, trials, value)
    return folder.path


def extended(path: Path, number: int, trials: int, value: float = 1e9) -> None:
    """Append trials to a run folder."""
    folder = RunFolder(path)
    for at in range(trials):
        trial = record(f"k{at}")
        metrics = Metrics([Metric("received_bps", "bit/s", value + number + at / 7)])
        wall = (WALL + timedelta(days=number, seconds=at)).isoformat()
        folder.append_trial(
            replace(
                trial, wall=wall, rest="r" * 32, kind="stream", result=replace(trial.result, metrics=metrics)
            )
        )
    folder.close()


def values(library: Path) -> list[float]:
    """Return all figures of a library, sorted."""
    table = trials_of(contents(library)).to_table()
    return sorted(table["value"].to_pylist())
