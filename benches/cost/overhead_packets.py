"""Measure the overhead of a load trial: counters before and after, threads, the drain barrier, and decisions.

Usage: python -m benches.cost.overhead_packets [TRIALS]; 40 take about ten seconds. Needs root and two CPUs. `whole` is
the time from the end of one trial to the end of the next, without the sending time; `in the agent` is the part of this
time in which the agent ran the trial. The drain barrier alone takes 10 ms.
"""

import statistics
import time

from benches.harness.arguments import Argument, arguments
from benches.harness.lab import THROUGH, load_bench

from iolab.run.hosts.host_agent import open_agent
from iolab.trial.search.types import LoadTrial

ARGUMENTS = (Argument("trials", 40, "load trials over all ways of forwarding"),)
BOUND_MS = 50
TRIAL_NS = 100_000_000
CASES = {
    "bridge": ("forward: bridge", "one-way"),
    "bridge, both ways": ("forward: bridge", "both-ways"),
    "xdp": ("forward: xdp", "one-way"),
    "xdp, both ways": ("forward: xdp", "both-ways"),
}


def main() -> None:
    """Print a line for each forwarding mode."""
    trials = arguments(__doc__, *ARGUMENTS).trials
    with open_agent() as agent:
        for name, (forward, direction) in CASES.items():
            text = THROUGH.replace("forward: xdp, device: DEVICE", forward)
            text = text.replace("MEASURE", f"kind: latency, rate: 1kpps, direction: {direction}")
            with load_bench(agent, text) as bench:
                whole, inside = [], []
                for _ in range(trials // len(CASES)):
                    begin_ns = time.monotonic_ns()
                    bench.run(LoadTrial(intended_fps=20_000, duration_ns=TRIAL_NS), "bench")
                    whole.append((time.monotonic_ns() - begin_ns - TRIAL_NS) / 1e6)
                    ran = bench.answers[-1]
                    inside.append((ran["end_ns"] - ran["begin_ns"] - TRIAL_NS) / 1e6)
            spent = f"{statistics.median(whole):5.1f} ms median, {max(whole):5.1f} at most (bound {BOUND_MS})"
            print(f"{name:18} whole {spent}; in the agent {statistics.median(inside):5.1f}", flush=True)


if __name__ == "__main__":
    main()
