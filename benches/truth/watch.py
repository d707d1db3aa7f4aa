"""Measure the watch: cost per frame, lost frames, cost to a TCP stream, and its windows against a capture.

Usage: python -m benches.truth.watch [frames] [tcp] [windows]; all of them take about four minutes. Needs root, iperf3,
tcpdump and two CPUs; builds two examples. Every section prints each result with its bound; the exit status is 1 if a
bound is missed. The capture is tcpdump's at the same port: its timestamps are the stack's, some tenths of a microsecond
before the watch's.
"""

import json
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
from benches.harness.arguments import Argument, arguments
from benches.harness.pairs import alternated
from benches.harness.programs import (
    End,
    examples,
    interface_count,
    joined,
    output,
    running,
    serving,
    target_examples,
    within,
)
from benches.harness.table import verdict

from iolab.agent.client import Agent
from iolab.agent.messages import WatchedPoint
from iolab.agent.traffic import close_watch, read_windows, start_watch, stop_watch
from iolab.run.hosts.host_agent import open_agent
from iolab.trial.instruments.watched import unpack

EXAMPLES = target_examples()
NEAR, FAR = "iolab-near", "iolab-far"
MOST_NS, LEAST_FPS, MOST_TCP_RATIO = 35.0, 1e6, 0.05
WINDOW_NS = 12_000
SHIFT_NS = 50_000
"""Allowed difference between a capture's timestamp and the program's time, because an interrupt may occur in
between."""
Sender = Callable[[], None]


@contextmanager
def hung(what: str, seconds: float) -> Iterator[list[str]]:
    """Attach a program to the far port; on exit, the list contains its counts."""
    found: list[str] = []
    if not what:
        yield found
        return
    # A watch uses kernel timestamps if a table of flows shows that other CPUs may process frames.
    table = f"echo {int(what == 'stamped')} > /sys/class/net/eth0/queues/rx-0/rps_flow_cnt"
    output(*within(FAR, "sh", "-c", table))
    hangs = "bins" if what == "stamped" else what
    argv = within(FAR, str(EXAMPLES / "watch"), "eth0", hangs, f"seconds={seconds}")
    with running(*argv, until="ready", killed=False) as program:
        yield found
        found += program.rest().split()


def blast(path: str = "xdp", seconds: float = 2.0, **more: int) -> None:
    """Send frames of 60 B at the maximum or the requested rate."""
    words = [f"{key}={value}" for key, value in more.items()]
    output(*within(NEAR, str(EXAMPLES / "blast"), "eth0", path, f"seconds={seconds}", "cpu=0", *words))


def blasted(what: str) -> tuple[int, list[str]]:
    """Return the frames that the far port received in a blast of 2 s, and the program's count."""
    before = interface_count(FAR, "eth0", "rx_packets")
    with hung(what, 2.6) as said:
        blast(seconds=2.0)
    return interface_count(FAR, "eth0", "rx_packets") - before, said


def frames() -> bool:
    """Measure frames per second with nothing, an empty program and the watch, in turn."""
    passed = alternated(
        {what: partial(blasted, what) for what in ("", "idle", "bins", "stamped", "flows")}, 5
    )
    rates = {what: [frames / 2.0 for frames, _ in own] for what, own in passed.items()}
    said = [(frames, words) for own in passed.values() for frames, words in own if len(words) == 6]
    counted, lost = (sum(int(words[at]) for _, words in said) for at in (1, 5))
    differ = sum(frames - int(words[1]) for frames, words in said)
    medians = {what: statistics.median(own) for what, own in rates.items()}
    cost = {
        what: statistics.median(
            1e9 / mine - 1e9 / idle for mine, idle in zip(rates[what], rates["idle"], strict=True)
        )
        for what in ("bins", "stamped", "flows")
    }
    print("  " + ", ".join(f"{what or 'nothing'} {fps / 1e6:.3f} Mpps" for what, fps in medians.items()))
    print(f"  flows counted apart cost {cost['flows']:.0f} ns more a frame than an empty program")
    print(f"  with the kernel's stamps, where other CPUs may take frames in, {cost['stamped']:.0f} ns")
    return all(
        (
            verdict("bins at a rate, one core", f"{medians['bins'] / 1e6:.2f} Mpps (least {LEAST_FPS / 1e6}), "
                    f"{counted} counted, {lost} lost, {differ} differ from the counter",
                    held=medians["bins"] >= LEAST_FPS and lost == 0 and differ == 0),
            verdict("cost beside an empty program", f"{cost['bins']:.1f} ns per frame (most {MOST_NS:.0f})",
                    held=cost["bins"] <= MOST_NS),
        )
    )  # fmt: skip


