"""Counters of interfaces, queueing disciplines and drops, as an agent reads them; decoded once at the edge."""

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
