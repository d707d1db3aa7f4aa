"""What is said of a stream: what limited it, and what disturbed it. Types only."""

from iolab.statements.clauses import Clause
from iolab.statements.computers import Computer
from iolab.statements.doubts import Doubt
from iolab.statements.drop_reasons import DropReason
from iolab.statements.places import Place
from iolab.statements.statement import Name, Statement
from iolab.statements.warnings import Warning


class OfFlow(Clause):
    """What was seen of one of several flows."""

    flow: Name
    clauses: tuple[Clause, ...]


class ProgramWasStopped(Clause):
    """A program at an end was stopped for a while."""

    machine: Name
    stopped_ns: int


class CarrierLost(Clause):
    """The carrier of a port went and came, and nothing arrived for a while."""

    place: Name
    changes: int
    stood_ns: int


class RateReached(Clause):
    """The intended rate arrived."""

    received_bps: float
    intended_bps: float


class ShaperLetThrough(Clause):
    """A shaper passed so much, and held packets back."""

    shaper: Name
    place: Name
    passed_bps: float
    held_back: int
    dropped_packets: int


class ShaperRate(Clause):
    """The rate of the shaper."""

    rate_bps: float


class LineFull(Clause):
    """A link of known rate was full."""

    place: Name
    passed_bps: float
    line_bps: float


class ShaperBurst(Clause):
    """Before its rate a shaper let a burst through faster."""

    burst_bps: float
    until_ns: int


class OnWayBack(Clause):
    """The place is on the path of the acknowledgements."""

    place: Name


class TraceCapacity(Clause):
    """What a line that follows a trace could carry while the stream ran, and what it carried."""

    place: Name
    used_bytes: int
    capacity_bytes: int


class StandingQueue(Clause):
    """Packets waited in a queue all the time: the round-trip time was that much above its minimum."""

    rtt_ns: int
    least_rtt_ns: int


class WireLost(Clause):
    """Which share of its frames an emulated path lost."""

    link: Name
    lost_frames: int
    offered_frames: int


class DatagramsInFragments(Clause):
    """Datagrams larger than the MTU: one lost fragment loses the whole datagram."""

    fragments: int
    """Packets of each datagram."""
    incomplete: int
    """Datagrams of which a fragment was missing."""


class DatagramsDropped(Clause):
    """Lost datagrams were dropped at one place."""

    dropped: int
    lost: int
    place: Place
    reason: DropReason


class SegmentsDropped(Clause):
    """Packets were dropped at one place, and TCP sent segments again."""

    dropped: int
    retransmits: int
    place: Place
    reason: DropReason


class ProgramRan(Clause):
    """How much of the time the busiest thread of a program ran, and waited for a CPU."""

    machine: Name
    busy_ratio: float
    wait_ratio: float


class SameCpu(Clause):
    """Two programs were on the same CPU most of the time."""

    machine: Name
    other: Name


class StrangersRan(Clause):
    """Programs that are not of the trial had so many CPUs."""

    cpus: float


class WorkerRan(Clause):
    """How much of the time a thread of the kernel, or of a hypervisor, ran."""

    thread: Name
    busy_ratio: float


class ReceiverWindow(Clause):
    """The receiver's window kept the sender back."""

    window_bytes: int
    rtt_ns: int
    limited_ratio: float


class SendBuffer(Clause):
    """The send buffer was too small for what congestion and receiver allowed."""

    buffer_bytes: int
    window_bytes: int
    rtt_ns: int


class DatagramsLost(Clause):
    """Datagrams were lost; no counter tells where."""

    lost: int
    sent: int


class SegmentsLost(Clause):
    """Segments were sent again; no counter tells where they were lost."""

    retransmits: int


class CongestionWindow(Clause):
    """The congestion window, and what it lets through."""

    window_bytes: int
    congestion: Name
    """What controls congestion, such as cubic."""
    rtt_ns: int
    most_bps: float


class AllCpusBusy(Clause):
    """Every CPU of a computer was busy."""

    host: Computer
    cpus: int
    busy_ratio: float


class NothingFound(Clause):
    """No figure says why so much arrived, and no more."""

    received_bps: float


# Doubts -----------------------------------------------------------------------------------------------------


class Limited(Statement):
    """A limit of a flow, at no place in particular."""

    limit: Name


class LimitedAt(Limited):
    """A limit of a flow, and where."""

    place: Place


class OtherFlows(Doubt):
    """Other flows of the trial were limited by something else."""

    limits: tuple[Limited, ...]


class NearlyBusy(Doubt):
    """A thread ran or waited for nearly all of the time, and no more."""

    ready_ratio: float


class WindowOfSecond(Doubt):
    """The window is read once a second, and may still have grown."""


class NoSingleThread(Doubt):
    """No single thread had all of its time."""


# Disturbances -----------------------------------------------------------------------------------------------


class ProgramStopped(Warning):
    """A program at an end was stopped for a while."""

    machine: Name
    stopped_ns: int


class CarrierChange(Statement):
    """How often the carrier of a port came or went."""

    place: Name
    changes: int


class LinkWentDown(Warning):
    """The carrier changed at ports on the way."""

    ports: tuple[CarrierChange, ...]
    stood_ns: int


class ProgramsShareCpu(Warning):
    """The programs of both ends are kept on one CPU."""

    machine: Name
    other: Name
    cpu: int
    wait_ratio: float
    other_wait_ratio: float


class CpuTaken(Warning):
    """A program waited for a CPU that programs had which are not of the trial."""

    machine: Name
    wait_ratio: float
    cpus: float


class CpuWithheld(Warning):
    """A hypervisor withheld a CPU."""

    host: Computer
    cpu: int
    steal_ratio: float


class KernelStoodStill(Warning):
    """The counters of a computer could not be read for a while."""

    host: Computer
    gap_ns: int


class ShapeNotHeld(Warning):
    """More payload went by a shaped port than its rate lets through."""

    place: Name
    passed_bps: float
    rate_bps: float


class ForeignTraffic(Warning):
    """Other traffic went by a port."""

    place: Name
    foreign_bps: float


class LevelChanged(Warning):
    """The rate of a flow went from one level to another: the mean is of neither."""

    flow: Name
    before_bps: float
    after_bps: float
    at_ns: int
    """Since the time that counts began."""
    mean_bps: float


class StreamStoodStill(Warning):
    """Nothing arrived for a while, and no counter says why."""

    flow: Name
    stood_ns: int
