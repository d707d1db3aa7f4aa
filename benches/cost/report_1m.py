"""Measure time and memory of `show` for a run of 1 000 000 trials with series.

Usage: python -m benches.cost.report_1m [FOLDER]; default: build/report_1m. If the folder has no run, one is generated,
which takes some minutes; then `show` is timed as a whole process. Limits: 60 s and 2 GB. Every trial has a series file
with a distinct name. The files are links to a few real ones, because the cost of `show` does not depend on their
content.
"""

import os
import resource
import subprocess
import time
from pathlib import Path

import numpy as np
from benches.cost.report_100k import make_run
from benches.harness.arguments import Argument, arguments
from benches.harness.run import IOLAB

from iolab.plan.types import Plan
from iolab.results.metric import Dimensions
from iolab.results.series import Series
from iolab.store.read import find_runs
from iolab.store.records import SAMPLES, SERIES
from iolab.store.series import encode_series

ARGUMENTS = (Argument("folder", "build/report_1m", "where the run is, or is made"),)
CELLS = 333_334
"""Number of cells; the run has three blocks."""
POINTS = 20
"""Points per series: two seconds at 10 Hz."""
MOST_LINKS = 10_000
"""Maximum number of links to one file; file systems allow 65 000 or more."""
LIMIT_S, LIMIT_MB = 60, 2000


def series() -> tuple[Series, ...]:
    """Return series like those of a short stream: rates of two interfaces and use of two CPUs."""
    chance = np.random.default_rng(1)
    at_ns = np.arange(1, POINTS + 1) * 100_000_000
    about = [("received_bps", "bit/s", Dimensions(port=port)) for port in ("near.eth0", "far.eth0")]
    about += [("cpu_busy_ratio", "ratio", Dimensions(cpu=cpu)) for cpu in (0, 1)]
    return tuple(Series(name, unit, at_ns, chance.random(POINTS), of) for name, unit, of in about)


def write_series(folder: Path, plan: Plan) -> None:
    """Write a series file for every trial."""
    data = encode_series(series())
    first = folder
    for number, step in enumerate(plan.steps):
        path = folder / f"{step.key}{SERIES}"
        if number % MOST_LINKS == 0:
            first = path
            path.write_bytes(data)
        else:
            os.link(first, path)


def main() -> None:
    """Create the run unless it exists; time `show`."""
    parent = Path(arguments(__doc__, *ARGUMENTS).folder)
    parent.mkdir(parents=True, exist_ok=True)
    if not find_runs(parent):
        begin = time.monotonic()
        made, plan = make_run(parent, CELLS)
        write_series(made / SAMPLES, plan)
        print(f"made {made} in {time.monotonic() - begin:.0f} s")
    folder = find_runs(parent)[0]
    begin = time.monotonic()
    subprocess.run([str(IOLAB), "show", str(folder)], check=True, stdout=subprocess.DEVNULL)
    spent_s = time.monotonic() - begin
    peak_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e6
    print(f"show: {spent_s:.1f} s (limit {LIMIT_S}), peak {peak_mb:.0f} MB (limit {LIMIT_MB})")


if __name__ == "__main__":
    main()
