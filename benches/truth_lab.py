"""A lab with a device of known truth, and what the kernel's own counters say of it."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from faults import HOG
from standing_lab import standing

from iolab.agent.client import Agent
from iolab.experiment.measures import Packets
from iolab.trial.load import LoadBench
from iolab.trial.search.types import NS_PER_S, LoadTrial
from iolab.trial.site import Site

LAB = """
lab:
  machines: {tester: {kind: netns}, dut: {kind: netns, MACHINE}}
  links: {west: {ends: [tester.p0, dut.eth0]}, east: {ends: [tester.p1, dut.eth1]SHAPE}}
measure:
  it: {MEASURE, from: tester.p0, to: tester.p1}
"""
TESTER, DUT = "iolab-tester", "iolab-dut"
WAYS = {"eth1": ("p0", "p1"), "eth0": ("p1", "p0")}
"""The device's last port of each direction, and the tester's ports that send and receive there."""
SAMPLER = """
import sys, time
path, end = sys.argv[1], time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    with open(path) as counter:
        before = time.monotonic_ns()
        frames = counter.read().strip()
        after = time.monotonic_ns()
    if after - before < 200_000:
        print((before + after) // 2, frames, flush=True)
    time.sleep(0.005)
"""
"""Prints a counter again and again, with the time [ns, monotonic]; what took too long to read is left out."""
FOREIGN = """
import socket, sys, time
port, size, fps = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind((port, 0))
frame = b"\\xff" * 6 + b"\\x02\\0\\0\\0\\0\\x99" + b"\\x88\\xb5" + bytes(size - 14)
print(flush=True)
begin, sent = time.monotonic(), 0
while True:
    while sent < (time.monotonic() - begin) * fps:
        sent += 1
        try:
            out.send(frame)
        except OSError:
            pass
    time.sleep(0.001)
"""
"""Sends broadcasts of an experimental type (IEEE 802: 0x88b5)."""
FLOOD_RATIO, FLOOD_S = 1.5, 1.2


@contextmanager
def lab_of(
    agent: Agent, cpus: int, measure: str, *, machine: str, shape: str, commands: Sequence[str]
) -> Iterator[tuple[Site, Packets]]:
    """Build the lab and make the device; leaving takes both down."""
    text = LAB.replace("MACHINE", machine).replace("SHAPE", shape).replace("MEASURE", measure)
    with standing(agent, text, cpus) as made:
        for command in commands:
            inside(DUT, command)
        yield made


def inside(netns: str, command: str) -> str:
    """Run a command of the shell in a namespace; return what it printed.

    Raises:
        RuntimeError: it failed.
    """
    argv = ["ip", "netns", "exec", netns, "sh", "-c", command]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stderr.strip()}")
    return done.stdout


@contextmanager
def later(commands: Mapping[float, str]) -> Iterator[None]:
    """Run commands in the device's namespace so long after now [s]."""
    timers = [threading.Timer(after_s, inside, (DUT, command)) for after_s, command in commands.items()]
    for timer in timers:
        timer.start()
    try:
        yield
    finally:
        for timer in timers:
            timer.cancel()
        for timer in timers:
            timer.join()


@contextmanager
def busy(cpu: int) -> Iterator[None]:
    """Take a CPU half of the time from everything else that runs on it."""
    script = HOG.format(cpu=cpu, seconds=60, on=0.02, off=0.02, priority=90)
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        try:
            yield
        finally:
            child.kill()


@contextmanager
def foreign(netns: str, port: str, frame_bytes: int, fps: float) -> Iterator[None]:
    """Send frames of somebody else, of another type, by a port meanwhile."""
    argv = ["ip", "netns", "exec", netns, sys.executable, "-c", FOREIGN, port, str(frame_bytes), str(fps)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        try:
            yield
        finally:
            child.kill()


def ruled(port: str) -> int:
    """Return how many frames the first rule at a port counted."""
    shown = json.loads(inside(DUT, f"nft -j list table netdev {port}"))
    rules = [one["rule"] for one in shown["nftables"] if "rule" in one]
    return sum(int(part["counter"]["packets"]) for part in rules[0]["expr"] if "counter" in part)


@dataclass(frozen=True, slots=True)
class Kernel:
    """What the kernel counted at the ends of the tester since it was made, over all directions."""

    sent: int
    """Frames that left the sender."""
    refused: int
    """Of these, frames for which the far ring had no room."""
    received: int
    """Frames that came to the far port."""

    @property
    def lost(self) -> int:
        """Return what did not come through."""
        return self.sent - self.received

    def __sub__(self, before: "Kernel") -> "Kernel":
        """Return what was counted between two readings."""
        refused = self.refused - before.refused
        return Kernel(self.sent - before.sent, refused, self.received - before.received)


def kernel_counts(outs: Sequence[str]) -> Kernel:
    """Read the kernel's counters of the directions that leave the device by these ports."""
    sent = refused = received = 0
    for out in outs:
        source, target = WAYS[out]
        statistics = "/sys/class/net/{}/statistics/{}"
        paths = [
            statistics.format(source, "tx_packets"),
            statistics.format(source, "tx_dropped"),
            statistics.format(target, "rx_packets"),
        ]
        left, full, came = (int(word) for word in inside(TESTER, f"cat {' '.join(paths)}").split())
        sent += left + full
        refused += full
        received += came
    return Kernel(sent, refused, received)


def sustained_fps(site: Site, measure: Packets, out: str, fps: float, burst_frames: float) -> float | None:
    """Flood the device and return what leaves it by a port, by the kernel's counter [frames/s]; None: unknown.

    The first part, in which a full bucket is spent, does not count.
    """
    spent_s = burst_frames / (fps * (FLOOD_RATIO - 1)) + 0.1
    path = f"/sys/class/net/{out}/statistics/tx_packets"
    argv = ["ip", "netns", "exec", DUT, sys.executable, "-c", SAMPLER, path, str(spent_s + FLOOD_S + 1)]
    with (
        LoadBench(site, measure, 1.0) as bench,
        subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as seen,
    ):
        time.sleep(0.3)  # the sampler starts
        duration_ns = round((spent_s + FLOOD_S) * NS_PER_S)
        record = bench.run(LoadTrial(intended_fps=fps * FLOOD_RATIO, duration_ns=duration_ns), "flood")
        assert seen.stdout is not None
        samples = [tuple(map(int, line.split())) for line in seen.stdout]
    begin_ns = record.begin_ns + round(spent_s * NS_PER_S)
    end_ns = record.begin_ns + duration_ns
    inner = [sample for sample in samples if begin_ns < sample[0] < end_ns]
    if len(inner) < 10:
        return None
    return (inner[-1][1] - inner[0][1]) * NS_PER_S / (inner[-1][0] - inner[0][0])
