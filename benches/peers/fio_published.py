"""Run the job files of tests/unit/trial/disk/published_jobs.toml with iolab, one trial each.

Usage: python -m benches.peers.fio_published [FOLDER]; default: a temporary folder. Needs root, fio and a loop device.
Writes an experiment into the folder and runs it; the experiment has a factor with a level for each file and its
`replace` keys. Prints the number of successful trials, and the causes of the failed ones.
"""

import json
import sys
import tempfile
from pathlib import Path

from benches.harness.arguments import Argument, arguments
from benches.harness.run import ran, trials
from tests.unit.trial.disk.published import published

ARGUMENTS = (Argument("folder", None, "where the run is kept"),)
LAB = """
title: Published job files
lab:
  machines: {a: {kind: netns, disks: [{volume: v}]}}
  volumes: {v: {size: 16M}}
measure:
  own: {kind: disk, program: fio, on: a, size: 4M, fio: {job: "[a]\\nrw=read\\n"}}
blocks: 1
factors:
  file:
"""


def main(folder: Path) -> int:
    """Run all files and return the exit code."""
    files = list(published())
    levels = [
        f"    n{number}: {{own.fio: {json.dumps({'job': one.text, 'replace': one.replace})}}}\n"
        for number, one in enumerate(files)
    ]
    found = trials(ran(LAB + "".join(levels), folder))
    for one in found:
        print(files[int(one["cell"]["file"][1:])].repository, one["status"], one["reason"] or "")
    well = sum(one["status"] == "ok" for one in found)
    print(f"{well} of {len(files)} published job files ran")
    return 0 if well >= 27 else 1


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as unnamed:
        sys.exit(main(Path(arguments(__doc__, *ARGUMENTS).folder or unnamed)))
