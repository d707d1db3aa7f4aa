"""What the kernel counts of a port and of a connection, as the agent sends it."""

from iolab.agent.decoding import Count
from iolab.frozen import frozen


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
