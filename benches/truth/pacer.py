"""Measure the evenness of a shaped stream, and the rates of classes: iolab's pacer and the kernel's htb, in one run.

Usage: python -m benches.truth.pacer [SECTION ...] with sections `even` and `classes`; both take about two minutes.
Needs root, iperf3, sch_htb and two CPUs. One TCP stream of full frames passes the shaper. The bench judges the stream
by the kernel's timestamps (ring.py) on the device behind the shaper, taken when that device gets the frame, and
excludes the first second.

A pacer is judged only in the stretches between the stalls that its thread logged (stretches.py); the figures of all
frames are printed too. Without a burst, the pacer keeps its mean rate and catches up at 5/4 of the rate, so sigma is
computed at 5/4 of the rate. With a burst of two frames (`burst`), sigma is computed at the rate itself. A check ensures
that the log does not hide that the pacer itself is slow: in a second of kernel calls the thread may be stalled at most
MOST_RATIO times as often as in a second of waiting, in which it does no work between two readings of the clock; and at
least half of the frames must be judged. Trains are computed over all frames. Frames are 1518 B with FCS; htb counts
1514 B.
"""

import json
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field

from benches.harness.arguments import Argument, arguments
from benches.harness.lab import standing
from benches.harness.programs import address_of, output, serving, within
from benches.harness.ring import Ring
from benches.truth.stretches import SAME_NS, US, Stall, judged, sigma, stretches

from iolab.agent.client import Agent
from iolab.experiment.model.measures import Stream
from iolab.run.hosts.host_agent import open_agent
from iolab.trial.lab_access import Site
from iolab.units import NS_PER_S

TEXT = """
lab:
  machines: {a: {kind: netns}, b: {kind: netns}, switch: {kind: netns, forward: bridge}, far: {kind: netns}}
  links:
    a: {ends: [a.eth0, switch.v0], offload: &apart {tso: off, gso: off, gro: off}}
    b: {ends: [b.eth0, switch.v1], offload: *apart}
    wire: {ends: [switch.eth0, far.eth0], offload: *apart, shape: SHAPE}
measure: {it: {kind: stream, protocol: tcp, from: a, to: far, duration: 1s}}
"""
FRAME_BYTES, TC_BYTES, PAYLOAD_BYTES, IP_BYTES, TCP = 1518, 1514, 1448, 1500, 6
SECONDS = 7
CATCH_UP = 5 / 4
MOST_FRAMES, MOST_P99_NS = 2, 15 * US
MOST_RATIO, LEAST_JUDGED, LEAST_OF_RATE = 2.0, 0.5, 0.99
ROOT_BPS, CLASSES_BPS = 600_000_000, (400_000_000, 200_000_000)
PORTS = (5401, 5402)


@dataclass(slots=True)
class Log:
    """The log of a link thread."""

    stalls: list[Stall] = field(default_factory=list)
    """Times in which the thread had no CPU."""
    overslept: list[int] = field(default_factory=list)
    """Wake-up delays of late wake-ups [ns]."""
    waiting_ns: int = 0
    """Busy-waiting time [ns]."""
    calls_ns: int = 0
    """Time in system calls [ns]."""

    def per_s(self, *, called: bool) -> float:
        """Return the number of stalls of at least SAME_NS per second of waiting, or per second of system calls."""
        long = [one for one in self.stalls if one.called is called and one.end_ns - one.begin_ns >= SAME_NS]
        span_ns = self.calls_ns if called else self.waiting_ns
        return len(long) * NS_PER_S / span_ns if span_ns else 0.0


def shaped(agent: Agent, shape: str) -> AbstractContextManager[tuple[Site, Stream]]:
    """Build the lab with a shape."""
    return standing(agent, TEXT.replace("SHAPE", shape), Stream)


def received_bps(senders: Sequence[str], seconds: int, omit: int) -> list[float]:
    """Send from several machines at once; return the received payload rate of each."""
    words = ("-t", str(seconds), "-O", str(omit), "-J")
    with ExitStack() as servers, ThreadPoolExecutor() as pool:
        to, clients = address_of("iolab-far", "eth0"), []
        for name, port in zip(senders, PORTS, strict=False):
            servers.enter_context(serving("iolab-far", port))
            clients.append(within(f"iolab-{name}", "iperf3", "-c", to, "-p", str(port), *words))
        told = [json.loads(said) for said in pool.map(lambda argv: output(*argv), clients)]
    return [one["end"]["sum_received"]["bits_per_second"] for one in told]


def even(agent: Agent, shape: str) -> tuple[list[int], Log]:
    """Send a stream through a shaper; return the arrival times behind it, and the log of the pacer's thread."""
    with shaped(agent, shape):
        ring, log, over = Ring("iolab-far", "eth0", only=(IP_BYTES, TCP)), Log(), threading.Event()
        watch = threading.Thread(target=follow, args=(agent, log, over))
        if "pacer" in shape:
            watch.start()
        received_bps(["a"], SECONDS, 0)
        over.set()
        if watch.ident is not None:
            watch.join()
        came = ring.stamps_ns()
    return [at for at in came if came[0] + NS_PER_S <= at < came[-1] - NS_PER_S / 10], log


