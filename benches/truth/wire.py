"""Measure emulated links: frames per second, TCP, delay error, idle CPU use, rate, random loss, and super-frames.

Usage: python -m benches.truth.wire [SECTION ...]; all of them take about five minutes. Needs root, iperf3 and two CPUs.
Every section prints each result with its bound, and the exit status is 1 if a bound is missed. Delays are those between
the kernel's timestamps at both ends, so they include the time that the kernel itself takes there.
"""

import json
import math
import os
import socket
import statistics
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from benches.harness.arguments import Argument, arguments
from benches.harness.programs import address_of, entered, output, serving, within
from benches.harness.ring import Ring, Seen
from benches.harness.run import ran
from benches.harness.table import verdict
from benches.harness.wire_path import (
    APART,
    DELAY,
    FAR,
    NEAR,
    counted,
    neighbour,
    paced,
    sender,
    sequence_of,
    thread_cpu_ns,
    unaccounted,
    wired,
)
from benches.truth.wire_frames import frames

from iolab.agent.answers import counted_since
from iolab.agent.client import Agent
from iolab.agent.messages import WayCounts
from iolab.run.hosts.host_agent import open_agent
from iolab.store.read import load_run

DELAY_NS = 10_000_000
LEAST_WHOLE_GBPS, LEAST_APART_GBPS = 15.0, 3.0
MOST_P50_NS, MOST_P99_BUSY_NS, MOST_P99_WAITING_NS = 1_000, 20_000, 40_000
MOST_IDLE_RATIO, MOST_RATE_ERROR = 0.01, 1e-4
WINDOWS = (
    "{net.ipv4.tcp_rmem: 4096 131072 268435456, net.ipv4.tcp_wmem: 4096 65536 268435456, "
    "net.ipv4.tcp_no_metrics_save: 1}"
)
ROUNDS = 3
"""Number of rounds of TCP, because the scheduler places its programs differently each time."""
Z_99 = 2.576
"""Half width of a 99 % interval, in standard deviations."""
MOST_LEFT_OUT = 20
"""Limit for discarded pieces of loss runs."""


