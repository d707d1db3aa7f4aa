"""Agent methods that send, receive and observe frames: ports, trials, watches, captures."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import field

from iolab.agent import messages
from iolab.agent.client import REPLY_SLACK_S, Agent
from iolab.agent.decoding import decode, understood
from iolab.agent.messages import (
    Captured,
    CapturePart,
    CaptureStarted,
    Json,
    PortOpened,
    TrafficOpened,
    Watched,
    WatchPart,
    WatchStarted,
)
from iolab.frozen import frozen
from iolab.locale import Phrase
from iolab.units import NS_PER_S

PIECE_BYTES = 1 << 20
"""Maximum size of a recording's part in one message."""


@frozen
class Packed:
    """Windows in the agent's compressed format."""

    numbers: bytes
    """Entries of two LEB128 numbers: `step << frame_bits | frames`, and bytes (contract, watch.read)."""
    frame_bits: int
    """Number of low bits in an entry's first number that contain the number of frames."""


@frozen(kw_only=True)
class TrafficRan(messages.TrafficRan):
    """The result of a trial."""

    raw: Json = field(default=None, compare=False)
    """The answer as received."""


def open_ports(agent: Agent, params: Mapping[str, Json]) -> tuple[PortOpened, ...]:
    """Open a set of ports."""
    return agent.ask(TrafficOpened, "traffic.open", params).ports


def give_recording(agent: Agent, of: str, name: str, entries: bytes) -> None:
    """Send a recording to a set of ports, part by part; its frames replace generated ones."""
    for begin in range(0, len(entries), PIECE_BYTES):
        piece = entries[begin : begin + PIECE_BYTES]
        params = {
            "id": of,
            "recording": name,
            "first": begin == 0,
            "last": begin + PIECE_BYTES >= len(entries),
            "hex": piece.hex(),
        }
        agent.call("traffic.record", params)


def run_traffic(agent: Agent, params: Mapping[str, Json]) -> TrafficRan:
    """Run one trial until all frames in transit have arrived."""
    patience_s = (params["duration_ns"] + params["drain"]["timeout_ns"]) / NS_PER_S + REPLY_SLACK_S
    raw = agent.call("traffic.run", params, patience_s)
    ran = decode(TrafficRan, raw, Phrase("agent.result-of", method="traffic.run"), agent=agent.name)
    return TrafficRan(
        begin_ns=ran.begin_ns, end_ns=ran.end_ns, senders=ran.senders, receivers=ran.receivers, raw=raw
    )


def start_watch(agent: Agent, params: dict[str, Json]) -> WatchStarted:
    """Start a watch. Raises AgentError."""
    return agent.ask(WatchStarted, "watch.start", params)


def stop_watch(agent: Agent, name: str) -> Watched:
    """Stop a watch; its windows can be read until it is closed. Raises AgentError."""
    return agent.ask(Watched, "watch.stop", {"id": name})


def close_watch(agent: Agent, name: str) -> None:
    """Close a watch, running or not. Raises AgentError."""
    agent.call("watch.close", {"id": name})


def read_windows(agent: Agent, name: str, place: Sequence[int], flow: int | None = None) -> Packed:
    """Read the windows of one flow or of all flows; `place` has the numbers of the point and of the window length
    (contract, watch.read). Raises AgentError."""
    point, windows = place
    found, bits = bytearray(), 0
    while True:
        params = {"id": name, "point": point, "windows": windows, "flow": flow, "offset_bytes": len(found)}
        part = agent.ask(WatchPart, "watch.read", params)
        with understood(agent.name, Phrase("agent.windows")):
            more = base64.b64decode(part.packed, validate=True)
        found += more
        bits = part.frame_bits
        if not more or len(found) >= part.total_bytes:
            return Packed(bytes(found), bits)


def start_capture(agent: Agent, params: dict[str, Json]) -> CaptureStarted:
    """Start a capture. Raises AgentError."""
    return agent.ask(CaptureStarted, "capture.start", params)


def stop_capture(agent: Agent, name: str) -> Captured:
    """Stop a capture; its file can be read until it is closed. Raises AgentError."""
    return agent.ask(Captured, "capture.stop", {"id": name})


def close_capture(agent: Agent, name: str) -> None:
    """Close a capture, running or not. Raises AgentError."""
    agent.call("capture.close", {"id": name})


def read_capture(agent: Agent, name: str) -> bytes:
    """Return the file of a stopped capture. Raises AgentError."""
    found = bytearray()
    while True:
        part = agent.ask(CapturePart, "capture.read", {"id": name, "offset_bytes": len(found)})
        with understood(agent.name, Phrase("agent.part-of-capture")):
            more = base64.b64decode(part.packed, validate=True)
        found += more
        if not more or len(found) >= part.total_bytes:
            return bytes(found)
