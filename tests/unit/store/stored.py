"""Copies of stored runs, all data that commands read from them, and the exception that ends a process in a test."""

import shutil
from pathlib import Path
from typing import Any

from iolab.store.read import load_run, read_packets, stacks_of
from iolab.store.records import SAMPLES
from iolab.store.series import read_series, series_of

GOLDEN = Path(__file__).parents[2] / "golden"


class Killed(BaseException):
    """The exception that a test raises at the place where it ends the process."""


def copied(name: str, to: Path) -> Path:
    """Return a writable copy of a golden run, with a profile."""
    folder = to / name
    shutil.copytree(GOLDEN / name, folder)
    (folder / SAMPLES).mkdir(exist_ok=True)
    key = load_run(folder).trials[0].key
    (folder / SAMPLES / f"{key}.profile.near.folded").write_text("main;poll 3\n")
    (folder / SAMPLES / f"{key}.near.eth0.pcapng").write_bytes(b"capture")
    return folder


def content(folder: Path) -> dict[str, Any]:
    """Return all data that commands read from a run."""
    run, keys = load_run(folder), {each.key for each in load_run(folder).trials}
    series, stacks = series_of(folder), stacks_of(folder)
    return {
        "trials": run.trials,
        "commands": run.commands,
        "status": run.status,
        "notes": run.notes,
        "packets": {key: read_packets(folder, key) for key in keys},
        "series": {key: (series(key), read_series(folder, key)) for key in keys},
        "stacks": {key: stacks(key) for key in keys},
    }
