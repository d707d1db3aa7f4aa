"""Settings that decide results, as a trial reads them back when it ends: their names, and which are of what."""

from enum import StrEnum


class Effect(StrEnum):
    """What is set at a place."""

    CONGESTION = "congestion"
    """What controls TCP's congestion: of a flow by its socket, of a machine what new connections get."""
    SEND_BUFFER = "send_buffer_bytes"
    """Of a flow for whose sockets a size was asked for: the largest bound that they have [bytes]."""
    RECEIVE_BUFFER = "receive_buffer_bytes"
    """The same of the receive buffers [bytes]."""
    TCP_RMEM = "tcp_rmem"
    """Bounds of TCP's receive buffers: minimum, default, maximum [bytes]."""
    TCP_WMEM = "tcp_wmem"
    """Bounds of TCP's send buffers: minimum, default, maximum [bytes]."""
    TCP_ECN = "tcp_ecn"
    """Explicit congestion notification."""
    TCP_SACK = "tcp_sack"
    """Selective acknowledgements."""
    RMEM_DEFAULT = "rmem_default"
    """Receive buffer of other sockets [bytes]."""
    WMEM_DEFAULT = "wmem_default"
    """Send buffer of other sockets [bytes]."""
    RMEM_MAX = "rmem_max"
    """Largest receive buffer that a program may ask for [bytes]."""
    WMEM_MAX = "wmem_max"
    """Largest send buffer that a program may ask for [bytes]."""
    MTU = "mtu"
    """Of a port [bytes]."""
    OFFLOADS = "offloads"
    """Of a port: those that are on, as `ethtool -K` names them."""
    QDISC = "qdisc"
    """Of a port: its root queueing discipline; of several queues each kind once."""
    RINGS = "rings"
    """Of a port: frames of its receive and its transmit ring."""
    GOVERNOR = "governor"
    """Of a computer: what chooses the frequency of its processors."""
    PROGRAM_USER = "program_user"
    """Of a confined program: the user that it runs as; 0 is the root of its user namespace, without capabilities."""
    LANDLOCK = "landlock_abi"
    """Of a confined program: the version of Landlock's interface that limits which files it opens; or none."""
    SECCOMP = "seccomp"
    """Of a confined program: whether a filter limits its system calls."""


STACK = {
    "net.ipv4.tcp_congestion_control": Effect.CONGESTION,
    "net.ipv4.tcp_rmem": Effect.TCP_RMEM,
    "net.ipv4.tcp_wmem": Effect.TCP_WMEM,
    "net.ipv4.tcp_ecn": Effect.TCP_ECN,
    "net.ipv4.tcp_sack": Effect.TCP_SACK,
    "net.core.rmem_default": Effect.RMEM_DEFAULT,
    "net.core.wmem_default": Effect.WMEM_DEFAULT,
    "net.core.rmem_max": Effect.RMEM_MAX,
    "net.core.wmem_max": Effect.WMEM_MAX,
}
"""Settings of a namespace's stack by their sysctl names."""
