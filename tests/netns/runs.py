"""Helpers of tests that observe a run from outside: wait for a condition, find its processes, read its trials."""

import contextlib
import fnmatch
import gzip
import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from iolab.experiment.experiment import TAG_LETTERS
from iolab.results.packets import PacketTrial
from iolab.store.read import read_packets
from iolab.store.records import TrialRecord

Iolab = Callable[..., subprocess.CompletedProcess[str]]
"""Runs the installed command with these arguments."""
Measured = Callable[..., Path]
"""Runs an experiment, given as text, to its end; returns the folder of the run."""
LOOK_AGAIN_S = 0.02
"""Polling interval, because no event reports the actions of other programs."""
PATIENCE_S = 240.0
"""Time limit for a hanging program: seconds on a calm host become ten times as long on a busy one."""


def needs_devices(*nodes: str) -> pytest.MarkDecorator:
    """Skip tests if the host lacks a device, as in a container."""
    absent = [node for node in nodes if not Path(node).exists()]
    return pytest.mark.skipif(bool(absent), reason=f"needs {' and '.join(absent)}")


def until(holds: Callable[[], object], deadline_s: float = PATIENCE_S, never: str = "it never did") -> float:
    """Wait until a condition is true; return the time that it took [s]."""
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < deadline_s, never
        time.sleep(LOOK_AGAIN_S)
    return time.monotonic() - began


def wait_for_trials(
    parent: Path, count: int, deadline_s: float = PATIENCE_S, running: subprocess.Popen[str] | None = None
) -> Path:
    """Wait until a run below `parent` has stored that many trials, or has ended; return its folder."""

    def stored() -> list[Path]:
        return [
            each.parent for each in parent.glob("*/trials.jsonl") if each.read_text().count("\n") >= count
        ]

    def ended() -> bool:
        return running is not None and running.poll() is not None

    until(lambda: stored() or ended(), deadline_s, f"no run with {count} trials after {deadline_s} s")
    folders = stored()
    assert folders, f"the run ended before it had stored {count} trials"
    return folders[0]


def trials(folder: Path) -> list[dict[str, Any]]:
    """Return the trials stored in a run's folder."""
    return [json.loads(line) for line in (folder / "trials.jsonl").read_text().splitlines()]


def value(trial: Mapping[str, Any], metric: str, **about: str | float) -> float:
    """Return a figure of a trial; `about`: its dimensions."""
    (found,) = [
        each["value"]
        for each in trial["metrics"]
        if each["name"] == metric and each.get("dimensions", {}) == about
    ]
    return float(found)


def netns_of(machine: str) -> str | None:
    """Return the namespace of a machine of the lab that a run has built; None: there is none yet."""
    return next((path.name for path in Path("/run/netns").glob(f"{'[a-z]' * TAG_LETTERS}-{machine}")), None)


def processes_with(setting: str) -> dict[int, str]:
    """Return the processes with this setting in their environment, number to name, without the current one."""
    found = {}
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if fnmatch.filter(environ.read_bytes().split(b"\0"), setting.encode()):
                found[int(environ.parent.name)] = (environ.parent / "comm").read_text().strip()
    found.pop(os.getpid(), None)
    return found


def storage_state() -> dict[str, object]:
    """Return the state that a lab with disks could leave behind."""
    programs = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # other processes of this computer end during the loop
            if (process / "cmdline").read_bytes():
                programs.append((process / "comm").read_text().strip())
    loops = subprocess.run(["losetup", "-a"], capture_output=True, text=True).stdout.splitlines()
    return {
        "loops": [line for line in loops if "iolab-" in line],
        "read-only": [str(path) for path in Path("/sys/block").glob("loop*/ro") if path.read_text() != "0\n"],
        "mounts": [line for line in Path("/proc/self/mounts").read_text().splitlines() if "iolab-" in line],
        "files": sorted(
            str(path) for top in ("/run", "/dev", "/var/tmp") for path in Path(top).glob("iolab-*")
        ),
        "programs": [name for name in programs if name in ("tgtd", "qemu-storage-da")],
    }


def packets_of(folder: Path, record: TrialRecord) -> PacketTrial:
    """Return the load trials behind a record."""
    packets = read_packets(folder, record.key)
    assert packets is not None, record.result.reason
    return packets


def answers(folder: Path, record: TrialRecord) -> list[dict[str, Any]]:
    """Return the agent's complete answer on each load trial of a run below a folder."""
    (path,) = folder.glob(f"*/samples/{record.key}.raw.json.gz")
    found: list[dict[str, Any]] = json.loads(gzip.decompress(path.read_bytes()))["load_trials"]
    return found
