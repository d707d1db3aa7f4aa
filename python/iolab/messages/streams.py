"""What is said of a stream: what limited it, and what disturbed it. Types only."""

from iolab.messages.caveats import Caveat
from iolab.messages.drop_reasons import DropReason
from iolab.messages.evidence import Evidence
from iolab.messages.places import Computer, Place
from iolab.messages.statement import Name, Statement
from iolab.messages.warnings import TrialWarning


class OfFlow(Evidence):
    """What was seen of one of several flows."""

    flow: Name
    clauses: tuple[Evidence, ...]


class ProgramWasStopped(Evidence):
    """A program at an end was stopped for a while."""

    machine: Name
    stopped_ns: int


class CarrierLost(Evidence):
    """The carrier of a port went and came, and nothing arrived for a while."""

    place: Name
    changes: int
    stood_ns: int


class RateReached(Evidence):
    """The intended rate arrived."""

    received_bps: float
    intended_bps: float


class ShaperLetThrough(Evidence):
    """A shaper passed so much, and held packets back."""

    shaper: Name
    place: Name
    passed_bps: float
    held_back: int
    dropped_packets: int


class ShaperRate(Evidence):
    """The rate of the shaper."""

    rate_bps: float


class LineFull(Evidence):
    """A link of known rate was full."""

    place: Name
    passed_bps: float
    line_bps: float


class ShaperBurst(Evidence):
    """Before its rate a shaper let a burst through faster."""

    burst_bps: float
    until_ns: int


class TraceCapacity(Evidence):
    """What a line that follows a trace could carry while the stream ran, and what it carried."""

    place: Name
    used_bytes: int
    capacity_bytes: int


class StandingQueue(Evidence):
    """Packets waited in a queue all the time: the round-trip time was that much above its minimum."""

    rtt_ns: int
    least_rtt_ns: int


class WireLost(Evidence):
    """Which share of its frames an emulated path lost."""

    link: Name
    lost_frames: int
    offered_frames: int


class DatagramsInFragments(Evidence):
    """Datagrams larger than the MTU: one lost fragment loses the whole datagram."""

    fragments: int
    """Packets of each datagram."""
    incomplete: int
    """Datagrams of which a fragment was missing."""


class DatagramsDropped(Evidence):
    """Lost datagrams were dropped at one place."""

    dropped: int
    lost: int
    place: Place
    reason: DropReason


class SegmentsDropped(Evidence):
    """Packets were dropped at one place, and TCP sent segments again."""

    dropped: int
    retransmits: int
    place: Place
    reason: DropReason


class ProgramRan(Evidence):
    """How much of the time the busiest thread of a program ran, and waited for a CPU."""

    machine: Name
    busy_ratio: float
    wait_ratio: float


class SameCpu(Evidence):
    """Two programs were on the same CPU most of the time."""

    machine: Name
    other: Name


class StrangersRan(Evidence):
    """Programs that are not of the trial had so many CPUs."""

    cpus: float


class WorkerRan(Evidence):
    """How much of the time a thread of the kernel, or of a hypervisor, ran."""

    thread: Name
    busy_ratio: float


class ReceiverWindow(Evidence):
    """The receiver's window kept the sender back."""

    window_bytes: int
    rtt_ns: int
    limited_ratio: float


class SendBuffer(Evidence):
    """The send buffer was too small for what congestion and receiver allowed."""

    buffer_bytes: int
    window_bytes: int
    rtt_ns: int


class DatagramsLost(Evidence):
    """Datagrams were lost; no counter tells where."""

    lost: int
    sent: int


class SegmentsLost(Evidence):
    """Segments were sent again; no counter tells where they were lost."""

    retransmits: int


class CongestionWindow(Evidence):
    """The congestion window, and what it lets through."""

    window_bytes: int
    congestion: Name
    """What controls congestion, such as cubic."""
    rtt_ns: int
    most_bps: float


class AllCpusBusy(Evidence):
    """Every CPU of a computer was busy."""

    host: Computer
    cpus: int
    busy_ratio: float


class NothingFound(Evidence):
    """No figure says why so much arrived, and no more."""

    received_bps: float


# Doubts -----------------------------------------------------------------------------------------------------


class Limited(Statement):
    """A limit of a flow, at no place in particular."""

    limit: Name


class LimitedAt(Limited):
    """A limit of a flow, and where."""

    place: Place


class OtherFlows(Caveat):
    """Other flows of the trial were limited by something else."""

    limits: tuple[Limited, ...]


class NearlyBusy(Caveat):
    """A thread ran or waited for nearly all of the time, and no more."""

    ready_ratio: float


# Disturbances -----------------------------------------------------------------------------------------------


class ProgramStopped(TrialWarning):
    """A program at an end was stopped for a while."""

    machine: Name
    stopped_ns: int


class CarrierChange(Statement):
    """How often the carrier of a port came or went."""

    place: Name
    changes: int


class LinkWentDown(TrialWarning):
    """The carrier changed at ports on the way."""

    ports: tuple[CarrierChange, ...]
    stood_ns: int


class ProgramsShareCpu(TrialWarning):
    """The programs of both ends are kept on one CPU."""

    machine: Name
    other: Name
    cpu: int
    wait_ratio: float
    other_wait_ratio: float


class CpuTaken(TrialWarning):
    """A program waited for a CPU that programs had which are not of the trial."""

    machine: Name
    wait_ratio: float
    cpus: float


class CpuWithheld(TrialWarning):
    """A hypervisor withheld a CPU."""

    host: Computer
    cpu: int
    steal_ratio: float


class KernelStoodStill(TrialWarning):
    """The counters of a computer could not be read for a while."""

    host: Computer
    gap_ns: int


class ShapeNotHeld(TrialWarning):
    """More payload went by a shaped port than its rate lets through."""

    place: Name
    passed_bps: float
    rate_bps: float


class ForeignTraffic(TrialWarning):
    """Other traffic went by a port."""

    place: Name
    foreign_bps: float


class LevelChanged(TrialWarning):
    """The rate of a flow went from one level to another: the mean is of neither."""

    flow: Name
    before_bps: float
    after_bps: float
    at_ns: int
    """Since the time that counts began."""
    mean_bps: float


class StreamStoodStill(TrialWarning):
    """Nothing arrived for a while, and no counter says why."""

    flow: Name
    stood_ns: int
