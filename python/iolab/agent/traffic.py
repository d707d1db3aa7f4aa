"""The answers to traffic.open, traffic.run and device.* as frozen types (contract/agent-v1.md), and the calls.

Only what this side computes with is typed; answers are stored whole.
"""

from collections.abc import Mapping
from dataclasses import field

from iolab.agent.client import REPLY_SLACK_S, Agent
from iolab.agent.decoding import Count, decode
from iolab.agent.messages import Json
from iolab.frozen import frozen
from iolab.units import NS_PER_S

PIECE_BYTES = 1 << 20
"""Of a recording in one message."""


@frozen(kw_only=True)
class Histogram:
    """Counts of whole numbers, raw."""

    count: Count
    """Values."""
    sum: Count
    """Their sum."""
    min: Count | None
    """The smallest."""
    max: Count | None
    """The largest."""
    above: Count
    """Values of 2^37 and more; in no bucket."""
    buckets: tuple[tuple[Count, Count], ...]
    """Smallest value and count of each bucket that is not empty, rising."""

    def __post_init__(self) -> None:
        """Refuse counts that do not add up: quantiles of them would be of nothing."""
        counted = self.above + sum(count for _, count in self.buckets)
        if counted != self.count:
            raise ValueError(f"{counted} values are in the buckets, and {self.count} were counted")


@frozen(kw_only=True)
class Stall:
    """A time during which a thread did not do its work."""

    begin_ns: Count
    """Its begin [ns, monotonic]."""
    end_ns: Count
    """Its end [ns, monotonic]."""
    late_ns: Count
    """The largest lateness [ns]."""
    slipped_ns: Count
    """By how much the schedule was shifted [ns]."""
    cause: str
    """not_asked or no_room."""
    steal_ns: Count | None
    """Time stolen from its CPU [ns]; None: not known."""
    wait_ns: Count
    """Time the thread was ready but had no CPU [ns]."""


@frozen(kw_only=True)
class ThreadUse:
    """What a thread used in a trial."""

    run_ns: Count
    """Time on a CPU [ns]."""
    wait_ns: Count
    """Time ready but waiting for a CPU [ns]."""
    cpu: Count | None = None
    """Where it was kept."""


@frozen(kw_only=True)
class SenderReport:
    """What one sender did."""

    port: str
    """Its port."""
    begin_ns: Count
    """When its first frame was due [ns, monotonic]."""
    end_ns: Count
    """When it ended [ns, monotonic]."""
    intended_frames: Count
    """Frames that the rate asks for."""
    offered_frames: Count
    """Frames that the interface accepted."""
    refused_frames: Count
    """Frames that the interface dropped when it was given them."""
    dropped_by_us_frames: Count
    """Frames never given to the interface."""
    stalls: tuple[Stall, ...]
    """The first stalls."""
    stall_count: Count
    """All of them."""
    thread: ThreadUse
    """What its thread used."""
    slices_frames: tuple[Count, ...] = ()
    """Frames handed over in each hundredth of the trial; empty: an older agent's."""
    further_threads: tuple[ThreadUse, ...] = ()
    """What its further threads used, where it has several."""
    unstamped_frames: Count = 0
    """Frames handed over without a stamp."""


@frozen(kw_only=True)
class SocketCounts:
    """What the receiving port itself lost."""

    dropped_frames: Count
    """The sum of the two below."""
    ring_full_frames: Count
    """The ring to the agent was full."""
    no_buffer_frames: Count
    """No buffer was free."""


@frozen
class FlowSeen:
    """What became of one flow."""

    flow: Count
    """Its number."""
    sent_frames: Count
    """Frames of it that were sent."""
    received_frames: Count
    """First copies that arrived whole."""


@frozen
class FlowsSeen:
    """What became of single flows."""

    count: Count
    """Flows that were sent."""
    with_loss: Count
    """Flows that lost a frame."""
    worst: tuple[FlowSeen, ...]
    """Those that lost most, at most a few."""


