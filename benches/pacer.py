"""How even a shaped stream is, and what classes get: iolab's pacer and the kernel's htb, in one run.

Usage: python benches/pacer.py [SECTION ...] with sections `even` and `classes`; both take about two minutes. Needs
root, iperf3, sch_htb and two CPUs. One TCP stream of full frames goes through the shaper; judged at the far end by the
kernel's stamps (stamps.py), second by second, the first left out. A second is calm when the wire's own counters tell of
no frame that left over 100 us late in it; of htb all seconds count. Where none was calm, the figures are of all and
the bounds are not held: nothing could be judged. Frames are 1518 B with FCS; htb counts 1514.
"""

import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from iolab.agent.client import Agent
from iolab.experiment import Resolver, cells, parse
from iolab.lab.compose import compose
from iolab.run.agents import Agents
from iolab.run.hosts.host_agent import open_agent
from iolab.run.lab.standing_lab import StandingLab

TEXT = """
lab:
  machines: {a: {kind: netns}, b: {kind: netns}, switch: {kind: netns, forward: bridge}, far: {kind: netns}}
  links:
    a: {ends: [a.eth0, switch.v0], offload: &apart {tso: off, gso: off, gro: off}}
    b: {ends: [b.eth0, switch.v1], offload: *apart}
    wire: {ends: [switch.eth0, far.eth0], offload: *apart, shape: SHAPE}
measure: {it: {kind: stream, protocol: tcp, from: a, to: far, duration: 1s}}
"""
NS_PER_S, US = 1_000_000_000, 1000
FRAME_BYTES, TC_BYTES, PAYLOAD_BYTES, IP_BYTES, TCP = 1518, 1514, 1448, 1500, 6
SECONDS = 7
CATCH_UP = 5 / 4
MOST_FRAMES, MOST_P99_NS = 2, 15 * US
ROOT_BPS, CLASSES_BPS = 600_000_000, (400_000_000, 200_000_000)
PORTS = (5401, 5402)


@dataclass(frozen=True, slots=True)
class Second:
    """What the far end saw in a second."""

    frames: int
    """How many came."""
    train: int
    """Longest train: gaps below half of the even one [frames]."""
    sigma: float
    """Smallest bucket at the rate [frames]."""
    sigma_above: float
    """Smallest bucket at 5/4 of the rate [frames]."""
    p99_ns: float
    """Of the error of gaps [ns]."""
    late: int
    """Frames that left over 100 us late, by the wire's counters."""


@contextmanager
def standing(agent: Agent, shape: str) -> Iterator[None]:
    """Build the lab with a shape."""
    experiment = parse(TEXT.replace("SHAPE", shape), "bench")
    lab = StandingLab(Agents(agent), lambda _: None)
    try:
        lab.change_to(compose(Resolver(experiment).setup(next(cells(experiment))).lab))
        yield
    finally:
        lab.take_down()


def inside(machine: str, *argv: str) -> subprocess.Popen[str]:
    """Start a program in a machine's namespace."""
    command = ["ip", "netns", "exec", f"iolab-{machine}", *argv]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def address() -> str:
    """Return the far end's address."""
    shown = subprocess.run(
        ["ip", "-n", "iolab-far", "-j", "-4", "addr", "show", "eth0"],
        capture_output=True,
        text=True,
        check=True,
    )
    return str(json.loads(shown.stdout)[0]["addr_info"][0]["local"])


def received_bps(senders: Sequence[str], seconds: int, omit: int) -> list[float]:
    """Send from machines at once; return the payload that arrived of each."""
    servers = [
        inside("far", "iperf3", "-s", "-1", "-p", str(port), "--forceflush") for port in PORTS[: len(senders)]
    ]
    for server in servers:
        assert server.stdout is not None
        while "listening" not in server.stdout.readline():
            pass
    to = address()
    clients = [
        inside(name, "iperf3", "-c", to, "-p", str(port), "-t", str(seconds), "-O", str(omit), "-J")
        for name, port in zip(senders, PORTS, strict=False)
    ]
    told = [json.loads(client.communicate()[0]) for client in clients]
    for server in servers:
        server.communicate()
    return [one["end"]["sum_received"]["bits_per_second"] for one in told]


def even(agent: Agent, shape: str, rate_bps: int, frame_bytes: int) -> list[Second]:
    """Send a stream through a shaper, and judge its seconds."""
    stamps = Path(__file__).with_name("stamps.py")
    with (
        standing(agent, shape),
        inside("far", sys.executable, str(stamps), "eth0", str(IP_BYTES), str(TCP)) as far,
    ):
        assert far.stdout is not None
        assert far.stdin is not None
        far.stdout.readline()
        late: list[tuple[int, int]] = []
        over = threading.Event()
        watch = threading.Thread(target=poll, args=(agent, "pacer" in shape, late, over))
        watch.start()
        received_bps(["a"], SECONDS, 0)
        over.set()
        watch.join()
        far.stdin.write("\n")
        far.stdin.flush()
        *lines, last = far.stdout.read().splitlines()
    if last != "lost 0":
        print(f"  the capture {last} of {len(lines)} frames: not judged right", flush=True)
    return list(seconds([int(line) for line in lines], late, rate_bps, frame_bytes))


