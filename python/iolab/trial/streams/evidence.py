"""What was seen of a stream while it ran, beside its rate. Types only; `observe` fills them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from iolab.results.packets import Drop, Shaper
from iolab.results.verdict import CpuUse, Thread
from iolab.trial.counters.passing import LevelChange


@dataclass(frozen=True, slots=True)
class Program:
    """One end's program: its busiest thread, over the time that the stream ran."""

    machine: str
    """Where it is."""
    kernel: str
    """The machine whose kernel it is on; empty: this computer."""
    run_ratio: float
    """Time that the thread ran, of one CPU; exact, from the scheduler."""
    wait_ratio: float
    """Time that it was ready, and had no CPU."""
    stopped_ns: int = 0
    """Time that a signal, or a debugger, kept it stopped [ns]."""
    cpus: tuple[int, ...] = ()
    """The CPU it ran on last, at each reading."""
    kept_on: int | None = None
    """The one CPU that it may run on; None: it may run on several, or that is not known."""


@dataclass(frozen=True, slots=True)
class Connections:
    """What the sender's TCP tells of a flow's connections, added up."""

    busy_ns: int
    """Time in which there was something to send [ns]."""
    receiver_limited_ns: int
    """Of that, the time in which the receiver's window kept it back [ns]."""
    buffer_limited_ns: int
    """Of that, the time in which the own send buffer was too small [ns]."""
    window_bytes: int
    """Congestion windows [bytes]."""
    receiver_window_bytes: int
    """Windows that the receiver announced last [bytes]."""
    send_buffer_bytes: int
    """Bounds of the send buffers [bytes]."""
    receive_buffer_bytes: int
    """The largest bound of a receive buffer at the other end [bytes]; 0: not known."""
    sent_bytes: int
    """Sent, what was sent again included [bytes]."""
    resent_bytes: int
    """Sent again [bytes]."""
    rtt_ns: int
    """Smoothed round-trip time, the longest [ns]."""
    congestion: str
    """What controls congestion."""
    largest_send_buffer_bytes: int = 0
    """Of the send buffers, the largest bound [bytes]; 0: not known."""
    least_rtt_ns: int = 0
    """The least round-trip time, of the connection that has the longest now [ns]; 0: not known."""

    mean_window_bytes: int = 0
    """Mean of the congestion windows over the readings, added up [bytes]; 0: not known."""
    mean_rtt_ns: int = 0
    """Mean of the smoothed round-trip times over the readings, of the connection that has the longest [ns]."""

    @property
    def receiver_limited_ratio(self) -> float:
        """Return the part of the busy time in which the receiver's window kept the sender back."""
        return self.receiver_limited_ns / self.busy_ns if self.busy_ns else 0.0

    @property
    def buffer_limited_ratio(self) -> float:
        """Return the part of the busy time in which the send buffer was too small."""
        return self.buffer_limited_ns / self.busy_ns if self.busy_ns else 0.0

    @property
    def window_limited_ratio(self) -> float:
        """Return the part of the busy time in which either kept the sender back: never both at once."""
        return self.receiver_limited_ratio + self.buffer_limited_ratio

    @property
    def buffer_below_window(self) -> bool:
        """Whether the send buffers hold less than half of what congestion and receiver would let be in flight."""
        allowed_bytes = min(self.window_bytes, self.receiver_window_bytes)
        return 0 < 2 * self.send_buffer_bytes < allowed_bytes

    @property
    def resent_ratio(self) -> float:
        """Return which part of what was sent had been sent before."""
        return self.resent_bytes / self.sent_bytes if self.sent_bytes else 0.0


@dataclass(frozen=True, slots=True)
class Carrier:
    """A port whose carrier changed."""

    place: str
    """The port."""
    changes: int
    """How often it came or went."""


@dataclass(frozen=True, slots=True)
class Passed:
    """A port with a known rate, and what went by it."""

    place: str
    """The port."""
    passed_bps: float
    """What went by [bit/s]."""
    rate_bps: float
    """What is known of it: the rate of its shaper or link, or what the flows sent [bit/s]."""


