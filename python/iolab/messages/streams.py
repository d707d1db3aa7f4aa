"""Statements about streams: their limits and their disturbances. Types only."""

from iolab.messages.caveats import Caveat
from iolab.messages.drop_reasons import DropReason
from iolab.messages.evidence import Evidence
from iolab.messages.places import Computer, Place
from iolab.messages.statement import Name, Statement
from iolab.messages.warnings import TrialWarning


class OfFlow(Evidence):
    """Observations on one of several flows."""

    flow: Name
    clauses: tuple[Evidence, ...]


class ProgramWasStopped(Evidence):
    """The program at one end was stopped for some time."""

    machine: Name
    stopped_ns: int


class CarrierLost(Evidence):
    """The carrier of a port changed, and nothing arrived for some time."""

    place: Name
    changes: int
    stood_ns: int


class RateReached(Evidence):
    """The intended rate arrived."""

    received_bps: float
    intended_bps: float


class ShaperLetThrough(Evidence):
    """A shaper passed this rate and delayed packets."""

    shaper: Name
    place: Name
    passed_bps: float
    held_back: int
    dropped_packets: int


class ShaperRate(Evidence):
    """The configured rate of the shaper."""

    rate_bps: float


class LineFull(Evidence):
    """A link of known rate was full."""

    place: Name
    passed_bps: float
    line_bps: float


class ShaperBurst(Evidence):
    """A shaper passed a burst above its rate at the start."""

    burst_bps: float
    until_ns: int


class TraceCapacity(Evidence):
    """Bytes that a line with a trace could carry during the stream, and bytes that it carried."""

    place: Name
    used_bytes: int
    capacity_bytes: int


class StandingQueue(Evidence):
    """Packets were queued all the time: the round-trip time exceeded its minimum by this much."""

    rtt_ns: int
    least_rtt_ns: int


class WireLost(Evidence):
    """Ratio of the frames that an emulated link lost."""

    link: Name
    lost_frames: int
    offered_frames: int


class DatagramsInFragments(Evidence):
    """Datagrams exceed the MTU: the loss of one fragment loses the datagram."""

    fragments: int
    """Number of fragments per datagram."""
    incomplete: int
    """Number of datagrams with a missing fragment."""


class DatagramsDropped(Evidence):
    """Lost datagrams were dropped at one place."""

    dropped: int
    lost: int
    place: Place
    reason: DropReason


class SegmentsDropped(Evidence):
    """Packets were dropped at one place, and TCP retransmitted segments."""

    dropped: int
    retransmits: int
    place: Place
    reason: DropReason


class ProgramRan(Evidence):
    """Ratios of the time in which the busiest thread of a program ran, and in which it waited for a CPU."""

    machine: Name
    busy_ratio: float
    wait_ratio: float


class SameCpu(Evidence):
    """Two programs ran on the same CPU most of the time."""

    machine: Name
    other: Name


class StrangersRan(Evidence):
    """Number of CPUs that programs outside the trial used."""

    cpus: float


class WorkerRan(Evidence):
    """Ratio of the time in which a thread of the kernel or of a hypervisor ran."""

    thread: Name
    busy_ratio: float


class ReceiverWindow(Evidence):
    """The receiver window limited the sender."""

    window_bytes: int
    rtt_ns: int
    limited_ratio: float


class SendBuffer(Evidence):
    """The send buffer was smaller than the windows of congestion control and receiver."""

    buffer_bytes: int
    window_bytes: int
    rtt_ns: int


class DatagramsLost(Evidence):
    """Datagrams were lost; no drop counter accounts for them."""

    lost: int
    sent: int


class SegmentsLost(Evidence):
    """Segments were retransmitted; no drop counter accounts for the loss."""

    retransmits: int


class CongestionWindow(Evidence):
    """The congestion window, and the rate that it allows."""

    window_bytes: int
    congestion: Name
    """Congestion control algorithm, such as cubic."""
    rtt_ns: int
    most_bps: float


class AllCpusBusy(Evidence):
    """All CPUs of a host were busy."""

    host: Computer
    cpus: int
    busy_ratio: float


class NothingFound(Evidence):
    """No figure explains the limit of the rate."""

    received_bps: float


# Caveats ----------------------------------------------------------------------------------------------------


class Limited(Statement):
    """A limit of a flow, without a place."""

    limit: Name


class LimitedAt(Limited):
    """A limit of a flow, with its place."""

    place: Place


class OtherFlows(Caveat):
    """Other flows of the trial had different limits."""

    limits: tuple[Limited, ...]


class NearlyBusy(Caveat):
    """A thread ran or waited for a CPU nearly all the time, but not all of it."""

    ready_ratio: float


# Disturbances -----------------------------------------------------------------------------------------------


class ProgramStopped(TrialWarning):
    """The program at one end was stopped for some time."""

    machine: Name
    stopped_ns: int


class CarrierChange(Statement):
    """Number of carrier changes of a port."""

    place: Name
    changes: int


class LinkWentDown(TrialWarning):
    """The carrier changed on ports of the path."""

    ports: tuple[CarrierChange, ...]
    stood_ns: int


class ProgramsShareCpu(TrialWarning):
    """The programs of both ends are pinned to the same CPU."""

    machine: Name
    other: Name
    cpu: int
    wait_ratio: float
    other_wait_ratio: float


class CpuTaken(TrialWarning):
    """A program waited for a CPU that programs outside the trial used."""

    machine: Name
    wait_ratio: float
    cpus: float


class CpuWithheld(TrialWarning):
    """CPU steal on a CPU."""

    host: Computer
    cpu: int
    steal_ratio: float


class KernelStoodStill(TrialWarning):
    """The counters of a host could not be read for some time."""

    host: Computer
    gap_ns: int


class ShapeNotHeld(TrialWarning):
    """More payload passed a shaped port than its rate allows."""

    place: Name
    passed_bps: float
    rate_bps: float


class ForeignTraffic(TrialWarning):
    """Other traffic passed a port."""

    place: Name
    foreign_bps: float


class LevelChanged(TrialWarning):
    """The rate of a flow changed from one level to another, so the mean describes neither level."""

    flow: Name
    before_bps: float
    after_bps: float
    at_ns: int
    """Time since the start of the counters."""
    mean_bps: float


class StreamStoodStill(TrialWarning):
    """Nothing arrived for some time, and no counter shows why."""

    flow: Name
    stood_ns: int
