"""Measure how the rate grows with the number of senders: one stream over 1, 2, ... threads, up to the number of CPUs.

Usage: python -m benches.cost.senders [ROUNDS]. Needs root and cargo. The stream is that of a trial (paced, stamped, 64
B, scheduled above the maximum rate, 64 frames at once). Each sender has a separate CPU and transmit queue and sends by
AF_XDP over a veth pair. The far end has no NAPI, and the frames have another machine's address, so the far end has
little work, which runs on the sender's CPU: each sender uses exactly one CPU. Rounds alternate; the offered rate is
compared with the interface's counter.

For more CPUs than this host has, a model predicts the rate: X(n) = n x1 / (1 + s (n - 1)), Gunther's scalability law
without its last term, where s is the serial part of the senders' work. The bench fits s to the measured points.
"""

import os
import re
import statistics
from functools import partial
from pathlib import Path

from benches.cost.engine import FAR, NEAR, namespaces, receiver
from benches.harness.arguments import Argument, arguments
from benches.harness.pairs import alternated
from benches.harness.programs import examples, interface_count, output, within
from benches.harness.table import Table

ARGUMENTS = (Argument("rounds", 5, "how often each number of senders is measured"),)
SECONDS = 1
TEN_GIGABIT_MPPS = 14.88
MODELLED = (1, 2, 4, 8, 16, 32)


def sent(programs: Path, senders: int) -> tuple[float, int]:
    """Return the rate of that many senders [Mpps], and the difference from the interface counter [frames]."""
    cpus = ",".join(str(cpu) for cpu in range(senders))
    before = interface_count(NEAR, "ibt0", "tx_packets")
    words = ("ibt0", "af_xdp", f"cpu={cpus}", f"seconds={SECONDS}")
    said = dict(re.findall(r"(\w+)=([\d.]+)", output(*within(NEAR, str(programs / "paced"), *words))))
    counted = interface_count(NEAR, "ibt0", "tx_packets") - before
    return float(said["mpps"]), counted - int(said["offered_frames"])


def serial_part(rates: dict[int, float]) -> float:
    """Return the least-squares s of the model: n x1 / X(n) - 1 is s times n - 1."""
    points = [(n - 1, n * rates[1] / rate - 1) for n, rate in rates.items() if n > 1]
    return max(0.0, sum(x * y for x, y in points) / sum(x * x for x, _ in points)) if points else 0.0


def modelled(first: float, serial: float, senders: int) -> float:
    """Return the rate of that many senders according to the model."""
    return senders * first / (1 + serial * (senders - 1))


def main() -> None:
    """Build, measure in alternating order, print points and model."""
    rounds = arguments(__doc__, *ARGUMENTS).rounds
    programs = examples("iolab-port", "iolab-traffic")
    numbers = range(1, len(os.sched_getaffinity(0)) + 1)
    with namespaces(), receiver("foreign", programs):
        for name, interface, way in ((FAR, "ibr0", "rx"), (NEAR, "ibt0", "tx")):
            output(*within(name, "ethtool", "-L", interface, way, str(numbers[-1])))
        found = alternated({number: partial(sent, programs, number) for number in numbers}, rounds)
    rates = {number: [mpps for mpps, _ in own] for number, own in found.items()}
    off = sum(abs(more) for own in found.values() for _, more in own)
    points = {number: statistics.median(seen) for number, seen in rates.items()}
    serial = serial_part(points)
    print(f"measured, {rounds} rounds")
    table = Table("senders", "Mpps", "least", "most", "of one", least=7)
    for number, rate in points.items():
        figures = (rate, min(rates[number]), max(rates[number]))
        table.row(number, *(f"{one:.3f}" for one in figures), f"{rate / points[1]:.2f}")
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
