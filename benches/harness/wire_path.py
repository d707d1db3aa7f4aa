"""Build an emulated link between two namespaces and send frames through it, for the benches of emulated links."""

import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from benches.harness.lab import standing
from benches.harness.programs import entered, output
from benches.harness.ring import Seen

from iolab.agent.client import Agent
from iolab.agent.messages import WayCounts, WireCounts
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
"""A MAC address that no port has."""
NEAR, FAR = "iolab-near", "iolab-far"


def wired(
    agent: Agent,
    wire: str,
    more: str = "mtu: 1500",
    settings: str = "{}",
    scheduling: str = "realtime",
) -> AbstractContextManager[tuple[Site, Packets]]:
    """Build two namespaces with an emulated link between them; remove them on exit."""
    text = LAB.replace("WIRE", wire).replace("MORE", more).replace("SETTINGS", settings)
    return standing(agent, text.replace("SCHEDULING", scheduling), Packets)


def counted(agent: Agent) -> tuple[WayCounts, ...]:
    """Return the counts of frames in both directions."""
    return agent.ask(WireCounts, "wire.read", {"id": "wire:path"}).ways


@contextmanager
def sender(agent: Agent, site: Site, measure: Packets) -> Iterator[Callable[[float, float], dict[str, Any]]]:
    """Open the sending port alone; yield the send function (frames per second, seconds)."""
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
        time.sleep(0.3)  # frames in transit arrive
        sent: dict[str, Any] = answer["senders"][0]
        return sent

    try:
        yield send
    finally:
        agent.call("traffic.close", {"id": params["id"]})


def unaccounted(way: WayCounts) -> int:
    """Return the number of received frames that are not accounted for."""
    lost = sum(stage.lost_frames for stage in way.stages)
    known = way.left_frames + way.refused_frames + way.no_room_frames + way.held_frames + lost
    return way.arrived_frames + way.copied_frames - known


def neighbour(netns: str, to: str, mac: str) -> None:
    """Add a neighbour entry to the port of a namespace."""
    output("ip", "-n", netns, *f"neigh replace {to} lladdr {mac} dev eth0 nud permanent".split())


def paced(netns: str, to: str, fps: float, seconds: float) -> None:
    """Send evenly spaced datagrams of 60 B through the stack, because a recorder does not see the generator's frames.

    No machine has the destination address, so the stack at the far end drops the datagrams immediately.
    """
    neighbour(netns, to, NOBODY)
    with entered(netns):
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.connect((to, 9))
    gap_ns, begin_ns = 1e9 / fps, time.monotonic_ns() + 1_000_000
    for number in range(int(fps * seconds)):
        due_ns = begin_ns + int(number * gap_ns)
        while time.monotonic_ns() < due_ns:
            pass
        with contextlib.suppress(OSError):
            sender.send(b"\0\0\0\0" + number.to_bytes(5, "big") + bytes(9))
    time.sleep(0.3)  # frames in transit arrive


def sequence_of(frame: Seen) -> int | None:
    """Return the generator's sequence number of a frame; None if the frame has a different sender."""
    if len(frame.head) < 60 or frame.head[12:14] != b"\x08\x00" or frame.head[23] != 17:
        return None
    return int.from_bytes(frame.head[46:51], "big")


def thread_cpu_ns() -> int:
    """Return the CPU time of the threads of emulated links [ns]."""
    total = 0
    for path in Path("/proc").glob("[0-9]*/task/*/comm"):
        try:
            if path.read_text().strip() == "iolab-wire":
                total += int((path.parent / "schedstat").read_text().split()[0])
        except OSError:
            continue
    return total