def follow(agent: Agent, log: Log, over: threading.Event) -> None:
    """Read the log of the link thread a few times per second: its agent keeps only the last seconds."""
    since = time.monotonic_ns()
    while True:
        last = over.wait(0.25)
        told = agent.call("wire.read", {"id": "wire:wire", "stalls_since_ns": since})
        ahead = time.time_ns() - time.monotonic_ns()
        stalls = told["stalls"]
        for one in stalls.get("log", []):
            begin, end = one["begin_ns"] + ahead, one["end_ns"] + ahead
            if one["kind"] == "sleep":  # the thread chose to sleep
                log.overslept.append(end - begin)
            else:
                log.stalls.append(Stall(begin, end, one["kind"] == "call"))
            since = max(since, one["end_ns"] + 1)
        log.waiting_ns, log.calls_ns = stalls["waiting"]["span_ns"], stalls["calls"]["span_ns"]
        if last:
            return


def show_even(agent: Agent) -> bool:
    """Print the evenness of pacer and htb at two rates; return whether the pacer is within its limits."""
    heads = f"{'Mbit/s':>8} {'judged':>7} {'train':>6} {'sigma':>7} {'p99 gap error':>14}"
    print(f"{'rate':>9} {'shaper':6} {heads}   all frames: sigma, at 5/4, p99")
    held = True
    for rate_mbps in (100, 1000):
        for name, qdisc, more, frame_bytes in (
            ("htb", "htb", "", TC_BYTES),
            ("pacer", "pacer", "", FRAME_BYTES),
            ("burst", "pacer", f", burst: {MOST_FRAMES * FRAME_BYTES}", FRAME_BYTES),
        ):
            frame_ns = frame_bytes * 8 * 1000 / rate_mbps
            shape = f"{{at: switch.eth0, qdisc: {qdisc}, rate: {rate_mbps}Mbit{more}}}"
            stamps, log = even(agent, shape)
            everything = judged([stamps], frame_ns)
            calm = judged(list(stretches(stamps, log.stalls, frame_ns)), frame_ns)
            rate = (len(stamps) - 1) * frame_bytes * 8000 / (stamps[-1] - stamps[0])
            ratio = calm.frames / everything.frames
            print(
                f"{rate_mbps:>4} Mbit {name:6} {rate:8.2f} {ratio:7.1%} {everything.train:6} {calm.sigma:7.2f}"
                f" {calm.p99_ns / US:11.2f} us   {everything.sigma:.2f}, {sigma(stamps, frame_ns / CATCH_UP):.2f},"
                f" {everything.p99_ns / US:.2f} us",
                flush=True,
            )
            if qdisc == "pacer":
                above = calm.sigma if more else sigma(stamps, frame_ns / CATCH_UP)
                held &= (
                    show_log(log)
                    and ratio >= LEAST_JUDGED
                    and everything.train <= MOST_FRAMES
                    and above <= MOST_FRAMES
                    and calm.p99_ns <= MOST_P99_NS
                    and (bool(more) or rate >= LEAST_OF_RATE * rate_mbps)
                )
    return held


def show_log(log: Log) -> bool:
    """Print the log of the thread; return whether the host explains the stalls."""
    waiting, calls = log.per_s(called=False), log.per_s(called=True)
    lost = sum(one.end_ns - one.begin_ns for one in log.stalls)
    print(
        f"          held up for {SAME_NS // US} us and more: {waiting:.0f} times in a second of waiting,"
        f" {calls:.0f} in one of calls; {len(log.stalls)} stalls, {lost / 1e6:.1f} ms of"
        f" {(log.waiting_ns + log.calls_ns) / 1e6:.0f}; woken late {len(log.overslept)} times, at worst by"
        f" {max(log.overslept, default=0) / US:.0f} us",
        flush=True,
    )
    return calls <= MOST_RATIO * waiting


def show_classes(agent: Agent) -> bool:
    """Print the rates of two classes with ceil alone and together; return whether the pacer is within its limits."""
    held = True
    for name, frame_bytes in (("htb", TC_BYTES), ("pacer", FRAME_BYTES)):
        written = ", ".join(
            f"{machine}: {{rate: {rate}bit, ceil: {ROOT_BPS}bit, from: {machine}}}"
            for machine, rate in zip("ab", CLASSES_BPS, strict=True)
        )
        shape = f"{{at: switch.eth0, qdisc: {name}, rate: {ROOT_BPS}bit, classes: {{{written}}}}}"
        on_line = frame_bytes / PAYLOAD_BYTES
        with shaped(agent, shape):
            alone = [received_bps([machine], 4, 1)[0] * on_line for machine in "ab"]
            first, second = (bps * on_line for bps in received_bps(["a", "b"], 8, 2))
        print(
            f"{name:6} alone {alone[0] / 1e6:.1f} and {alone[1] / 1e6:.1f} of 600 Mbit/s; together "
            f"{first / 1e6:.1f} : {second / 1e6:.1f} = {first / second:.4f}",
            flush=True,
        )
        share, ceil = (0.01, 0.01) if name == "pacer" else (0.03, 0.03)
        good = abs(first / second / 2 - 1) <= share and all(abs(bps / ROOT_BPS - 1) <= ceil for bps in alone)
        held &= good
    return held


SECTIONS = {"even": show_even, "classes": show_classes}
ARGUMENTS = (Argument("section", tuple(SECTIONS), "what is measured", allowed=tuple(SECTIONS), several=True),)


def main() -> None:
    """Print the requested sections; exit with 1 if a limit is missed."""
    with open_agent() as agent:
        results = [SECTIONS[name](agent) for name in arguments(__doc__, *ARGUMENTS).section]
    sys.exit(not all(results))


if __name__ == "__main__":
    main()