@frozen(kw_only=True)
class ReceiverReport:
    """What one receiver saw."""

    port: str
    """Its port."""
    of: Count
    """Place of its sender among the senders."""
    drained: bool
    """Whether nothing arrived any more at the end."""
    received_frames: Count
    """First copies that arrived whole."""
    duplicate_frames: Count
    """Further copies."""
    reordered_frames: Count
    """First copies that arrived after a newer frame of their flow."""
    late_frames: Count
    """Frames too far behind the newest; among the lost."""
    corrupted_frames: Count
    """Damaged frames of the sender."""
    latency_ns: Histogram
    """One-way latency of first copies."""
    socket: SocketCounts
    """What the port itself lost."""
    stalls: tuple[Stall, ...]
    """When it did not look in time."""
    thread: ThreadUse
    """What its thread used."""
    foreign_frames: Count = 0
    """Frames that were not sent by iolab."""
    flows: FlowsSeen | None = None
    """What became of single flows; None: an older agent does not tell."""
    reorder_density: tuple[tuple[int, Count], ...] = ()
    """Displacement, and first copies that had it (RFC 5236, threshold 16); 0: in its place, above 0: late."""
    slices_frames: tuple[Count, ...] = ()
    """First copies of the frames sent in each hundredth of the trial; empty: an older agent's."""
    arrived_slices_frames: tuple[Count, ...] = ()
    """First copies that arrived in each hundredth of the trial's time; empty likewise."""
    least_latency_slices_ns: tuple[Count | None, ...] = ()
    """The least latency of those [ns]; None where none arrived."""
    unstamped_frames: Count = 0
    """Frames without a stamp that arrived; among `received_frames`."""
    after_end_frames: Count = 0
    """First copies that arrived when the trial's time was over: a queue had held them back."""


@frozen(kw_only=True)
class TrafficRan:
    """A trial that was run."""

    begin_ns: Count
    """Before the first thread was started [ns, monotonic]."""
    end_ns: Count
    """After the last had ended [ns, monotonic]."""
    senders: tuple[SenderReport, ...]
    """What each sender did."""
    receivers: tuple[ReceiverReport, ...]
    """What each receiver saw."""
    raw: Json = field(default=None, compare=False)
    """The answer, whole."""


@frozen(kw_only=True)
class PathUsed:
    """How frames reach an interface, or come from it."""

    name: str
    """Mechanism and mode."""
    fallbacks: tuple[str, ...] = ()
    """Why a better way was not taken."""


@frozen(kw_only=True)
class PortOpened:
    """A port that is open."""

    name: str
    """As asked for."""
    mac: str
    """Its interface's address."""
    mtu_bytes: Count
    """Its interface's MTU [bytes]."""
    send: PathUsed | None = None
    """The way out."""
    receive: PathUsed | None = None
    """The way in."""


@frozen(kw_only=True)
class DeviceCounts:
    """What a reference device did so far."""

    passed_frames: Count
    """Frames let through."""
    dropped_frames: Count
    """Frames dropped by its rule."""


@frozen(kw_only=True)
class _Opened:
    ports: tuple[PortOpened, ...]


def open_ports(agent: Agent, params: Mapping[str, Json]) -> tuple[PortOpened, ...]:
    """Open a set of ports."""
    return agent.ask(_Opened, "traffic.open", params).ports


def give_recording(agent: Agent, of: str, name: str, entries: bytes) -> None:
    """Give a set of ports frames that are sent in place of those of our own, piece by piece."""
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
    """Run one trial to its drained barrier."""
    patience_s = (params["duration_ns"] + params["drain"]["timeout_ns"]) / NS_PER_S + REPLY_SLACK_S
    raw = agent.call("traffic.run", params, patience_s)
    ran = decode(TrafficRan, raw, "traffic.run result", agent=agent.name)
    return TrafficRan(
        begin_ns=ran.begin_ns, end_ns=ran.end_ns, senders=ran.senders, receivers=ran.receivers, raw=raw
    )
