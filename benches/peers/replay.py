"""Compare replay by iolab with replay by tcpreplay: differences between sent and recorded gaps.

Usage: python -m benches.peers.replay [SECONDS]. Needs root and tcpreplay. Frames with random gaps (mean 200 us) are
sent by iolab and by tcpreplay over a veth pair; a capture at the receiving end has the kernel's timestamp of each.
Prints the quantiles of the errors of the gaps, and of the arrival times relative to the first frame.
"""

import random
import statistics
import struct
import tempfile
from itertools import pairwise
from pathlib import Path

from benches.harness.arguments import Argument, arguments
from benches.harness.run import ran, trials

from iolab.experiment.model.recordings import read_capture

ARGUMENTS = (Argument("seconds", 3, "length of the capture"),)
MEAN_S = 200e-6
LAB = """
title: Replay
lab:
  machines: {near: {kind: netns}, far: {kind: netns}}
  links: {lan: {ends: [near.eth0, far.eth0]}}
measure:
  own:
    {kind: latency, from: near, to: far, duration: SECONDSs, capture: [{at: far.eth0, snaplen: 64, filter: {port: 53}}],
     path: af_packet, replay: {recording: trace.pcap, timing: recorded, loops: 1}}
  tcpreplay:
    {kind: command, on: near, run: [tcpreplay, -q, -i, eth0, FILE], duration: SECONDSs,
     capture: [{at: far.eth0, snaplen: 64, filter: {port: 53}}]}
"""


def make_trace(path: Path, seconds: float) -> list[int]:
    """Write a capture with random gaps; return its times [ns]."""
    drawn, time_s, times = random.Random(1), 0.0, []
    out = struct.pack("<IHHIIII", 0xA1B23C4D, 2, 4, 0, 0, 65_535, 1)
    payload = bytes(64)
    udp = struct.pack(">HHHH", 5000, 53, 8 + len(payload), 0) + payload
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp), 7, 0, 64, 17, 0) + bytes(
        [198, 18, 0, 1, 198, 18, 0, 2]
    )
    frame = b"\xff" * 6 + b"\x02" * 6 + b"\x08\x00" + ip + udp
    while time_s < seconds - 0.1:
        times.append(round(time_s * 1e9))
        seconds_of, rest = divmod(times[-1], 10**9)
        out += struct.pack("<IIII", seconds_of, rest, len(frame), len(frame)) + frame
        time_s += drawn.expovariate(1 / MEAN_S)
    path.write_bytes(out)
    return times


def quantiles(values: list[int]) -> str:
    """Return p50, p90 and p99 of sizes [us]."""
    cut = statistics.quantiles(sorted(map(abs, values)), n=100)
    return ", ".join(f"p{share} {cut[share - 1] / 1e3:.2f}" for share in (50, 90, 99))


def main() -> None:
    """Print the errors of both programs."""
    seconds = arguments(__doc__, *ARGUMENTS).seconds
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        times = make_trace(folder / "trace.pcap", seconds)
        text = LAB.replace("SECONDS", str(seconds)).replace("FILE", str(folder / "trace.pcap"))
        run = ran(text, folder)
        names = {trial["key"]: trial["measure"] for trial in trials(run)}
        for path in sorted(run.glob("samples/*.pcapng")):
            of = names[path.name.split(".")[0]]
            seen = [frame.time_ns for frame in read_capture(whole(path.read_bytes()))]
            if len(seen) != len(times):
                print(f"{of}: {len(seen)} of {len(times)} frames were captured")
                continue
            gaps = [b - a for a, b in pairwise(times)]
            errors = [(b - a) - gap for (a, b), gap in zip(pairwise(seen), gaps, strict=True)]
            late = [(at - seen[0]) - (meant - times[0]) for at, meant in zip(seen, times, strict=True)]
            print(f"{of}: distances off by {quantiles(errors)} us; times off by {quantiles(late)} us")


def whole(data: bytes) -> bytes:
    """Return a capture with its frames marked as not truncated, because only their times are used."""
    out, at = bytearray(data), 0
    while at < len(out):
        kind, length = struct.unpack_from("<II", out, at)
        if kind == 6:
            out[at + 24 : at + 28] = out[at + 20 : at + 24]
        at += length
    return bytes(out)


if __name__ == "__main__":
    main()
