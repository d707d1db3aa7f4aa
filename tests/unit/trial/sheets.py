"""Ports, directions, and sent and received counts, for tests of balance sheets and verdicts."""

from typing import Literal

from tests.unit.lab.packets.measures import measure
from tests.unit.trial.load_trials import lab

from iolab.agent.messages import (
    FlowSummary,
    Histogram,
    ReceiverReport,
    SenderReport,
    SocketCounts,
    Stall,
    ThreadUse,
)
from iolab.lab.packets.placement import ways
from iolab.lab.topology import make_topology
from iolab.trial.counters.differences import Port

NOTHING = Histogram(count=0, sum=0, min=None, max=None, above=0, buckets=())


(WAY,) = ways(lab(), make_topology(lab()), measure())


REFS = ("tester.p0", "dut.eth0", "dut.eth1", "tester.p1")


PORTS = {ref: Port(ref, f"iolab-{ref.split('.')[0]}", ref.split(".")[1]) for ref in REFS}


USE = ThreadUse(run_ns=1, wait_ns=0)


SENT = SenderReport(
    port="tester.p0", begin_ns=0, end_ns=10**9, intended_frames=1000, offered_frames=1000, refused_frames=0,
    dropped_by_us_frames=0, stalls=(), stall_count=0, thread=USE,
)  # fmt: skip


RECEIVED = ReceiverReport(
    port="tester.p1", of=0, drained=True, received_frames=1000, duplicate_frames=0, reordered_frames=0, late_frames=0,
    corrupted_frames=0, foreign_frames=0, latency_ns=NOTHING, flows=FlowSummary(0, 0, ()), stalls=(), thread=USE,
    socket=SocketCounts(dropped_frames=0, ring_full_frames=0, no_buffer_frames=0),
)  # fmt: skip


def stall(late_ns: int, cause: Literal["not_asked", "no_room"] = "not_asked") -> Stall:
    """Return a stall that shifted the schedule by its lateness."""
    return Stall(
        begin_ns=0, end_ns=late_ns, late_ns=late_ns, slipped_ns=late_ns, cause=cause, steal_ns=0, wait_ns=0
    )
