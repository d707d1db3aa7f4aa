"""Compare iolab's emulated link with rattan: frames of 64 B through 10 ms, flooded by the same sender, in turn.

Usage: python -m benches.peers.rattan [ROUNDS]. Needs root, two CPUs, trafgen (netsniff-ng) and rattan (cargo install
rattan --version 0.1.1). The sender has CPU 0 and bypasses the qdisc; rattan's thread has CPU 1, and so does the thread
of iolab's emulated link by default. Prints the received rate of each. (benches/truth/wire.py frames measures the rate
of the emulated link alone, with a flood by AF_XDP.) The exit status is 1 if iolab's link carries less than ten times as
many frames as rattan.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benches.harness.arguments import Argument, arguments
from benches.harness.pairs import alternated
from benches.harness.programs import output
from benches.harness.table import verdict
from benches.harness.wire_path import APART, DELAY, FAR, NEAR, wired

from iolab.agent.client import Agent
from iolab.run.hosts.host_agent import open_agent

ARGUMENTS = (Argument("rounds", 3, "floods of each"),)
LEAST_RATIO = 10.0
SECONDS, WAIT_S = 3, 1.0
"""Duration of the frame count, and the wait before it, because trafgen needs a moment to start."""
CONFIG = """
[env]
mode = "Isolated"
left_veth_count = 1
right_veth_count = 1
client_cores = [0]
server_cores = [0]
[cells.there]
type = "Delay"
delay = "10ms"
[cells.back]
type = "Delay"
delay = "10ms"
[links]
left = "there"
there = "right"
right = "back"
back = "left"
[resource]
cpu = [1]
[general]
[commands]
shell = "Default"
"""
PATIENCE_S, LOOK_S = 10.0, 0.1
"""Limit for the start of rattan's programs, and polling interval: rattan does not report its start."""


class End(NamedTuple):
    """A namespace and its interface."""

    enter: str
    """Arguments of nsenter."""
    interface: str
    mac: str
    address: str


def inside(enter: str, *argv: str) -> str:
    """Run a program in a network namespace; return its output."""
    return output("nsenter", enter, *argv)


def end_of(enter: str) -> End:
    """Return the only interface of a namespace except its loopback."""
    shown = json.loads(inside(enter, "ip", "-j", "address", "show"))
    (one,) = [each for each in shown if each["ifname"] != "lo"]
    address = next(each["local"] for each in one["addr_info"] if each["family"] == "inet")
    return End(enter, one["ifname"], one["address"], address)


def arrived(end: End) -> int:
    """Return the number of frames that an interface has received."""
    (shown,) = json.loads(inside(end.enter, "ip", "-j", "-s", "link", "show", "dev", end.interface))
    return int(shown["stats64"]["rx"]["packets"])


def flooded(near: End, far: End) -> float:
    """Flood from one end to the other; return the number of frames that arrive per second."""
    with tempfile.NamedTemporaryFile("w", suffix=".cfg") as frame:
        addresses = f"eth(da={far.mac}, sa={near.mac}), ipv4(saddr={near.address}, daddr={far.address})"
        frame.write(f"{{ {addresses}, udp(sport=9, dport=9), fill(0x41, 22) }}\n")
        frame.flush()
        words = f"taskset -c 0 trafgen --dev {near.interface} --conf {frame.name} --cpus 1 -q".split()
        argv = ["nsenter", near.enter, "timeout", str(SECONDS + 2), *words]
        with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
            time.sleep(WAIT_S)
            before, begin = arrived(far), time.monotonic()
            time.sleep(SECONDS)
            return (arrived(far) - before) / (time.monotonic() - begin)


def wire(agent: Agent) -> float:
    """Return the rate of iolab's emulated link."""
    with wired(agent, f"{{{DELAY}}}", APART, scheduling="normal"):
        near, far = (end_of(f"--net=/run/netns/{name}") for name in (NEAR, FAR))
        inside(near.enter, "ping", "-q", "-c", "1", far.address)
        return flooded(near, far)


@contextmanager
def rattan() -> Iterator[tuple[End, End]]:
    """Start rattan; yield its two ends."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)  # rattan's programs run as an ordinary user
        (folder / "path.toml").write_text(CONFIG)
        ends = [folder / "left", folder / "right"]
        for end in ends:
            end.write_text(f"echo $$ > {end}.pid\nsleep {SECONDS + 8}\n")
            end.chmod(0o755)
        argv = ["rattan", "run", "-c", str(folder / "path.toml"), f"--left={ends[0]}", f"--right={ends[1]}"]
        with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            deadline = time.monotonic() + PATIENCE_S
            pids = [end.with_suffix(".pid") for end in ends]
            while not all(pid.exists() and pid.read_text().strip() for pid in pids):
                if process.poll() is not None or time.monotonic() > deadline:
                    sys.exit(f"rattan did not start its programs within {PATIENCE_S:.0f} s")
                time.sleep(LOOK_S)
            left, right = (end_of(f"--net=/proc/{pid.read_text().strip()}/ns/net") for pid in pids)
            yield left, right


def theirs() -> float:
    """Return the rate of rattan."""
    with rattan() as (left, right):
        # rattan forwards only frames with the address of its far end.
        gateway = inside(left.enter, "ip", "-j", "neigh", "show")
        known = next((one["lladdr"] for one in json.loads(gateway) if "lladdr" in one), right.mac)
        return flooded(left, right._replace(mac=known))


def main() -> None:
    """Print both rates and their ratio; exit with 1 if the limit is missed."""
    rounds = arguments(__doc__, *ARGUMENTS).rounds
    with open_agent() as agent:
        found = alternated({"rattan": theirs, "iolab": lambda: wire(agent)}, rounds)
    mine, other = statistics.median(found["iolab"]), statistics.median(found["rattan"])
    said = f"{mine / 1e6:.3f} and {other / 1e6:.3f} Mpps: {mine / other:.1f} times (least {LEAST_RATIO:.0f})"
    sys.exit(not verdict("beside rattan", said, held=mine >= LEAST_RATIO * other))


if __name__ == "__main__":
    main()
