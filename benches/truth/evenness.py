"""How late frames leave by AF_XDP and by BPF live frames, at loads up to what each can send: what `path: auto` weighs.

Usage: python -m benches.truth.evenness [BURST ...]. Needs root and cargo; about a minute. A trial's sender, 64 B, over
a veth pair whose far end drops them by XDP on the sender's CPU; BURST frames at most are planned to leave together (1
and 64). For each load the rate that left and how late half, 90 and 99 of 100 frames left [us], by the sender's own
histogram.
"""

import re
import subprocess
import sys
from pathlib import Path

from benches.cost.engine import NEAR, REALTIME, namespaces, receiver

LOADS_KFPS = (3, 5, 8, 50, 100, 200, 400, 500, 600, 700, 800, 1000, 1500, 2000, 3000)
PATHS = ("af_xdp", "bpf_live")


def main() -> None:
    """Build, send, print a line for each load and path."""
    bursts = [int(word) for word in sys.argv[1:]] or [1, 64]
    subprocess.run(
        ["cargo", "build", "--release", "--quiet", "-p", "iolab-port", "-p", "iolab-traffic", "--examples"],
        check=True,
    )
    programs = Path("target").resolve() / "release" / "examples"
    print(
        f"{'burst':>5} {'asked kfps':>10} {'path':9} {'left kfps':>10} {'p50 us':>8} {'p90 us':>8} {'p99 us':>8}"
    )
    with namespaces(), receiver("drop", programs):
        for burst in bursts:
            for load in LOADS_KFPS:
                for path in PATHS:
                    show(burst, load, path, sent(programs, burst, load, path))


def sent(programs: Path, burst: int, load_kfps: int, path: str) -> dict[str, float]:
    """Send for a second; return what the sender says of it."""
    command = [
        *REALTIME,
        "ip",
        "netns",
        "exec",
        NEAR,
        str(programs / "paced"),
        "ibt0",
        path,
        "cpu=0",
        "seconds=1",
    ]
    done = subprocess.run(
        [*command, f"rate={load_kfps * 1000}", f"burst={burst}"], capture_output=True, check=True, text=True
    )
    return {name: float(value) for name, value in re.findall(r"(\w+)=([\d.]+)", done.stdout)}


def show(burst: int, load_kfps: int, path: str, told: dict[str, float]) -> None:
    """Print a line."""
    late = " ".join(f"{told[f'late_p{share}_ns'] / 1000:8.1f}" for share in (50, 90, 99))
    print(f"{burst:5} {load_kfps:10} {path:9} {told['mpps'] * 1000:10.0f} {late}", flush=True)


if __name__ == "__main__":
    main()
