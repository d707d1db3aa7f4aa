"""A wire between two namespaces, and what records frames at its ends: what the benches of wires share.

A recorder is a ring that the kernel fills (packet(7), PACKET_RX_RING), read when all is over: nothing else runs beside
the wire while it is measured. The stamps are the kernel's own: of a frame that leaves an interface when it is given to
it, of one that arrives when the stack gets it.
"""

import contextlib
import mmap
import os
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import CDLL, get_errno
from pathlib import Path
from typing import Any, NamedTuple

from benches.harness.standing_lab import standing

from iolab.agent.client import Agent
from iolab.agent.wires import WayCounts, WireCounts
from iolab.experiment.model.packets import Packets
from iolab.lab.packets.placement import ways
from iolab.trial.lab_access import Site
from iolab.trial.packets.requests import open_params, run_params

LAB = """
lab:
  machines:
    near: {kind: netns, settings: SETTINGS}
    far: {kind: netns, settings: SETTINGS}
  links: {path: {ends: [near.eth0, far.eth0], MORE, wire: WIRE}}
measure:
  it: {kind: latency, from: near.eth0, to: far.eth0, rate: 1kpps, scheduling: SCHEDULING}
"""
APART = "mtu: 1500, offload: {tso: off, gso: off}"
DELAY = "delay: 10ms"
NOBODY = "02:00:00:00:00:99"
"""An address of no port."""
NEAR, FAR = "iolab-near", "iolab-far"
SOL_PACKET, PACKET_RX_RING, PACKET_VERSION, PACKET_STATISTICS = 263, 5, 10, 6
TPACKET_V2, ETH_P_ALL = 1, 3
SLOT_BYTES, BLOCK_BYTES = 192, 192 * 1024
KEPT = 1
"""The frame was received by a ring of its own, not copied."""


@contextmanager
def wired(
    agent: Agent,
    wire: str,
    more: str = "mtu: 1500",
    settings: str = "{}",
    scheduling: str = "realtime",
) -> Iterator[tuple[Site, Packets]]:
    """Build two namespaces with a wire between them; leaving takes them down."""
    text = LAB.replace("WIRE", wire).replace("MORE", more).replace("SETTINGS", settings)
    text = text.replace("SCHEDULING", scheduling)
    with standing(agent, text, os.cpu_count() or 1) as found:
        yield found


def counted(agent: Agent) -> tuple[WayCounts, ...]:
    """Return what became of the frames of both ways."""
    return agent.ask(WireCounts, "wire.read", {"id": "wire:path"}).ways


def verdict(name: str, said: str, *, held: bool) -> bool:
    """Print one line, and give back whether the bound held."""
    print(f"{name:34} {said:78} {'holds' if held else 'MISSED'}", flush=True)
    return held


@contextmanager
def sender(agent: Agent, site: Site, measure: Packets) -> Iterator[Callable[[float, float], dict[str, Any]]]:
    """Open the sending port alone, and give what sends: frames per second, seconds."""
    directions = ways(site.lab, site.topology, measure)
    assert site.placement is not None
    params = open_params(measure, directions, site.placement)
    params["ports"] = [{**port, "halves": "send"} for port in params["ports"] if port["name"] == "near.eth0"]
    agent.call("traffic.open", params)
    macs = {way.name: NOBODY for way in directions}

    def send(fps: float, seconds: float) -> dict[str, Any]:
        asked = run_params(
            measure, site.lab, directions, macs, fps=fps, duration_ns=int(seconds * 1e9), number=1
        )
        answer: Any = agent.call("traffic.run", {**asked, "receivers": []}, seconds + 30)
        time.sleep(0.3)  # what is on the way arrives
        sent: dict[str, Any] = answer["senders"][0]
        return sent

    try:
        yield send
    finally:
        agent.call("traffic.close", {"id": params["id"]})


def unaccounted(way: WayCounts) -> int:
    """Return the frames that came in and of which nothing is known."""
    lost = sum(stage.lost_frames for stage in way.stages)
    known = way.left_frames + way.refused_frames + way.no_room_frames + way.held_frames + lost
    return way.arrived_frames + way.copied_frames - known


