"""An undisturbed stream, modified by tests."""

from dataclasses import replace
from typing import Any

from iolab.trial.streams.evidence import Connections, FlowSeen, Program, StreamSeen

NEAR = Program("near", "", 0.6, 0.01, cpus=(0,) * 20)
FAR = Program("far", "", 0.5, 0.01, cpus=(1,) * 20)
TCP = Connections(
    busy_ns=10**9, receiver_limited_ns=0, buffer_limited_ns=0, window_bytes=10**6, receiver_window_bytes=3 * 10**6,
    send_buffer_bytes=4 * 10**6, receive_buffer_bytes=6 * 10**6, sent_bytes=10**9, resent_bytes=0, rtt_ns=100_000,
    congestion="cubic",
)  # fmt: skip


def flow(**changes: Any) -> FlowSeen:
    """Return a TCP flow of 1 s at 10 Gbit/s with changes."""
    usual: dict[str, Any] = {
        "name": "near->far", "protocol": "tcp", "source": "near", "target": "far", "duration_ns": 10**9,
        "sent_bps": 10e9, "received_bps": 10e9, "intended_bps": None, "sender": NEAR, "receiver": FAR, "tcp": TCP,
    }  # fmt: skip
    return FlowSeen(**{**usual, **changes})


def datagrams(**changes: Any) -> FlowSeen:
    """Return a UDP flow that reached 100 Mbit/s with changes."""
    usual: dict[str, Any] = {
        "protocol": "udp", "tcp": None, "sent_bps": 100e6, "received_bps": 100e6, "intended_bps": 100e6,
        "datagrams": 10_000,
    }  # fmt: skip
    return flow(**{**usual, **changes})


def seen(*flows: FlowSeen, **changes: Any) -> StreamSeen:
    """Return a trial of these flows, or of one undisturbed flow, with changes."""
    return replace(StreamSeen(flows=flows or (flow(),)), **changes)
