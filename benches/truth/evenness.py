"""Measure the lateness of frames by AF_XDP and by BPF live frames, up to the maximum load: the basis of `path: auto`.

Usage: python -m benches.truth.evenness [BURST ...]. Needs root and cargo; takes about a minute. A trial's sender sends
frames of 64 B over a veth pair whose far end drops them by XDP on the sender's CPU; at most BURST frames are scheduled
at one time (default: 1 and 64). Prints for each load the sent rate and the p50, p90 and p99 lateness of frames [us],
from the sender's histogram.
"""

import re
from pathlib import Path

from benches.cost.engine import NEAR, namespaces, receiver
from benches.harness.arguments import Argument, arguments
from benches.harness.programs import REALTIME, examples, output, within
from benches.harness.table import Table

ARGUMENTS = (
    Argument("burst", (1, 64), "frames at most that are planned to leave together", int, several=True),
)
LOADS_KFPS = (3, 5, 8, 50, 100, 200, 400, 500, 600, 700, 800, 1000, 1500, 2000, 3000)
PATHS = ("af_xdp", "bpf_live")


def main() -> None:
    """Build, send, print a line for each load and path."""
    bursts = arguments(__doc__, *ARGUMENTS).burst
    programs = examples("iolab-port", "iolab-traffic")
    table = Table("burst", "asked kfps", "<path    ", "left kfps", "p50 us", "p90 us", "p99 us", least=8)
    with namespaces(), receiver("drop", programs):
        for burst in bursts:
            for load in LOADS_KFPS:
                for path in PATHS:
                    told = sent(programs, burst, load, path)
                    late = [f"{told[f'late_p{share}_ns'] / 1000:.1f}" for share in (50, 90, 99)]
                    table.row(burst, load, path, f"{told['mpps'] * 1000:.0f}", *late)


def sent(programs: Path, burst: int, load_kfps: int, path: str) -> dict[str, float]:
    """Send for a second; return the sender's report."""
    words = ("ibt0", path, "cpu=0", "seconds=1", f"rate={load_kfps * 1000}", f"burst={burst}")
    said = output(*REALTIME, *within(NEAR, str(programs / "paced"), *words))
    return {name: float(value) for name, value in re.findall(r"(\w+)=([\d.]+)", said)}


if __name__ == "__main__":
    main()