@contextmanager
def inside(netns: str) -> Iterator[None]:
    """Be in a network namespace."""
    libc, own = CDLL(None, use_errno=True), os.open("/proc/self/ns/net", os.O_RDONLY)
    other = os.open(f"/run/netns/{netns}", os.O_RDONLY)
    try:
        if libc.setns(other, 0):
            raise OSError(get_errno(), f"entering {netns}")
        yield
    finally:
        libc.setns(own, 0)
        os.close(other)
        os.close(own)


def paced(netns: str, to: str, fps: float, seconds: float) -> None:
    """Send numbered datagrams of 60 B evenly through the stack: a recorder does not see what the generator sends.

    They go to an address of nobody: the stack at the far end forgets them at once.
    """
    with inside(netns):
        argv = ["ip", "neigh", "replace", to, "lladdr", NOBODY, "dev", "eth0", "nud", "permanent"]
        subprocess.run(argv, check=True)
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.connect((to, 9))
    gap_ns, begin_ns = 1e9 / fps, time.monotonic_ns() + 1_000_000
    for number in range(int(fps * seconds)):
        due_ns = begin_ns + int(number * gap_ns)
        while time.monotonic_ns() < due_ns:
            pass
        with contextlib.suppress(OSError):
            sender.send(b"\0\0\0\0" + number.to_bytes(5, "big") + bytes(9))
    time.sleep(0.3)  # what is on the way arrives


class Seen(NamedTuple):
    """A frame that was recorded."""

    at_ns: int
    """Its stamp [ns, since 1970]."""
    length: int
    """Of the frame without FCS [bytes]."""
    head: bytes
    """Its first bytes."""


class Recorder:
    """Records every frame of an interface, of both directions."""

    def __init__(self, netns: str, interface: str, frames: int) -> None:
        with inside(netns):
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        blocks = -(-frames * SLOT_BYTES // BLOCK_BYTES)
        self._frames = blocks * BLOCK_BYTES // SLOT_BYTES
        self._socket.setsockopt(SOL_PACKET, PACKET_VERSION, struct.pack("i", TPACKET_V2))
        ring = struct.pack("IIII", BLOCK_BYTES, blocks, SLOT_BYTES, self._frames)
        self._socket.setsockopt(SOL_PACKET, PACKET_RX_RING, ring)
        self._memory = mmap.mmap(self._socket.fileno(), blocks * BLOCK_BYTES, mmap.MAP_SHARED | 0x8000)
        self._socket.bind((interface, ETH_P_ALL))

    def stop(self) -> list[Seen]:
        """Stop; return the frames in their order.

        Raises:
            OSError: some did not fit.
        """
        _, dropped = struct.unpack("II", self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
        if dropped:
            raise OSError(f"the recorder lost {dropped} frames")
        found = []
        for place in range(0, self._frames * SLOT_BYTES, SLOT_BYTES):
            status, length, kept, mac, _, sec, nsec = struct.unpack_from("IIIHHII", self._memory, place)
            if not status & KEPT:
                break
            begin = place + mac
            found.append(Seen(sec * 10**9 + nsec, length, self._memory[begin : begin + min(kept, 96)]))
        self._memory.close()
        self._socket.close()
        return found


def sequence_of(frame: Seen) -> int | None:
    """Return the number that the generator gave a frame; None: it is none of its frames."""
    if len(frame.head) < 60 or frame.head[12:14] != b"\x08\x00" or frame.head[23] != 17:
        return None
    return int.from_bytes(frame.head[46:51], "big")


def thread_cpu_ns() -> int:
    """Return the CPU time that the threads of wires have used [ns]."""
    total = 0
    for path in Path("/proc").glob("[0-9]*/task/*/comm"):
        try:
            if path.read_text().strip() == "iolab-wire":
                total += int((path.parent / "schedstat").read_text().split()[0])
        except OSError:
            continue
    return total
