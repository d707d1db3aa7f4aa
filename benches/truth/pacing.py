"""Measure how evenly iolab, trafgen and iperf3 -u -b send frames at a given rate, alternating on one veth pair.

Usage: python -m benches.truth.pacing [ROUNDS] [FRAMES_PER_S ...]; 2 rounds of all rates take about a minute. Needs
root, two CPUs, and the packages netsniff-ng and iperf3; a program that is missing is skipped with a message. Every
sender is real-time on CPU 0. Frames are judged by timestamps at the far end (ring.py), not by a sender's own
statistics. `error` is the error of the mean rate between first and last frame; `less stalls` excludes the time by which
the schedule was shifted according to iolab's stall log. `even` is the fraction of 1-ms windows that contain the
intended number of frames within 2 frames or 5 %; `outside stalls` is the same fraction of the windows that no log entry
overlaps. Figures are medians over rounds. trafgen -b (0.6.8) sends the frames of a whole second at once if there are
more than about 10 000, and a trial is shorter than a second; trafgen -t waits between frames.
"""

import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benches.harness.arguments import Argument, arguments
from benches.harness.lab import PAIR, standing
from benches.harness.pairs import alternated
from benches.harness.programs import TRAFGEN_FRAME, address_of, serving, within
from benches.harness.ring import UDP_64, Ring
from benches.harness.table import Table

from iolab.agent.client import Agent
from iolab.experiment.model.packets import Packets
from iolab.lab.commands import scheduled
from iolab.run.hosts.host_agent import open_agent

ARGUMENTS = (
    Argument("rounds", 2, "how often each sender is measured at each rate"),
    Argument("rate", (10_000, 50_000, 100_000, 200_000, 500_000), "frames/s", int, several=True),
)
SECONDS = 0.8
"""Real-time throttling stops real-time threads after 0.95 s of each second if other threads need the CPU."""
PRIORITY = 10
NS_PER_S, WINDOW_NS = 1_000_000_000, 1_000_000
PAYLOAD_BYTES = 18
NEAR, FAR = "iolab-near", "iolab-far"


@dataclass(frozen=True, slots=True)
class Stall:
    """A time in which iolab's sender did not run."""

    begin_ns: int
    """Begin [ns, realtime]."""
    end_ns: int
    """End [ns, realtime]."""
    slipped_ns: int
    """Shift of the schedule [ns]."""


@dataclass(frozen=True, slots=True)
class Judged:
    """Figures of one trial, as observed at the far end."""

    error_ratio: float
    """Error of the mean rate."""
    unstalled_error_ratio: float
    """Error of the mean rate, without the time of stalls."""
    even_ratio: float
    """Share of windows with the intended number of frames."""
    unstalled_even_ratio: float
    """Share of windows without a stall that have the intended number of frames."""
    stalls: int
    """Number of entries in iolab's stall log."""


Send = Callable[[int], Sequence[Stall]]


def in_near(*argv: str) -> None:
    """Run a sender in the near namespace with real-time priority on CPU 0."""
    command = within(NEAR, "taskset", "-c", "0", "chrt", "--fifo", str(PRIORITY), *argv)
    subprocess.run(command, stdout=subprocess.DEVNULL, timeout=20, check=True)


def judged(send: Send, fps: int) -> Judged:
    """Run a sender and judge the arriving frames."""
    ring = Ring(FAR, "p1", only=UDP_64)
    stalls = send(fps)
    return judge(ring.stamps_ns(), fps, stalls)