def stream(seconds: float, *options: str) -> float:
    """Return the rate of an iperf3 TCP stream [bit/s]: client and server on different CPUs."""
    with serving(FAR, 5201, "taskset", "-c", "1"):
        argv = ("taskset", "-c", "0", "iperf3", "-c", "198.18.0.2", "-t", str(seconds), "-J", *options)
        done = json.loads(output(*within(NEAR, *argv)))
    return float(done["end"]["sum_received"]["bits_per_second"])


def streamed(what: str) -> float:
    """Return the rate of a stream with a program attached to the far port [bit/s]."""
    with hung(what, 4.4):
        return stream(3)


def tcp() -> bool:
    """Measure a TCP stream with and without the watch, in turn."""
    rates = alternated({what: partial(streamed, what) for what in ("", "bins")}, 8)
    plain, watched = (statistics.median(own) for own in rates.values())
    cost = 1 - watched / plain
    spread = (max(rates[""]) - min(rates[""])) / plain
    return verdict(
        "cost to a TCP stream", f"{cost * 100:+.1f} % of {plain / 1e9:.1f} Gbit/s (most 5 %; spread without it "
        f"{spread * 100:.0f} %)", held=cost <= MOST_TCP_RATIO,
    )  # fmt: skip


def captured(path: Path, segment_bytes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the packets of a capture (pcap, ns): times [ns, wall clock], and frames and bytes as on a line."""
    data = path.read_bytes()
    assert struct.unpack_from("<I", data)[0] == 0xA1B23C4D, "a capture with stamps in ns"
    rows, at = [], 24
    while at + 16 <= len(data):
        seconds, nanos, kept, length = struct.unpack_from("<IIII", data, at)
        packet = data[at + 16 : at + 16 + kept]
        header = 14 + (packet[14] & 15) * 4
        header += (packet[header + 12] >> 4) * 4 if packet[12:14] == b"\x08\x00" and packet[23] == 6 else 8
        payload = length - header
        count = -(-payload // segment_bytes) if length > 1514 else 1
        rows.append((seconds * 10**9 + nanos, count, length + (count - 1) * header))
        at += 16 + kept
    times, counts, sizes = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    return times, counts, sizes


def watched_beside(
    agent: Agent, send: Sender, path: Path
) -> tuple[WatchedPoint, np.ndarray, np.ndarray, np.ndarray]:
    """Watch and capture the same traffic; return the watch point, and the number, frames and bytes of its windows."""
    params = {
        "id": "bench", "points": [{"netns": FAR, "interface": "eth0", "hook": "ingress"}],
        "windows_ns": [WINDOW_NS], "train_gap_ns": 5000, "rates_bps": [10**9], "kept_bytes": 50_000_000,
    }  # fmt: skip
    argv = f"ip netns exec {FAR} tcpdump -i eth0 -Q in -s 96 -B 65536 -j host -w {path} --time-stamp-precision=nano -U"
    with subprocess.Popen(argv.split(), stderr=subprocess.PIPE, text=True) as capture:
        assert capture.stderr is not None
        said = capture.stderr.readline()
        while said and "listening" not in said:
            said = capture.stderr.readline()
        assert said, f"{argv}: it ended; is tcpdump installed?"
        start_watch(agent, params)
        send()
        time.sleep(0.5)  # frames in transit arrive and are captured
        seen = stop_watch(agent, "bench").points[0]
        time.sleep(1.5)  # the kernel returns an incomplete block after a second
        capture.terminate()
        said = capture.stderr.read()
    assert "\n0 packets dropped" in f"\n{said}", said
    found = unpack(read_windows(agent, "bench", (0, 0)))
    close_watch(agent, "bench")
    return seen, found.numbers, found.frames, found.bytes


def windows() -> bool:
    """Compare windows of 12 us with the counts of a capture, for every sending path."""
    held = []
    with open_agent() as agent, tempfile.TemporaryDirectory() as folder:
        cases: list[tuple[str, str, Sender]] = [
            ("iperf3, GSO on", "on", lambda: void(stream(1, "-b", "2G"))),
            ("iperf3, GSO off", "off", lambda: void(stream(1, "-b", "1G"))),
            ("AF_XDP", "on", lambda: blast("xdp", 1, rate=200_000)),
            ("AF_PACKET past the qdisc", "on", lambda: blast("messages", 1, rate=100_000)),
        ]
        for name, offload, send in cases:
            output(*within(NEAR, "ethtool", "-K", "eth0", "tso", offload, "gso", offload))
            path = Path(folder) / "frames.pcap"
            offset = time.time_ns() - time.monotonic_ns()
            seen, *columns = watched_beside(agent, send, path)
            held.append(compare(name, seen, columns, captured(path, 1448), offset))
    return all(held)


def void(_: float) -> None:
    """Discard a figure."""


def compare(
    name: str, seen: WatchedPoint, found: list[np.ndarray], capture: tuple[np.ndarray, ...], offset: int
) -> bool:
    """Compare windows with a capture: all frames and bytes, and each window except for frames at its edges."""
    numbers, counts, sizes = found
    times, captured_frames, captured_bytes = capture
    same = (int(counts.sum()), int(sizes.sum())) == (int(captured_frames.sum()), int(captured_bytes.sum()))
    own = np.cumsum(counts)
    ends = (numbers + 1) * WINDOW_NS
    theirs = np.cumsum(captured_frames)
    times = times - offset

    def until(at: np.ndarray) -> np.ndarray:
        place = np.searchsorted(times, at)
        return np.where(place > 0, theirs[np.maximum(place - 1, 0)], 0)

    equal = float(np.mean(until(ends) == own))
    shift = next(
        (ns for ns in (500, 1_000, 2_000, 5_000, 10_000, 20_000, SHIFT_NS)
         if (until(ends - ns) <= own).all() and (own <= until(ends + ns)).all()), None,
    )  # fmt: skip
    said = (
        f"{counts.sum()} frames, {sizes.sum()} B; captured {captured_frames.sum()}, {captured_bytes.sum()} B"
    )
    print(f"  {len(numbers)} windows with frames, {equal * 100:.2f} % end at the same frame, "
          f"the others within {shift} ns; seen by {seen.by}")  # fmt: skip
    return verdict(f"windows, {name}", said, held=same and shift is not None)


SECTIONS = {"frames": frames, "tcp": tcp, "windows": windows}
ARGUMENTS = (Argument("section", tuple(SECTIONS), "what is measured", allowed=tuple(SECTIONS), several=True),)


def main() -> int:
    """Run the requested measurements."""
    asked = arguments(__doc__, *ARGUMENTS).section
    examples("iolab-port")
    with joined(End(NEAR, "eth0", "198.18.0.1/24"), End(FAR, "eth0", "198.18.0.2/24")):
        held = [SECTIONS[name]() for name in asked]
    return int(not all(held))


if __name__ == "__main__":
    sys.exit(main())
