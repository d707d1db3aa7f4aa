"""What kernels count of ports and connections, and wires of frames, as agents send it (contract/agent-v1.md)."""

from dataclasses import fields, replace

from iolab.agent.decoding import Count
from iolab.frozen import frozen


@frozen(kw_only=True)
class StageLoss:
    """What one kind of stage lost."""

    kind: str
    """Of the stage, as in `impairments`."""
    lost_frames: Count
    """Frames that it lost."""


@frozen(kw_only=True)
class WayCounts:
    """What became of the frames of one way, a super-frame counted as the frames that it stands for.

    arrived + copied = left + refused + no_room + lost at the stages + held.
    """

    arrived_frames: Count = 0
    """Frames that came in."""
    copied_frames: Count = 0
    """Further copies that were made."""
    spared_frames: Count = 0
    """Of those that came in, frames about neighbours (ARP, ND, MLD), which chance and full queues spare."""
    left_frames: Count = 0
    """Frames that went out."""
    refused_frames: Count = 0
    """Frames that the far interface did not take: it was down."""
    no_room_frames: Count = 0
    """Frames for which the memory had no room."""
    held_frames: Count = 0
    """Frames that are on their way."""
    corrupted_frames: Count = 0
    """Frames with an inverted bit that went out."""
    marked_frames: Count = 0
    """Frames marked "congestion experienced" that went out."""
    late_frames: Count = 0
    """Frames that left over 100 us after they were due."""
    very_late_frames: Count = 0
    """Frames that left over 1 ms after they were due."""
    latest_ns: Count = 0
    """The longest such time, since the wire was made [ns]."""
    slipped_ns: Count = 0
    """By how much the times of spaced frames were shifted: the rate lost as much [ns]."""
    paced_ns: Count = 0
    """What the line took for spaced frames [ns of the line]."""
    short_ns: Count = 0
    """By how much the line fell short of its rate while frames waited for the thread [ns of the line]."""
    unread_frames: Count = 0
    """Frames that left the interface, as it counts, and were lost before they came in."""
    lost_copies_frames: Count = 0
    """Of the lost frames, those that were copies: their originals went on."""
    passed_bytes: Count = 0
    """Bytes of the frames that the stages did not lose, with checksums; 0 from older agents."""
    stages: tuple[StageLoss, ...] = ()
    """What each kind of stage lost."""

    def since(self, before: "WayCounts") -> "WayCounts":
        """Return what was counted since an earlier reading; frames on their way, and the longest time, are as now."""
        earlier = {stage.kind: stage.lost_frames for stage in before.stages}
        stages = tuple(
            replace(stage, lost_frames=stage.lost_frames - earlier.get(stage.kind, 0))
            for stage in self.stages
        )
        same = ("stages", "held_frames", "latest_ns")
        counts = {
            one.name: getattr(self, one.name) - getattr(before, one.name)
            for one in fields(self)
            if one.name not in same
        }
        return replace(self, stages=stages, **counts)


@frozen(kw_only=True)
class WireCarried:
    """What carries the frames of a wire, and what it has not that it was to have."""

    path: str = ""
    """What frames come from and go to, in words."""
    no_veth: str | None = None
    """Why its ends are taps although veth pairs were asked for."""
    unstamped: str | None = None
    """Why the kernel does not stamp frames as they come."""
    unprioritised: str | None = None
    """Why its thread has no real-time priority although it was to have one."""
    not_apart: str | None = None
    """Why the CPU of its thread handles the frames that it gives although others were to."""


@frozen(kw_only=True)
class WireCounts:
    """What became of all frames of a wire."""

    ways: tuple[WayCounts, ...]
    """From the first end to the second, and back."""
    carried: WireCarried = WireCarried()
    """What carries them."""
    does_since_ns: Count = 0
    """When what it does to frames, and its traces, began [ns, monotonic]; 0 from older agents."""
    end_ns: Count = 0
    """When they were counted [ns, monotonic]."""


@frozen
class InterfaceCounters:
    """Counters of one interface."""

    name: str
    """Interface."""
    rx_bytes: Count
    """Received [bytes]."""
    rx_packets: Count
    """Received [packets]."""
    rx_errors: Count
    """Receive errors."""
    rx_dropped: Count
    """Dropped on reception."""
    tx_bytes: Count
    """Sent [bytes]."""
    tx_packets: Count
    """Sent [packets]."""
    tx_errors: Count
    """Send errors."""
    tx_dropped: Count
    """Dropped on sending."""
    carrier_changes: Count | None = None
    """How often its carrier came or went; None: the kernel does not count it."""


@frozen
class QdiscCounters:
    """Counters of one queueing discipline."""

    interface: str
    """Its interface."""
    handle: str
    """Its handle; of nested ones each has its own."""
    parent: str
    """root, or its parent's handle."""
    drops: Count
    """Frames it dropped."""
    kind: str = ""
    """tbf, htb, ingress and the like."""
    packets: Count = 0
    """Packets that left it."""
    bytes: Count = 0
    """The same [bytes]."""
    overlimits: Count = 0
    """Times that a packet had to wait for its rate."""
    backlog_bytes: Count = 0
    """Waiting now [bytes]."""
    qlen: Count = 0
    """Waiting now [packets]."""


@frozen
class DropCounters:
    """What one place dropped since it was made."""

    place: str
    """interface, driver, protocol, or reason (of the whole kernel)."""
    name: str
    """Which one."""
    counters: dict[str, int]
    """The kernel's names and values."""


@frozen(kw_only=True)
class SocketCounters:
    """One established TCP connection; 0 is what the kernel does not tell."""

    local_port: Count
    """Port of this end."""
    remote_port: Count
    """Port of the other end."""
    congestion: str = ""
    """What controls its congestion, such as cubic."""
    rtt_ns: Count = 0
    """Smoothed round-trip time [ns]."""
    least_rtt_ns: Count = 0
    """The least one seen [ns]."""
    window_bytes: Count = 0
    """Congestion window [bytes]."""
    in_flight_bytes: Count = 0
    """Sent and neither acknowledged nor taken for lost, in full segments [bytes]."""
    busy_ns: Count = 0
    """Time in which it had something to send [ns]."""
    receiver_limited_ns: Count = 0
    """Of that, the time in which the receiver's window kept it from sending [ns]."""
    buffer_limited_ns: Count = 0
    """Of that, the time in which its own send buffer was too small [ns]."""
    sent_bytes: Count = 0
    """Sent, what was sent again included [bytes]."""
    resent_bytes: Count = 0
    """Sent again [bytes]."""
    receiver_window_bytes: Count = 0
    """The window that the receiver announced last [bytes]."""
    receive_buffer_bytes: Count = 0
    """Bound of the receive buffer [bytes]."""
    send_buffer_bytes: Count = 0
    """Bound of the send buffer [bytes]."""
    dropped: Count = 0
    """Segments that the socket dropped on receipt."""