def judge(stamps: Sequence[int], fps: int, stalls: Sequence[Stall]) -> Judged:
    """Return the figures of one trial."""
    begin, span_ns = stamps[0], stamps[-1] - stamps[0]
    slipped_ns = sum(stall.slipped_ns for stall in stalls if stall.begin_ns < stamps[-1])
    windows = [0] * (span_ns // WINDOW_NS)  # the last window is incomplete
    for stamp in stamps:
        if stamp - begin < len(windows) * WINDOW_NS:
            windows[(stamp - begin) // WINDOW_NS] += 1
    wanted = fps * WINDOW_NS / NS_PER_S
    even = [abs(count - wanted) <= max(2, 0.05 * wanted) for count in windows]
    held = {
        number
        for stall in stalls
        for number in range((stall.begin_ns - begin) // WINDOW_NS, (stall.end_ns - begin) // WINDOW_NS + 2)
    }
    calm = [good for number, good in enumerate(even) if number not in held]
    gaps = len(stamps) - 1
    return Judged(
        error_ratio=gaps * NS_PER_S / span_ns / fps - 1,
        unstalled_error_ratio=gaps * NS_PER_S / (span_ns - slipped_ns) / fps - 1,
        even_ratio=statistics.fmean(even),
        unstalled_even_ratio=statistics.fmean(calm) if calm else 1.0,
        stalls=len(stalls),
    )


def ours(agent: Agent, path: str) -> Send:
    """Return iolab's sender on a path; the port stays open from trial to trial."""
    port = {"name": "near", "netns": NEAR, "interface": "p0", "path": path, "halves": "send"}
    agent.call("traffic.open", {"id": path, "ports": [{**port, "send_cpu": 0, "frame_bytes": 64}]})
    addresses = {
        "source_address": {"first": "198.18.0.1"},
        "destination_address": {"first": "198.18.0.2"},
        "source_port": {"first": 4096},
        "destination_port": {"first": 9},
    }
    frames = {"sizes": [[64, 1]], "destination_mac": "02:00:00:00:00:02", "flows": {"count": 1, **addresses}}

    def send(fps: int) -> Sequence[Stall]:
        sender = {
            "port": "near",
            "tag": 1,
            "frames": frames,
            "rate": {"frames": fps, "per_ns": NS_PER_S},
            "stall": {"kind": "catch_up", "max_frames": 64},
        }
        params = {"id": path, "duration_ns": round(SECONDS * NS_PER_S), "senders": [sender], "receivers": []}
        ran = agent.call("traffic.run", params)
        to_realtime = time.time_ns() - time.monotonic_ns()
        return [
            Stall(one["begin_ns"] + to_realtime, one["end_ns"] + to_realtime, one["slipped_ns"])
            for one in ran["senders"][0]["stalls"]
        ]

    return send


def trafgen(config: Path, option: str) -> Send:
    """Return trafgen as a sender, with a rate (-b) or a gap (-t)."""

    def send(fps: int) -> Sequence[Stall]:
        count, pace = str(round(fps * SECONDS)), f"{fps}pps" if option == "-b" else f"{NS_PER_S // fps}ns"
        in_near("trafgen", "-o", "p0", "-c", str(config), "-P", "1", option, pace, "-n", count)
        return ()

    return send


def iperf3(fps: int) -> Sequence[Stall]:
    """Send with iperf3; its server is the far end."""
    with serving(FAR, 5301):
        rate = ("-b", str(fps * PAYLOAD_BYTES * 8), "-l", str(PAYLOAD_BYTES))
        in_near("iperf3", "-c", address_of(FAR, "p1"), "-p", "5301", "-u", *rate, "-t", "1")
    return ()


def main() -> None:
    """Print a line for each rate and sender."""
    asked = arguments(__doc__, *ARGUMENTS)
    heads = (
        "frames/s",
        "<sender           ",
        "error    ",
        "less stalls",
        "even  ",
        "outside stalls",
        "stalls",
    )
    with (
        tempfile.TemporaryDirectory() as folder,
        open_agent() as agent,
        # The sender is iolab's, without the lab's measure.
        standing(agent, PAIR, Packets),
    ):
        config = Path(folder) / "frame.cfg"
        config.write_text(TRAFGEN_FRAME)
        program, *options = scheduled(PRIORITY, str(agent.hello.pid))
        agent.run((program, "--all-tasks", *options))
        senders: dict[str, Send] = {f"iolab {path}": ours(agent, path) for path in ("af_xdp", "af_packet")}
        peers = {
            "trafgen -b": trafgen(config, "-b"),
            "trafgen -t": trafgen(config, "-t"),
            "iperf3 -b": iperf3,
        }
        for name, peer in peers.items():
            if shutil.which(name.split()[0]):
                senders[name] = peer
            else:
                print(f"{name}: not installed and left out")
        table = Table(*heads)
        try:
            for fps in asked.rate:
                variants = {name: partial(judged, send, fps) for name, send in senders.items()}
                for name, trials in alternated(variants, asked.rounds).items():
                    show(table, fps, name, trials)
        finally:
            for path in ("af_xdp", "af_packet"):
                agent.call("traffic.close", {"id": path})


def show(table: Table, fps: int, name: str, trials: Sequence[Judged]) -> None:
    """Print the medians of one sender at one rate."""
    errors = [statistics.median(abs(one.error_ratio) for one in trials),
              statistics.median(abs(one.unstalled_error_ratio) for one in trials)]  # fmt: skip
    even = statistics.median(one.even_ratio for one in trials)
    calm = statistics.median(one.unstalled_even_ratio for one in trials)
    stalls = statistics.median(one.stalls for one in trials)
    table.row(fps, name, *(f"{one:.6f}" for one in errors), f"{even:.1%}", f"{calm:.2%}", f"{stalls:.0f}")


if __name__ == "__main__":
    main()
