"""Build a lab with a device of known truth, and read the kernel's counters of it."""

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

from benches.harness import others
from benches.harness.lab import standing
from benches.harness.programs import output, running, within

from iolab.agent.client import Agent
from iolab.experiment.model.packets import Packets
from iolab.trial.lab_access import Site
from iolab.trial.packets.load import LoadBench
from iolab.trial.search.types import LoadTrial
from iolab.units import NS_PER_S

LAB = """
lab:
  machines: {tester: {kind: netns}, dut: {kind: netns, MACHINE}}
  links: {west: {ends: [tester.p0, dut.eth0]}, east: {ends: [tester.p1, dut.eth1]SHAPE}}
measure:
  it: {MEASURE, from: tester.p0, to: tester.p1}
"""
TESTER, DUT = "iolab-tester", "iolab-dut"
WAYS = {"eth1": ("p0", "p1"), "eth0": ("p1", "p0")}
"""The device's egress port of each direction, and the tester's sending and receiving ports."""
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
    time.sleep(0.01)
"""
"""Program that prints a counter repeatedly, with the time [ns, monotonic]; slow readings are left out."""
PRIORITY = "50"
"""Real-time priority above that of the instrument's threads, which leave no CPU time on a small host."""
SPAN_NS = 100_000_000
"""Length of the parts over which rates are computed [ns]; the median of the parts excludes stalls of the sender."""
OUT_PORT, FOREIGN_BYTES = "eth1", 508
"""Egress port of foreign frames, and their length without checksum [bytes]."""
FLOOD_RATIO, FLOOD_S = 1.5, 1.2


M = TypeVar("M")


@contextmanager
def lab_of(
    agent: Agent, measure: str, kind: type[M], machine: str, commands: Sequence[str], shape: str = ""
) -> Iterator[tuple[Site, M]]:
    """Build the lab and the device; remove both on exit."""
    text = LAB.replace("MACHINE", machine).replace("SHAPE", shape).replace("MEASURE", measure)
    with standing(agent, text, kind) as made:
        for command in commands:
            inside(DUT, command)
        yield made


def inside(netns: str, command: str) -> str:
    """Run a shell command in a namespace; return its output.

    Raises:
        RuntimeError: it failed.
    """
    return output(*within(netns, "sh", "-c", command))


@contextmanager
def later(commands: Mapping[float, str]) -> Iterator[None]:
    """Run commands in the device's namespace, each after its delay [s]."""
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


@dataclass(frozen=True, slots=True)
class Company:
    """Concurrent work on the host, or foreign frames."""

    hog: str = ""
    """Thread whose CPU is occupied half of the time (sender, receiver, device), or the agent, stopped for a second."""
    foreign_fps: float = 0.0
    """Rate of foreign frames on the same egress port [frames/s]."""

    @property
    def name(self) -> str:
        """Return a description."""
        hog = f", {self.hog} has half of its CPU" if self.hog else ""
        return hog + (f", {self.foreign_fps:.0f} of others" if self.foreign_fps else "")


ALONE = Company()
STOPPED = "agent"
"""The agent is stopped for a second."""


@contextmanager
def beside(site: Site, company: Company) -> Iterator[None]:
    """Run the foreign work, or send the foreign frames, in the background."""
    assert site.placement is not None
    cpus = {
        "sender": site.placement.senders,
        "receiver": site.placement.receivers,
        "device": site.placement.napi,
    }
    with ExitStack() as running_meanwhile:
        if company.hog in cpus:
            cpu = next(iter(cpus[company.hog].values()))
            running_meanwhile.enter_context(others.hog(cpu, 0.02, 0.02, seconds=120))
        if company.foreign_fps:
            # A foreign computer has separate CPUs: its frames must not wait for the instrument's threads.
            first = ("chrt", "--fifo", PRIORITY)
            sent = others.foreign(DUT, OUT_PORT, FOREIGN_BYTES, company.foreign_fps, *first)
            running_meanwhile.enter_context(sent)
        if company.hog == STOPPED:
            pid = site.agent.hello.pid
            for after_s, signum in ((1.0, signal.SIGSTOP), (2.0, signal.SIGCONT)):
                timer = threading.Timer(after_s, os.kill, (pid, signum))
                timer.start()
                running_meanwhile.callback(timer.join)
        yield


def ruled(port: str) -> int:
    """Return the frame count of the first rule on a port."""
    shown = json.loads(inside(DUT, f"nft -j list table netdev {port}"))
    rules = [one["rule"] for one in shown["nftables"] if "rule" in one]
    return sum(int(part["counter"]["packets"]) for part in rules[0]["expr"] if "counter" in part)


@dataclass(frozen=True, slots=True)
class Kernel:
    """Kernel counts at the ends of the tester since their creation, over all directions."""

    sent: int
    """Frames sent by the sender."""
    refused: int
    """Sent frames that the full far ring refused."""
    received: int
    """Frames received at the far port."""

    @property
    def lost(self) -> int:
        """Return the number of lost frames."""
        return self.sent - self.received

    def __sub__(self, before: "Kernel") -> "Kernel":
        """Return the difference between two readings."""
        refused = self.refused - before.refused
        return Kernel(self.sent - before.sent, refused, self.received - before.received)


def kernel_counts(outs: Sequence[str]) -> Kernel:
    """Read the kernel's counters of the directions whose egress ports of the device are given."""
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
    """Flood the device and return the rate of an egress port, by the kernel's counter [frames/s]; None: unknown.

    The first part is excluded, because the device empties its full bucket in it.
    """
    spent_s = burst_frames / (fps * (FLOOD_RATIO - 1)) + 0.1
    path = f"/sys/class/net/{out}/statistics/tx_packets"
    sampler = (sys.executable, "-c", SAMPLER, path, str(spent_s + FLOOD_S + 2))
    duration_ns = round((spent_s + FLOOD_S) * NS_PER_S)
    with running(*within(DUT, "chrt", "--fifo", PRIORITY, *sampler)) as seen:
        with LoadBench(site, measure, 1.0) as bench:
            record = bench.run(LoadTrial(intended_fps=fps * FLOOD_RATIO, duration_ns=duration_ns), "flood")
        samples = [tuple(map(int, line.split())) for line in seen.rest().splitlines()]
    begin_ns = record.begin_ns + round(spent_s * NS_PER_S)
    end_ns = record.begin_ns + duration_ns
    rates, start = [], None
    for at_ns, frames in samples:
        if start is None or not begin_ns < at_ns < end_ns:
            start = (at_ns, frames)
        elif at_ns - start[0] >= SPAN_NS:
            rates.append((frames - start[1]) * NS_PER_S / (at_ns - start[0]))
            start = (at_ns, frames)
    return median(rates) if rates else None
