"""Types of the readings of a stream trial in addition to its rate; the module `observe` fills them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from iolab.results.packets import Drop, Shaper
from iolab.results.verdict import CpuUse, Thread
from iolab.trial.counters.passing import LevelChange


@dataclass(frozen=True, slots=True)
class Program:
    """Program at one end of a stream, with the times of its busiest thread while the stream ran."""

    machine: str
    """Machine of the program."""
    kernel: str
    """Machine whose kernel runs the program; empty: the local host."""
    run_ratio: float
    """Share of time that the thread ran on a CPU, from scheduler statistics [ratio]."""
    wait_ratio: float
    """Share of time that the thread was runnable without a CPU [ratio]."""
    stopped_ns: int = 0
    """Time in stopped state because of a signal or debugger [ns]."""
    cpus: tuple[int, ...] = ()
    """CPU on which the thread last ran, for each reading."""
    kept_on: int | None = None
    """CPU to which the program is pinned; None: several CPUs are allowed, or the allowed CPUs are unknown."""


@dataclass(frozen=True, slots=True)
class Connections:
    """Sum of the sender's TCP statistics over a flow's connections."""

    busy_ns: int
    """Time in which the sender had data to send [ns]."""
    receiver_limited_ns: int
    """Part of the busy time in which the receive window limited the sender [ns]."""
    buffer_limited_ns: int
    """Part of the busy time in which the send buffer limited the sender [ns]."""
    window_bytes: int
    """Sum of the congestion windows [bytes]."""
    receiver_window_bytes: int
    """Sum of the last advertised receive windows [bytes]."""
    send_buffer_bytes: int
    """Sum of the send buffer limits [bytes]."""
    receive_buffer_bytes: int
    """Maximum receive buffer limit at the other end [bytes]; 0: unknown."""
    sent_bytes: int
    """Bytes sent, including retransmissions [bytes]."""
    resent_bytes: int
    """Retransmitted bytes [bytes]."""
    rtt_ns: int
    """Maximum smoothed round-trip time [ns]."""
    congestion: str
    """Congestion control algorithm."""
    largest_send_buffer_bytes: int = 0
    """Maximum send buffer limit [bytes]; 0: unknown."""
    least_rtt_ns: int = 0
    """Minimum round-trip time of the connection with the longest current round-trip time [ns]; 0: unknown."""

    mean_window_bytes: int = 0
    """Sum over connections of the mean congestion window [bytes]; 0: unknown."""
    mean_rtt_ns: int = 0
    """Mean smoothed round-trip time of the connection whose mean is the longest [ns]."""

    @property
    def receiver_limited_ratio(self) -> float:
        """Return the share of the busy time in which the receive window limited the sender [ratio]."""
        return self.receiver_limited_ns / self.busy_ns if self.busy_ns else 0.0

    @property
    def buffer_limited_ratio(self) -> float:
        """Return the share of the busy time in which the send buffer limited the sender [ratio]."""
        return self.buffer_limited_ns / self.busy_ns if self.busy_ns else 0.0

    @property
    def window_limited_ratio(self) -> float:
        """Return the share of the busy time in which window or buffer limited the sender; these times never overlap
        [ratio]."""
        return self.receiver_limited_ratio + self.buffer_limited_ratio

    @property
    def buffer_below_window(self) -> bool:
        """Whether the send buffers are less than half of the window that congestion control and receiver allow."""
        allowed_bytes = min(self.window_bytes, self.receiver_window_bytes)
        return 0 < 2 * self.send_buffer_bytes < allowed_bytes

    @property
    def resent_ratio(self) -> float:
        """Return the share of retransmitted bytes [ratio]."""
        return self.resent_bytes / self.sent_bytes if self.sent_bytes else 0.0


@dataclass(frozen=True, slots=True)
class Carrier:
    """A port whose carrier changed."""

    place: str
    """Port name."""
    changes: int
    """Number of carrier changes, up or down."""


@dataclass(frozen=True, slots=True)
class Passed:
    """A port with a known rate, and its traffic."""

    place: str
    """Port name."""
    passed_bps: float
    """Traffic rate [bit/s]."""
    rate_bps: float
    """Known rate [bit/s]: the rate of the shaper or link, or the rate at which the flows were sent."""


@dataclass(frozen=True, slots=True)
class ShaperSeen:
    """A shaper on the path of a flow or of its acknowledgements."""

    shaper: Shaper
    """Shaper counters."""
    passed_bps: float
    """Rate while the shaper passed traffic [bit/s]; of two levels, the one closest to the shaper's rate."""
    change: LevelChange | None = None
    """Change of the passed rate between two levels; None if the rate did not change."""
    back: bool = False
    """Whether the shaper passed the flow's acknowledgements, and not the flow itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineSeen:
    """An emulated line on the path of a flow."""

    place: str
    """Port that sends frames into the line."""
    link: str = ""
    """Link name."""
    passed_bps: float
    """Rate of frames while the line carried traffic [bit/s]."""
    rate_bps: float | None
    """Line rate [bit/s]; None: the rate follows a trace."""
    arrived_frames: int = 0
    """Frames that arrived at the line."""
    lost_frames: int = 0
    """Frames that the line's queue dropped."""
    passed_bytes: int = 0
    """Bytes carried [bytes]."""
    capacity_bytes: int = 0
    """Capacity of the line's trace in that time [bytes]; 0: no trace, or unknown."""
    marked_frames: int = 0
    """Frames with an ECN mark set by the line."""
    stall_ns: int = 0
    """Duration of each stall [ns]; 0: no stalls."""
    stall_every_ns: int = 0
    """Time between the starts of two stalls [ns]."""

    @property
    def used_ratio(self) -> float:
        """Return the used share of the line's capacity, excluding stalls [ratio]."""
        if self.rate_bps is not None:
            stalled_ratio = self.stall_ns / self.stall_every_ns if self.stall_every_ns else 0.0
            return self.passed_bps / self.rate_bps / max(0.01, 1.0 - stalled_ratio)
        return self.passed_bytes / self.capacity_bytes if self.capacity_bytes else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSeen:
    """Readings of one direction of one pair."""

    name: str
    """Flow name, as near->far."""
    protocol: str
    """Protocol, tcp or udp."""
    source: str
    """Sending machine."""
    target: str
    """Receiving machine."""
    duration_ns: int
    """Sending time [ns]."""
    sent_bps: float
    """Payload written to the socket [bit/s]."""
    received_bps: float
    """Payload read by the receiver [bit/s]."""
    intended_bps: float | None
    """Intended rate [bit/s]; None: unlimited."""
    datagrams: int = 0
    """UDP datagrams sent."""
    lost_datagrams: int = 0
    """UDP datagrams lost."""
    retransmits: int = 0
    """Retransmitted TCP segments, as counted by the program."""
    sender: Program | None = None
    """Sending program; None if its threads could not be read."""
    receiver: Program | None = None
    """Receiving program; None if its threads could not be read."""
    tcp: Connections | None = None
    """TCP statistics; None for UDP, or if the kernel has none."""
    drops: tuple[Drop, ...] = ()
    """Drops on the path and at the receiving socket, from all traffic, in descending order of their number."""
    shapers: tuple[ShaperSeen, ...] = ()
    """Shapers on the path in path order, then those on the path of the acknowledgements."""
    pacers: tuple[Passed, ...] = ()
    """Ports on the path that iolab's pacer paces, with their rates."""
    waiting: Mapping[str, float] = field(default_factory=dict)
    """Share of readings with packets waiting in the port's queue [ratio], by port on the path."""
    lines: tuple[LineSeen, ...] = ()
    """Emulated lines on the path."""
    fragments: int = 1
    """Number of IP fragments per datagram."""
    reassembly_failed: int = 0
    """Datagrams with a missing fragment at the receiver."""
    wire_frames: Mapping[str, int] = field(default_factory=dict)
    """Frames that arrived at the emulated path of a link, by link."""
    reordering: tuple[str, ...] = ()
    """Links on the path whose emulation reorders frames."""
    change: LevelChange | None = None
    """Change of the flow's rate between two levels; None if the rate did not change, or if the mean is still
    representative."""
    carriers: tuple[Carrier, ...] = ()
    """Ports on the path whose carrier changed."""
    stood_ns: int = 0
    """Longest time in which nothing was sent or received [ns]."""

    @property
    def missing(self) -> int:
        """Return the losses on the path: datagrams, or retransmitted TCP segments."""
        return self.lost_datagrams if self.protocol == "udp" else self.retransmits

    @property
    def loss_ratio(self) -> float:
        """Return lost datagrams per datagram sent [ratio]."""
        return self.lost_datagrams / self.datagrams if self.datagrams else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSeen:
    """Readings of a stream trial."""

    flows: tuple[FlowSeen, ...]
    """Every direction of every pair."""
    cpus: tuple[CpuUse, ...] = ()
    """CPU use per CPU."""
    threads: tuple[Thread, ...] = ()
    """CPU use of the threads of kernels and guests."""
    strangers: Mapping[str, float] = field(default_factory=dict)
    """CPU use of processes outside the trial [CPUs], by kernel."""
    gaps: Mapping[str, int] = field(default_factory=dict)
    """Longest gap between counter readings [ns], by kernel."""
    foreign: tuple[Passed, ...] = ()
    """Ports that carried more traffic than the flows sent."""
    unheld: tuple[Passed, ...] = ()
    """Shaped ports that passed more payload than their rate allows."""
    begun_again: tuple[str, ...] = ()
    """Ports on which a queue's counters were reset."""
