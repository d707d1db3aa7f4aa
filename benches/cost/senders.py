"""How the rate grows with the number of senders: one stream over 1, 2, ... threads, as many as there are CPUs.

Usage: python -m benches.cost.senders [ROUNDS]. Needs root and cargo. The stream is that of a trial (paced, stamped, 64
B, asked for more than can leave, 64 at once), each sender on a CPU and a transmit queue of its own, by AF_XDP over a
veth pair. The far end has no NAPI and the frames are not its own, so that its work is small and on the CPU of the
sender: as many CPUs are used as there are senders. Rounds alternate; what is offered is laid beside the interface's
counter.

Beyond the CPUs of this host the model says what to expect: X(n) = n x1 / (1 + s (n - 1)), Gunther's scalability law
without its last term, s the part of the work that senders do one after the other. It is fitted to the measured points.
"""

import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

from benches.cost.engine import FAR, NEAR, namespaces, receiver

SECONDS = 1
TEN_GIGABIT_MPPS = 14.88
MODELLED = (1, 2, 4, 8, 16, 32)


def sent(programs: Path, senders: int) -> tuple[float, int]:
    """Return the rate of so many senders [Mpps], and the frames by which the interface counted otherwise."""
    cpus = ",".join(str(cpu) for cpu in range(senders))
    near = ["ip", "netns", "exec", NEAR]
    before = counted()
    command = [*near, str(programs / "paced"), "ibt0", "af_xdp", f"cpu={cpus}", f"seconds={SECONDS}"]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    told = dict(re.findall(r"(\w+)=([\d.]+)", done.stdout))
    return float(told["mpps"]), counted() - before - int(told["offered_frames"])


def counted() -> int:
    """Return the frames that the interface has sent."""
    path = "/sys/class/net/ibt0/statistics/tx_packets"
    shown = subprocess.run(
        ["ip", "netns", "exec", NEAR, "cat", path], capture_output=True, check=True, text=True
    )
    return int(shown.stdout)


def serial_part(rates: dict[int, float]) -> float:
    """Return the least-squares s of the model: n x1 / X(n) - 1 is s times n - 1."""
    points = [(n - 1, n * rates[1] / rate - 1) for n, rate in rates.items() if n > 1]
    return max(0.0, sum(x * y for x, y in points) / sum(x * x for x, _ in points)) if points else 0.0


def modelled(first: float, serial: float, senders: int) -> float:
    """Return the rate of so many senders by the model."""
    return senders * first / (1 + serial * (senders - 1))


def main() -> None:
    """Build, measure in alternating order, print points and model."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    build = [
        "cargo",
        "build",
        "--release",
        "--quiet",
        "-p",
        "iolab-port",
        "-p",
        "iolab-traffic",
        "--examples",
    ]
    subprocess.run(build, check=True)
    programs = Path(os.environ.get("CARGO_TARGET_DIR", "target")).resolve() / "release" / "examples"
    numbers = range(1, len(os.sched_getaffinity(0)) + 1)
    rates: dict[int, list[float]] = {number: [] for number in numbers}
    off = 0
    with namespaces(), receiver("foreign", programs):
        for name, interface, way in ((FAR, "ibr0", "rx"), (NEAR, "ibt0", "tx")):
            queues = ["ethtool", "-L", interface, way, str(numbers[-1])]
            subprocess.run(["ip", "netns", "exec", name, *queues], check=True)
        for turn in range(rounds):
            for number in numbers if turn % 2 else reversed(numbers):
                mpps, more = sent(programs, number)
                rates[number].append(mpps)
                off += abs(more)
    points = {number: statistics.median(seen) for number, seen in rates.items()}
    serial = serial_part(points)
    print(f"{'senders':>7} {'Mpps':>7} {'least':>7} {'most':>7} {'of one':>7}   measured, {rounds} rounds")
    for number, rate in points.items():
        least, most = min(rates[number]), max(rates[number])
        print(f"{number:7} {rate:7.3f} {least:7.3f} {most:7.3f} {rate / points[1]:7.2f}")
    print(f"frames by which the interface counted otherwise than the senders: {off}")
    print(f"model: x1 = {points[1]:.3f} Mpps, s = {serial:.3f}")
    for number in MODELLED:
        print(f"{number:7} {modelled(points[1], serial, number):7.3f}   modelled")
    enough = next((n for n in range(1, 65) if modelled(points[1], serial, n) >= TEN_GIGABIT_MPPS), None)
    print(
        f"{TEN_GIGABIT_MPPS} Mpps (64 B on 10 Gbit/s): {f'{enough} senders' if enough else 'not with 64 senders'}"
    )


if __name__ == "__main__":
    main()