def poll(agent: Agent, wired: bool, late: list[tuple[int, int]], over: threading.Event) -> None:
    """Note how many frames left late until now, ten times a second."""
    while wired and not over.wait(0.1):
        told = agent.call("wire.read", {"id": "wire:wire"})
        late.append((time.time_ns(), sum(way["late_frames"] for way in told["ways"])))


def seconds(
    stamps: Sequence[int], late: Sequence[tuple[int, int]], rate_bps: int, frame_bytes: int
) -> Iterator[Second]:
    """Judge each whole second but the first."""
    begin = stamps[0] + NS_PER_S
    nominal = frame_bytes * 8 * NS_PER_S / rate_bps
    for start in range(begin, stamps[-1] - NS_PER_S, NS_PER_S):
        own = [at for at in stamps if start <= at < start + NS_PER_S]
        gaps = [after - before for before, after in pairwise(own)]
        errors = sorted(abs(gap - nominal) for gap in gaps)
        train = longest = 1
        for gap in gaps:
            train = train + 1 if gap < nominal / 2 else 1
            longest = max(longest, train)
        counts = [count for at, count in late if start - NS_PER_S / 5 <= at <= start + NS_PER_S * 6 / 5]
        yield Second(
            frames=len(own),
            train=longest,
            sigma=sigma(own, nominal),
            sigma_above=sigma(own, nominal / CATCH_UP),
            p99_ns=errors[len(errors) * 99 // 100],
            late=max(counts, default=0) - min(counts, default=0),
        )


def sigma(stamps: Sequence[int], frame_ns: float) -> float:
    """Return the smallest bucket, in frames, that drains one in `frame_ns`."""
    level, most, last = 0.0, 0.0, stamps[0]
    for at in stamps:
        level = max(0.0, level - (at - last) / frame_ns) + 1
        most, last = max(most, level), at
    return most


def show_even(agent: Agent) -> bool:
    """Print how even both are at two rates; tell whether the pacer is within its bounds."""
    heads = f"{'Mbit/s':>8} {'train':>7} {'sigma':>7} {'at 5/4':>7} {'p99 gap error':>14}"
    print(f"{'rate':>9} {'shaper':6} {'seconds':>13} {heads}")
    held = True
    for rate_mbps in (100, 1000):
        for name, frame_bytes in (("htb", TC_BYTES), ("pacer", FRAME_BYTES)):
            shape = f"{{at: switch.eth0, qdisc: {name}, rate: {rate_mbps}Mbit}}"
            all_seconds = even(agent, shape, rate_mbps * 1_000_000, frame_bytes)
            calm = [one for one in all_seconds if not one.late]
            judged = calm or all_seconds
            rate = statistics.fmean(one.frames for one in all_seconds) * frame_bytes * 8 / 1e6
            worst = [max(getattr(one, what) for one in judged) for what in ("train", "sigma", "p99_ns")]
            above = max(one.sigma_above for one in all_seconds)
            print(
                f"{rate_mbps:>4} Mbit {name:6} {len(calm):>3} of {len(all_seconds):>2} calm {rate:8.2f} {worst[0]:7}"
                f" {worst[1]:7.2f} {above:7.2f} {worst[2] / US:11.2f} us",
                flush=True,
            )
            medians = [
                statistics.median(getattr(one, what) for one in judged) for what in ("sigma", "p99_ns")
            ]
            of = "of calm seconds" if calm else "of all seconds, for none was calm"
            print(
                f"          medians: sigma {medians[0]:.2f}, p99 {medians[1] / US:.2f} us; {of}", flush=True
            )
            if name == "pacer":
                held &= (
                    bool(calm)
                    and worst[0] <= MOST_FRAMES
                    and worst[1] <= MOST_FRAMES
                    and worst[2] <= MOST_P99_NS
                )
    return held


def show_classes(agent: Agent) -> bool:
    """Print what two classes with ceil get alone and together; tell whether the pacer is within its bounds."""
    held = True
    for name, frame_bytes in (("htb", TC_BYTES), ("pacer", FRAME_BYTES)):
        written = ", ".join(
            f"{machine}: {{rate: {rate}bit, ceil: {ROOT_BPS}bit, from: {machine}}}"
            for machine, rate in zip("ab", CLASSES_BPS, strict=True)
        )
        shape = f"{{at: switch.eth0, qdisc: {name}, rate: {ROOT_BPS}bit, classes: {{{written}}}}}"
        on_line = frame_bytes / PAYLOAD_BYTES
        with standing(agent, shape):
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


def main() -> None:
    """Print the sections asked for; exit with 1 when a bound was missed."""
    sections = {"even": show_even, "classes": show_classes}
    with open_agent() as agent:
        results = [sections[name](agent) for name in sys.argv[1:] or sections]
    sys.exit(not all(results))


if __name__ == "__main__":
    main()
