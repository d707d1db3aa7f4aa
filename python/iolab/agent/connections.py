"""What an agent tells of TCP's connections, decoded once at the edge."""

from iolab.agent.decoding import Count
from iolab.frozen import frozen


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
