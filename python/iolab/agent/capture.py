"""The answers to capture.* as frozen types (contract/agent-v1.md), and the calls."""

import base64

from iolab.agent.client import Agent
from iolab.agent.decoding import Count, understood
from iolab.agent.messages import Json
from iolab.frozen import frozen


@frozen(kw_only=True)
class CaptureStarted:
    """A capture began."""

    begin_ns: Count
    """From when on frames are kept [ns, monotonic]."""


@frozen(kw_only=True)
class Captured:
    """What a capture holds, and what it does not. A super-frame of the stack is one frame."""

    kept_frames: Count
    """In the file."""
    overwritten_frames: Count
    """Older ones that made room for them."""
    filtered_frames: Count
    """Left out by the filter."""
    cut_frames: Count
    """Of which the file has only the beginning."""
    lost_frames: Count
    """For which the kernel had no room."""
    total_bytes: Count
    """Length of the file."""
    begin_ns: Count
    """From when on frames were kept [ns, monotonic]."""
    end_ns: Count
    """Until when."""


@frozen(kw_only=True)
class _Part:
    packed: str
    total_bytes: Count


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
        part = agent.ask(_Part, "capture.read", {"id": name, "offset_bytes": len(found)})
        with understood(agent.name, "a part of a capture"):
            more = base64.b64decode(part.packed, validate=True)
        found += more
        if not more or len(found) >= part.total_bytes:
            return bytes(found)