@dataclass(frozen=True, slots=True)
class ShaperSeen:
    """A shaper that a flow, or what acknowledges it, passed."""

    shaper: Shaper
    """What it counted."""
    passed_bps: float
    """What it let through in the time in which that passed; of two levels the one nearest its rate [bit/s]."""
    change: LevelChange | None = None
    """Where what it let through went from one level to another; None: it did not."""
    back: bool = False
    """Whether acknowledgements passed it, and not the flow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineSeen:
    """An emulated line on the way of a flow."""

    place: str
    """The port that sends into it."""
    link: str = ""
    """Its link."""
    passed_bps: float
    """Frames that went by, in the time in which they did [bit/s]."""
    rate_bps: float | None
    """What it carries [bit/s]; None: that follows a trace."""
    arrived_frames: int = 0
    """Frames that came to it."""
    lost_frames: int = 0
    """Of those, what its queue lost."""
    passed_bytes: int = 0
    """What it carried [bytes]."""
    capacity_bytes: int = 0
    """What its trace could carry meanwhile [bytes]; 0: it has none, or that is not known."""
    marked_frames: int = 0
    """Frames that it marked, so that their senders slow down (ECN)."""
    stall_ns: int = 0
    """How long it stalls each time [ns]; 0: it does not."""
    stall_every_ns: int = 0
    """From the beginning of one stall to that of the next [ns]."""

    @property
    def used_ratio(self) -> float:
        """Return which part of its capacity was used, without the time in which it stalls."""
        if self.rate_bps is not None:
            stalled_ratio = self.stall_ns / self.stall_every_ns if self.stall_every_ns else 0.0
            return self.passed_bps / self.rate_bps / max(0.01, 1.0 - stalled_ratio)
        return self.passed_bytes / self.capacity_bytes if self.capacity_bytes else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSeen:
    """One direction of one pair, and what was seen of it."""

    name: str
    """As near->far."""
    protocol: str
    """tcp or udp."""
    source: str
    """Machine that sends."""
    target: str
    """Machine that receives."""
    duration_ns: int
    """How long it sent [ns]."""
    sent_bps: float
    """Payload handed to the socket [bit/s]."""
    received_bps: float
    """Payload read by the receiver [bit/s]."""
    intended_bps: float | None
    """What was asked for [bit/s]; None: as fast as it goes."""
    datagrams: int = 0
    """UDP datagrams sent."""
    lost_datagrams: int = 0
    """UDP datagrams that did not arrive."""
    retransmits: int = 0
    """TCP segments sent again, by the program's count."""
    sender: Program | None = None
    """None: its threads could not be read."""
    receiver: Program | None = None
    """None: its threads could not be read."""
    tcp: Connections | None = None
    """None: UDP, or the kernel does not tell."""
    drops: tuple[Drop, ...] = ()
    """What was dropped on its way and at the receiving socket, whosever it was, most first."""
    shapers: tuple[ShaperSeen, ...] = ()
    """On its way, in their order, then those on the way of its acknowledgements."""
    pacers: tuple[Passed, ...] = ()
    """Ports on its way that iolab itself paces, with their rates."""
    waiting: Mapping[str, float] = field(default_factory=dict)
    """Port on its way to the part of the readings at which packets waited in its queue."""
    lines: tuple[LineSeen, ...] = ()
    """Emulated lines on its way."""
    fragments: int = 1
    """Into how many packets each of its datagrams is cut."""
    reassembly_failed: int = 0
    """Datagrams of which a fragment was missing where they arrived."""
    wire_frames: Mapping[str, int] = field(default_factory=dict)
    """Link to the frames that came to its emulated path."""
    reordering: tuple[str, ...] = ()
    """Links on its way whose emulated path lets frames overtake others."""
    change: LevelChange | None = None
    """Where its rate went from one level to another; None: it did not, or its mean does not mislead."""
    carriers: tuple[Carrier, ...] = ()
    """Ports on its way whose carrier changed."""
    stood_ns: int = 0
    """Longest time in which nothing was sent or nothing arrived [ns]."""

    @property
    def missing(self) -> int:
        """Return what was lost on the way: datagrams, or TCP segments that were sent again."""
        return self.lost_datagrams if self.protocol == "udp" else self.retransmits

    @property
    def loss_ratio(self) -> float:
        """Return lost datagrams per datagram sent."""
        return self.lost_datagrams / self.datagrams if self.datagrams else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSeen:
    """A whole stream trial."""

    flows: tuple[FlowSeen, ...]
    """Every direction of every pair."""
    cpus: tuple[CpuUse, ...] = ()
    """What CPUs did."""
    threads: tuple[Thread, ...] = ()
    """What the kernel's own threads, and those of guests, did."""
    strangers: Mapping[str, float] = field(default_factory=dict)
    """Kernel to how many of its CPUs work had that is not of this trial."""
    gaps: Mapping[str, int] = field(default_factory=dict)
    """Kernel to the longest time in which its counters could not be read [ns]."""
    foreign: tuple[Passed, ...] = ()
    """Ports that passed more than the flows sent."""
    unheld: tuple[Passed, ...] = ()
    """Shaped ports that let more payload through than their rate."""
    begun_again: tuple[str, ...] = ()
    """Ports of which a queue's counters began again."""