def stream(seconds: int = 10) -> float:
    """Return the rate of one iperf3 TCP stream in the second half of its time [Gbit/s]."""
    argv = within(NEAR, "iperf3", "-c", address_of(FAR, "eth0"), "-t", str(seconds), "-J")
    with serving(FAR):
        done = json.loads(output(*argv))
    found = [one["sum"]["bits_per_second"] for one in done["intervals"]]
    return float(statistics.mean(found[len(found) // 2 :])) / 1e9


def tcp(agent: Agent) -> bool:
    """Measure one TCP stream through 10 ms, with super-frames and with segmented frames."""
    held = True
    for name, more, least in (
        ("TCP in super-frames", "mtu: 1500", LEAST_WHOLE_GBPS),
        ("TCP, every frame apart", APART, LEAST_APART_GBPS),
    ):
        found, missing = [], 0
        for _ in range(ROUNDS):
            with wired(agent, f"{{{DELAY}}}", more, WINDOWS, scheduling="normal"):  # as for streams
                before = counted(agent)
                found.append(stream())
                missing += sum(
                    unaccounted(counted_since(old, after))
                    for old, after in zip(before, counted(agent), strict=True)
                )
        gbps = statistics.median(found)
        each = ", ".join(f"{one:.1f}" for one in found)
        said = f"{gbps:.1f} ({each}) Gbit/s after slow start (least {least}), {missing} unaccounted"
        held &= verdict(name, said, held=gbps >= least and missing == 0)
    return held


def passed(agent: Agent, wire: str, fps: float, seconds: float) -> tuple[list[Seen], list[Seen]]:
    """Return datagrams as sent into an emulated link, and as received from it."""
    with wired(agent, wire):
        room = int(fps * seconds * 1.2) + 1000
        here, there = Ring(NEAR, "eth0", room), Ring(FAR, "eth0", room)
        paced(NEAR, address_of(FAR, "eth0"), fps, seconds)
        return here.stop(), there.stop()


def generated(agent: Agent, wire: str, fps: float, seconds: float, size: int) -> list[Seen]:
    """Return the generator's frames as received from an emulated link."""
    with wired(agent, wire) as (site, measure):
        there = Ring(FAR, "eth0", int(fps * seconds * 1.2) + 1000)
        with sender(agent, site, measure.model_copy(update={"frame_size": size})) as send:
            send(fps, seconds)
        return there.stop()


def by_number(seen: Sequence[Seen]) -> dict[int, Seen]:
    """Return frames of the generator by their numbers."""
    return {number: one for one in seen if (number := sequence_of(one)) is not None}


def delay(agent: Agent) -> bool:
    """Measure the error of a 10 ms delay, while the thread waits (10 kpps) and while it polls (100 kpps)."""
    held = True
    for name, fps, most_p99 in (
        ("waiting", 10_000, MOST_P99_WAITING_NS),
        ("busy", 100_000, MOST_P99_BUSY_NS),
    ):
        here, there = (by_number(seen) for seen in passed(agent, f"{{{DELAY}}}", fps, 5))
        errors = sorted(
            there[number].at_ns - here[number].at_ns - DELAY_NS for number in here.keys() & there.keys()
        )
        p50, p99, p999 = (errors[int(len(errors) * share)] for share in (0.5, 0.99, 0.999))
        said = f"{len(errors)} frames: p50 {p50} ns, p99 {p99}, p99.9 {p999}, most {errors[-1]}"
        held &= verdict(f"delay error, {name}", said, held=abs(p50) <= MOST_P50_NS and p99 <= most_p99)
    return held


def idle(agent: Agent) -> bool:
    """Measure the CPU use of an idle emulated link."""
    with wired(agent, f"{{{DELAY}}}"):
        time.sleep(1)  # the link has been created
        began, begin_ns = thread_cpu_ns(), time.monotonic_ns()
        time.sleep(5)  # the measured span
        ratio = (thread_cpu_ns() - began) / (time.monotonic_ns() - begin_ns)
    return verdict(
        "idle", f"{ratio:.3%} of a CPU (most {MOST_IDLE_RATIO:.0%})", held=ratio <= MOST_IDLE_RATIO
    )


def rate(agent: Agent) -> bool:
    """Measure the rate of a 100 Mbit/s line, from the first frame to the last."""
    there = generated(agent, "{rate: 100Mbit, queue: 1M}", 12_000, 10, 1518)
    left = [one for one in there if sequence_of(one) is not None]
    bits = sum(one.length + 4 for one in left[1:]) * 8
    error = bits * 1e9 / (left[-1].at_ns - left[0].at_ns) / 100e6 - 1
    said = f"{len(left)} frames of 1518 B: {error:+.5%} of 100 Mbit/s (most {MOST_RATE_ERROR:.2%})"
    return verdict("rate", said, held=abs(error) <= MOST_RATE_ERROR)


def loss(agent: Agent) -> bool:
    """Measure the loss of 10^7 frames: random loss in its 99 % interval, and Gilbert-Elliott runs."""
    with wired(agent, "{loss: 1%}") as (site, measure), sender(agent, site, measure) as send:
        while (way := counted(agent)[0]).arrived_frames < 10_000_000:
            send(0.7e6, 5)
    lost, n = sum(stage.lost_frames for stage in way.stages), way.arrived_frames
    half = Z_99 * math.sqrt(0.01 * 0.99 / n)
    said = f"{lost / n:.5%} of {n} frames lost (1 % +- {half:.5%})"
    held = verdict("random loss", said, held=abs(lost / n - 0.01) <= half)
    return held & bursts(agent)


def bursts(agent: Agent) -> bool:
    """Return the Gilbert-Elliott loss runs, by the numbers of the received frames.

    A frame that did not reach the emulated link is also missing at the receiver, so parts with such a frame are left
    out.
    """
    runs: Counter[int] = Counter()
    total, left_out, seconds, fps = 0, 0, 4.0, 0.25e6
    with wired(agent, "{loss_bursts: {to_bad: 1%, to_good: 25%}}") as (site, measure):
        while total < 10_000_000 and left_out <= MOST_LEFT_OUT:
            there, before = Ring(FAR, "eth0", int(fps * seconds * 1.1)), counted(agent)[0]
            with sender(agent, site, measure) as send:
                offered = int(send(fps, seconds)["offered_frames"])
            seen, way = there.stop(), counted_since(before, counted(agent)[0])
            if way.arrived_frames != offered or unaccounted(way) or way.no_room_frames:
                left_out += 1
                continue
            total += offered
            numbers = [number for one in seen if (number := sequence_of(one)) is not None]
            runs.update(after - before - 1 for before, after in pairwise(numbers) if after - before > 1)
    print(f"  {left_out} pieces left out, in which frames did not reach the wire")
    return geometric(runs, total)


def geometric(runs: Counter[int], total: int) -> bool:
    """Return whether runs of lost frames are geometric with ratio 1/4: chi-squared over lengths 1 to 8 and above."""
    count, p, chi_squared = sum(runs.values()), 0.25, 0.0
    for length in range(1, 10):
        tail = (1 - p) ** (length - 1)
        expected = count * (p * tail if length < 9 else tail)
        seen = runs[length] if length < 9 else sum(runs[one] for one in runs if one >= 9)
        chi_squared += (seen - expected) ** 2 / expected
    said = f"{count} runs in {total} frames: chi-squared {chi_squared:.1f} (most 26.1: 8 degrees, 0.1 %)"
    return verdict("runs of Gilbert and Elliott", said, held=chi_squared <= 26.1)


def survivors(agent: Agent, more: str) -> tuple[list[int], WayCounts]:
    """Return the numbers of UDP datagrams that passed an emulated link, and its counts; sent 40 at a time."""
    with wired(agent, "{loss: 10%, corrupt: 1%, duplicate: 1%, seed: 7}", more):
        (row,) = json.loads(output("ip", "-n", FAR, "-j", "addr", "show", "dev", "eth0"))
        address = next(one["local"] for one in row["addr_info"] if one["family"] == "inet")
        with entered(FAR):
            receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        receiver.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
        receiver.bind((address, 5001))
        receiver.settimeout(0.5)
        neighbour(NEAR, address, row["address"])
        with entered(NEAR):
            sender_socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sender_socket.setsockopt(17, 103, 1000)  # UDP_SEGMENT
        found, number = [], 0
        for _ in range(500):
            numbers = range(number, number + 40)
            sender_socket.sendto(b"".join(struct.pack("!I", one) * 250 for one in numbers), (address, 5001))
            number += 40
            time.sleep(0.001)  # at most as many as fit into the receiver's buffer
        try:
            while True:
                found.append(struct.unpack("!I", receiver.recv(2000)[:4])[0])
        except TimeoutError:
            return found, counted(agent)[0]


def gso(agent: Agent) -> bool:
    """Check that the same datagrams pass an emulated link in super-frames and as single frames."""
    whole, counts = survivors(agent, "mtu: 1500")
    apart, counts_apart = survivors(agent, APART)
    same = whole == apart and counts.stages == counts_apart.stages and len(whole) > 10_000
    said = (
        f"{len(whole)} and {len(apart)} of 20000 datagrams, the same: {whole == apart}; lost {counts.stages}"
    )
    return verdict("super-frames and frames apart", said[:110], held=same)


IN_A_GUEST = """
title: iolab's wire and netem in one guest
lab:
  machines:
    parent: {kind: vm, accel: tcg, cpus: 2, memory: 1G}
    near: {kind: netns, on: parent}
    far: {kind: netns, on: parent}
  links: {path: {ends: [near.p0, far.p1], wire: {delay: 10ms}}}
measure:
  small: {kind: stream, protocol: udp, from: near, to: far, rate: 200Mbit, length: 64, duration: 5s}
  tcp: {kind: stream, from: near, to: far, duration: 5s}
factors:
  links.path.wire.emulator: [iolab, netem]
blocks: 2
"""


def netem() -> bool:
    """Compare iolab's emulated link with netem in one emulated guest: only the ratio counts."""
    with tempfile.TemporaryDirectory() as folder:
        run = ran(IN_A_GUEST, Path(folder))
        found: dict[tuple[str, str], list[float]] = {}
        for trial in load_run(run).trials:
            for metric in trial.result.metrics:
                if metric.name == "received_bps" and metric.dimensions.whole:
                    at = trial.measure, str(trial.cell["links.path.wire.emulator"])
                    found.setdefault(at, []).append(metric.value)
    ratios = {
        measure: statistics.median(found[measure, "iolab"]) / statistics.median(found[measure, "netem"])
        for measure in ("small", "tcp")
    }
    said = f"64 B datagrams {ratios['small']:.2f}, TCP {ratios['tcp']:.2f} of netem's rate"
    return verdict("beside netem in a guest", said, held=True)


SECTIONS = {
    "frames": frames, "tcp": tcp, "delay": delay, "idle": idle, "rate": rate, "loss": loss, "gso": gso,
}  # fmt: skip
NAMES = (*SECTIONS, "netem")
ARGUMENTS = (Argument("section", NAMES, "what is measured", allowed=NAMES, several=True),)


def main() -> None:
    """Run the requested sections."""
    held = True
    for name in arguments(__doc__, *ARGUMENTS).section:
        if name == "netem":
            held &= netem()  # this section is a whole run of iolab, which refuses a host with a second agent
            continue
        with open_agent() as agent:
            held &= SECTIONS[name](agent)
    sys.exit(not held)


if __name__ == "__main__":
    os.environ.setdefault("LC_ALL", "C")
    main()
