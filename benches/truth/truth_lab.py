"""A lab with a device of known truth, and what the kernel's own counters say of it."""

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
    time.sleep(0.01)
"""
"""Prints a counter again and again, with the time [ns, monotonic]; what took too long to read is left out."""
PRIORITY = "50"
"""Above the threads of the instrument, which leave no CPU on a small host."""
SPAN_NS = 100_000_000
"""Rates are of parts so long: their median leaves out those in which the sender stood still [ns]."""
OUT_PORT, FOREIGN_BYTES = "eth1", 508
"""Where the frames of somebody else leave the device, and how long they are, without checksum [bytes]."""
FLOOD_RATIO, FLOOD_S = 1.5, 1.2


M = TypeVar("M")


@contextmanager
def lab_of(
    agent: Agent, measure: str, kind: type[M], machine: str, commands: Sequence[str], shape: str = ""
) -> Iterator[tuple[Site, M]]:
    """Build the lab and make the device; leaving takes both down."""
    text = LAB.replace("MACHINE", machine).replace("SHAPE", shape).replace("MEASURE", measure)
    with standing(agent, text, kind) as made:
        for command in commands:
            inside(DUT, command)
        yield made


def inside(netns: str, command: str) -> str:
    """Run a command of the shell in a namespace; return what it printed.

    Raises:
        RuntimeError: it failed.
    """
    return output(*within(netns, "sh", "-c", command))


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


@dataclass(frozen=True, slots=True)
class Company:
    """What else runs on the host, or sends, while frames are counted."""

    hog: str = ""
    """Whose CPU is taken away half of the time: sender, receiver or device; or that the agent stops for a second."""
    foreign_fps: float = 0.0
    """Frames of somebody else that leave the device by the same port meanwhile [frames/s]."""

    @property
    def name(self) -> str:
        """Return it in words."""
        hog = f", {self.hog} has half of its CPU" if self.hog else ""
        return hog + (f", {self.foreign_fps:.0f} of others" if self.foreign_fps else "")


ALONE = Company()
STOPPED = "agent"
"""The agent stands still for a second."""


@contextmanager
def beside(site: Site, company: Company) -> Iterator[None]:
    """Let others work or send meanwhile."""
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
            # Somebody else's computer has CPUs of its own: what is sent must not wait for the instrument's threads.
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
