"""Warnings to the reader of a trial's result. Types only."""

from typing import ClassVar, Literal

from iolab.messages.disks import CacheLayer
from iolab.messages.evidence import Evidence
from iolab.messages.host_issues import HostIssue
from iolab.messages.instrument import PathReason, Sharing
from iolab.messages.places import Computer
from iolab.messages.searches import SearchEnd
from iolab.messages.statement import Name, Quoted, Statement
from iolab.messages.statement import TrialWarning as TrialWarning  # noqa: PLC0414  # its kinds are below


class Emulated(TrialWarning):
    """Machines ran under emulation: the figures are not valid as performance results."""

    machines: tuple[Name, ...]


class AcceleratorUnknown(TrialWarning):
    """A guest was emulated because the test boot with KVM timed out; KVM may work."""

    machine: Name
    said: Quoted


class CongestionDiffers(TrialWarning):
    """The kernel reports that a congestion control algorithm other than the requested one was used."""

    comparable: ClassVar[bool] = False
    machine: Name
    asked: Name
    seen: Name


class Polling(TrialWarning):
    """A user-space switch keeps one CPU busy for each of its NICs, even without frames."""

    cards: tuple[Name, ...]


class CpuShared(TrialWarning):
    """Parts of the trial shared a CPU."""

    shared: tuple[Sharing, ...]


class SlowPort(Statement):
    """A port that does not use the fastest path."""

    port: Name
    path: Name
    reasons: tuple[PathReason, ...]


class SlowerPath(TrialWarning):
    """Ports that do not use the fastest path."""

    ports: tuple[SlowPort, ...]


class UnexplainedFrames(TrialWarning):
    """No counter accounts for some frames."""

    frames: int
    open_trials: int
    trials: int


class HostPerturbed(TrialWarning):
    """Load trials lost frames while the host was disturbed."""

    disturbed_trials: int
    trials: int
    last: tuple[Evidence, ...]
    """Disturbances in the last of these trials."""


class SenderAtItsLimit(Evidence):
    """The sender reached its maximum rate."""


class LoadShort(TrialWarning):
    """Loads were below the intended load."""

    short_loads: int
    loads: int
    offered_fps: float
    intended_fps: float
    causes: tuple[Evidence, ...]


class LatencyDisturbed(TrialWarning):
    """Threads of the instrument stalled, so high latency percentiles may come from the instrument."""

    held_ns: int
    duration_ns: int
    held_loads: int
    loads: int


class SenderKeptCpu(TrialWarning):
    """Programs outside the trial may have waited for the CPU of a busy-polling sender."""

    port: Name
    """Port of the sender."""
    cpu: int
    busy_ratio: float
    """Ratio of the CPU's time that the sender used."""
    others_ratio: float
    p99_ns: int
    """Highest p99 latency of all loads."""
    kept_loads: int
    loads: int


class DamagedFrames(TrialWarning):
    """Frames arrived corrupted."""

    frames: int


class OtherTraffic(TrialWarning):
    """Frames of other traffic used the path."""

    foreign_frames: int
    offered_frames: int


class Unstamped(TrialWarning):
    """Frames had no room for a stamp: they were counted on arrival, but their latency, order and flow are unknown."""

    unstamped_frames: int
    offered_frames: int


class FramesLeftOut(TrialWarning):
    """Frames of a recording were not sent, because they are non-IP, or ARP/ND."""

    left_out_frames: int
    recorded_frames: int


class TimesWentBack(TrialWarning):
    """Timestamps of a recording decrease: such frames were sent at the time of the frame before them."""

    back_frames: int
    recorded_frames: int


class RecordingEnded(TrialWarning):
    """A recording ended before the trial."""

    sent_frames: int
    loops: int


class PassedShaper(Statement):
    """A shaper, with its place."""

    code = "shaper"
    shaper: Name
    place: Name


class ShapeBypassed(TrialWarning):
    """Frames bypassed shapers of the lab."""

    shapers: tuple[PassedShaper, ...]


class More(Statement, kind=True):
    """A way to send at a higher rate."""


class MoreSenders(More):
    """More sender threads."""


class MoreByLiveFrames(More):
    """BPF live frames in bursts."""

    live_fps: float
    now_fps: float


class GeneratorLimited(TrialWarning):
    """The sender limited a search, so the rate is a lower bound."""

    ended: SearchEnd
    more: More


class SearchCutShort(TrialWarning):
    """A search stopped before it determined its rate."""

    code: Literal[
        "line-limited",  # The line limited the search, so the rate is a lower bound
        "nothing-passed",  # Even the lowest load exceeded the loss goal
        "search-partial",  # The search is incomplete: the bounds are the current ones
        # The search for a load curve's rate is incomplete: 100 % is the highest forwarding rate at any loss
        "curve-partial",
    ]
    ended: SearchEnd


class StepsAboveLine(TrialWarning):
    """Steps of a load curve exceed the line rate, and were run at the line rate."""

    steps: int
    from_ratio: float


class SearchDisturbed(TrialWarning):
    """Loads were measured only while the host was disturbed, even in reruns."""

    loads: int


class QueueTookUp(TrialWarning):
    """The rate exceeds the sustained rate of the device, because a queue absorbed the burst."""

    sustained_fps: float
    burst_frames: int


class DeviceChanged(TrialWarning):
    """The device forwarded the same load differently at the start and at the end of a search."""

    load_fps: float
    earlier_ratio: float
    """Ratio of the load that was forwarded at first (mean of trials)."""
    later_ratio: float
    """Ratio of the load that was forwarded at the end."""


class QueuesUneven(TrialWarning):
    """Some receive queues of a NIC received less than their share of the frames."""

    card: Name
    queues: int
    even_queues: int
    busiest_queue: int
    busiest_ratio: float


class ReadingsDropped(TrialWarning):
    """A kernel's agent kept only the newest readings of the trial, or of its TCP connections."""

    code: Literal["readings-dropped", "connections-dropped"]
    host: Computer
    dropped: int
    kept: int


class SenderShort(TrialWarning):
    """A sender did not reach the intended rate."""

    machine: Name
    sent_bps: float
    intended_bps: float


class CountersMissing(TrialWarning):
    """The counters of a port could not be read."""

    place: Name


class Disagreement(Statement):
    """A possible reason why an interface and a program count differently."""

    code: Literal[
        "segments-twice",  # TCP: segments were retransmitted, or remained unread in the socket at the end
        "datagrams-unread",  # UDP: datagrams were lost in the receiver's socket
        "another-path",  # The program read more than the interface counted
    ]


class CountersDisagree(TrialWarning):
    """An interface counted over 1 % more or less than its flows delivered."""

    place: Name
    counted_bytes: int
    delivered_bytes: int
    difference_ratio: float
    cause: Disagreement


class HostUnready(TrialWarning):
    """A host of the lab is not ready for measurements."""

    host: Computer
    concerns: tuple[HostIssue, ...]


class DiskUnsteady(TrialWarning):
    """A disk did not reach a steady state within the maximum number of rounds."""

    comparable = False
    rounds: int
    spread_ratio: float
    """Range of the last five rounds, as a ratio of their mean."""
    slope_ratio: float
    """Slope of a line fitted to these rounds, as a ratio of their mean."""


class DiskLoadShort(TrialWarning):
    """Fewer I/O requests were issued than intended."""

    offered_per_s: int
    reached_per_s: int


class CacheUnknown(TrialWarning):
    """Caches in the I/O path of a disk trial could not be verified to be as declared."""

    comparable = False
    layers: tuple[CacheLayer, ...]
