"""Methods that look at frames: watching what passes a port, and capturing it."""

import base64
from collections.abc import Sequence

from iolab.agent.client import Agent
from iolab.agent.decoding import understood
from iolab.agent.messages import Captured, CapturePart, CaptureStarted, Json, Watched, WatchPart, WatchStarted
from iolab.frozen import frozen
from iolab.locale import Phrase


@frozen
class Packed:
    """Windows as the agent keeps them."""

    numbers: bytes
    """Entries of two numbers in groups of seven bits: step and frames, bytes."""
    frame_bits: int
    """How many bits of an entry's first number count frames."""


def start_watch(agent: Agent, params: dict[str, Json]) -> WatchStarted:
    """Begin to watch. Raises AgentError."""
    return agent.ask(WatchStarted, "watch.start", params)


def stop_watch(agent: Agent, name: str) -> Watched:
    """End it; what was kept can be read until it is closed. Raises AgentError."""
    return agent.ask(Watched, "watch.stop", {"id": name})


def close_watch(agent: Agent, name: str) -> None:
    """Forget it, running or not. Raises AgentError."""
    agent.call("watch.close", {"id": name})


def read_windows(agent: Agent, name: str, place: Sequence[int], flow: int | None = None) -> Packed:
    """Read the windows at a place, which is (point, windows), of a flow or of all. Raises AgentError."""
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
    """Begin to capture. Raises AgentError."""
    return agent.ask(CaptureStarted, "capture.start", params)


def stop_capture(agent: Agent, name: str) -> Captured:
    """End it; the file can be read until it is closed. Raises AgentError."""
    return agent.ask(Captured, "capture.stop", {"id": name})


def close_capture(agent: Agent, name: str) -> None:
    """Forget it, running or not. Raises AgentError."""
    agent.call("capture.close", {"id": name})


def read_capture(agent: Agent, name: str) -> bytes:
    """Return the file of a capture that was stopped. Raises AgentError."""
    found = bytearray()
    while True:
        part = agent.ask(CapturePart, "capture.read", {"id": name, "offset_bytes": len(found)})
        with understood(agent.name, Phrase("agent.part-of-capture")):
            more = base64.b64decode(part.packed, validate=True)
        found += more
        if not more or len(found) >= part.total_bytes:
            return bytes(found)
