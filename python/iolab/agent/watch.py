"""Methods that look at frames: watching what passes a port, and capturing it."""

import base64
from collections.abc import Sequence
from typing import Literal

from iolab.agent.client import Agent
from iolab.agent.decoding import Count, understood
from iolab.agent.messages import Json
from iolab.agent.traffic import Histogram
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
class _CapturePart:
    packed: str
    total_bytes: Count


View = Literal["arrival", "line"]


@frozen(kw_only=True)
class WatchStarted:
    """A watch began."""

    by: tuple[str, ...]
    """By what each point is seen: tcx, clsact or af_packet."""
    fallbacks: tuple[str, ...]
    """Why it is nothing better."""
    begin_ns: Count
    """When all points were in place [ns, monotonic]."""


@frozen(kw_only=True)
class WatchWindows:
    """The windows of one length."""

    view: View
    """Frames as they came, or while they would be on the line."""
    window_ns: Count
    """The length [ns]."""
    first: Count
    """The number of the first: it begins at that times the length on the agent's clock."""
    windows: Count
    """How many, from the first with a frame to the last."""
    idle_windows: Count
    """Empty ones among them."""
    bytes: Count
    """In all, without FCS."""
    frames: Count
    """In all."""
    frames_squared: Count
    """Sum of the squares of frames per window."""
    late_frames: Count
    """Frames with an earlier time than those before; they are in the window of these."""
    left_out: Count
    """Windows with a frame that are not kept one by one."""
    histogram: Histogram
    """Windows by bytes."""


@frozen(kw_only=True)
class WatchTrains:
    """Trains: frames that follow each other closer than a threshold."""

    frames: Histogram
    """Trains by frames."""
    bytes: Histogram
    """Trains by bytes."""
    lengths_ns: Histogram
    """Trains by the time from the first frame to the last."""
    intervals_ns: Histogram
    """From the first frame of a train to that of the next."""
    gaps_ns: Histogram
    """Between frames."""


@frozen(kw_only=True)
class WatchBucket:
    """The smallest token bucket that holds the traffic at a rate."""

    rate_bps: Count
    """The rate [bit/s]."""
    depth_bytes: Count
    """Its depth."""
    left_bytes: Count
    """What is still in it at the end."""


@frozen(kw_only=True)
class WatchLoss:
    """What a buffer before the line would lose; bytes are those on the line."""

    depth_bytes: Count
    """Its depth."""
    lost_bytes: Count
    """What finds no room."""
    offered_bytes: Count
    """What comes."""


@frozen(kw_only=True)
class WatchLine:
    """What a line would see."""

    busy_ns: Count
    """How long it is busy [ns]."""
    needs: WatchBucket
    """The buffer that holds all."""
    losses: tuple[WatchLoss, ...]
    """What smaller ones lose."""


@frozen(kw_only=True)
class WatchFlow:
    """A flow by its addresses; without addresses: frames that are no IP, or the rest."""

    source: str
    """The sender's address."""
    destination: str
    """The receiver's address."""
    source_port: Count
    """The sender's port."""
    destination_port: Count
    """The receiver's port."""
    protocol: Count
    """Its number (IANA)."""
    rest: bool
    """It stands for all flows that have no place of their own."""
    windows: WatchWindows
    """Its windows."""


@frozen(kw_only=True)
class WatchCounted:
    """What the interface counted; what passed while it was read may be in or out."""

    least_bytes: Count
    """At least."""
    most_bytes: Count
    """At most."""
    least_frames: Count
    """At least."""
    most_frames: Count
    """At most."""


@frozen(kw_only=True)
class WatchedPoint:
    """What passed one point."""

    by: str
    """By what it was seen."""
    first_ns: Count | None
    """When the first frame came [ns, monotonic]."""
    last_ns: Count | None
    """When the last one came."""
    added_bytes: Count
    """Headers and tags that a line carries and packets of the stack do not."""
    added_frames: Count
    """Frames that a line carries beyond the packets of the stack."""
    lost_frames: Count
    """Frames that are in no window."""
    lost_bytes: Count
    """Their bytes."""
    unstamped_frames: Count | None = None
    """Where frames are given to other CPUs: those in the windows of when another CPU looked at them."""
    counted: WatchCounted
    """What the interface counted."""
    windows: tuple[WatchWindows, ...]
    """By length and view."""
    trains: WatchTrains
    """Trains."""
    curve: tuple[WatchBucket, ...]
    """By rate."""
    line: WatchLine | None
    """Where a line was thought of."""
    flows: tuple[WatchFlow, ...]
    """Where flows were counted apart."""


@frozen(kw_only=True)
class WatchStolen:
    """A time in which CPUs were stolen."""

    begin_ns: Count
    """After this [ns, monotonic]."""
    end_ns: Count
    """Before this."""
    steal_ns: Count
    """So much, of all CPUs together."""


@frozen(kw_only=True)
class Watched:
    """What a watch saw."""

    points: tuple[WatchedPoint, ...]
    """In the order asked."""
    stolen: tuple[WatchStolen, ...]
    """Stolen times."""
    cpu_ns: Count
    """CPU time of the thread that read the counts."""
    begin_ns: Count
    """When all points were in place [ns, monotonic]."""
    end_ns: Count
    """When counting ended."""


@frozen(kw_only=True)
class _Part:
    packed: str
    frame_bits: Count
    total_bytes: Count


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
        part = agent.ask(_Part, "watch.read", params)
        with understood(agent.name, "windows"):
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
        part = agent.ask(_CapturePart, "capture.read", {"id": name, "offset_bytes": len(found)})
        with understood(agent.name, "a part of a capture"):
            more = base64.b64decode(part.packed, validate=True)
        found += more
        if not more or len(found) >= part.total_bytes:
            return bytes(found)
