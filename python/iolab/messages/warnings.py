"""What the reader of a trial's result must know. Types only."""

from typing import ClassVar, Literal

from iolab.messages.disks import CacheLayer
from iolab.messages.evidence import Evidence
from iolab.messages.host_issues import HostIssue
from iolab.messages.instrument import PathReason, Sharing
from iolab.messages.places import Computer
from iolab.messages.searches import SearchEnd
from iolab.messages.statement import Name, Quoted, Statement
from iolab.messages.statement import TrialWarning as TrialWarning  # noqa: PLC0414  # its kinds are below


class LinkMtu(Statement):
    """The MTU of a link."""

    link: Name
    mtu_bytes: int


class SegmentMtusDiffer(TrialWarning):
    """Links that bridges join to one segment have different MTUs: a bridge drops what is too long for its next port."""

    links: tuple[LinkMtu, ...]
    """In the order of the file."""


class Emulated(TrialWarning):
    """Machines ran under emulation: the figures are functional, not performance."""

    machines: tuple[Name, ...]


class AcceleratorUnknown(TrialWarning):
    """A guest was emulated though no boot showed that KVM does not work: the boot ran out of time."""

    machine: Name
    said: Quoted


class CongestionDiffers(TrialWarning):
    """Another congestion control than the one asked for did the work, as the kernel told it."""

    comparable: ClassVar[bool] = False
    machine: Name
    asked: Name
    seen: Name


class Polling(TrialWarning):
    """A CPU is busy for each card that a switch in user space carries, though no frames come."""

    cards: tuple[Name, ...]


class CpuShared(TrialWarning):
    """Parts of the trial shared a CPU."""

    shared: tuple[Sharing, ...]


class SlowPort(Statement):
    """A port that is not reached by the fastest path."""

    port: Name
    path: Name
    reasons: tuple[PathReason, ...]


class SlowerPath(TrialWarning):
    """Ports are not reached by the fastest path."""

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
    """What was seen in the last of them."""


class SenderAtItsLimit(Evidence):
    """The sender could not send more."""


class LoadShort(TrialWarning):
    """Loads were not offered as asked for."""

    short_loads: int
    loads: int
    offered_fps: float
    intended_fps: float
    causes: tuple[Evidence, ...]


class LatencyDisturbed(TrialWarning):
    """Threads of the instrument were held up: high percentiles of latency may be the instrument's."""

    held_ns: int
    duration_ns: int
    held_loads: int
    loads: int


class SenderKeptCpu(TrialWarning):
    """Programs that are not of the trial may have waited for the CPU of a sender that waits awake."""

    port: Name
    """Of the sender."""
    cpu: int
    busy_ratio: float
    """What the sender had of it."""
    others_ratio: float
    p99_ns: int
    """Of latency, in the load where it is highest."""
    kept_loads: int
    loads: int


class DamagedFrames(TrialWarning):
    """Frames arrived with other contents than they were sent with."""

    frames: int


class OtherTraffic(TrialWarning):
    """Frames of other traffic came along the way."""

    foreign_frames: int
    offered_frames: int


class Unstamped(TrialWarning):
    """Frames had no room for the stamp: they were counted where they arrived, and no more is known of them."""

    unstamped_frames: int
    offered_frames: int


class FramesLeftOut(TrialWarning):
    """Frames of a recording were not sent: they are no IP, or about neighbours."""

    left_out_frames: int
    recorded_frames: int


class TimesWentBack(TrialWarning):
    """Times of a recording went back: such frames were sent as if at the time of those before them."""

    back_frames: int
    recorded_frames: int


class RecordingEnded(TrialWarning):
    """A recording ended before the trial did."""

    sent_frames: int
    loops: int


class PassedShaper(Statement):
    """A shaper, and where it is."""

    code = "shaper"
    shaper: Name
    place: Name


class ShapeBypassed(TrialWarning):
    """Frames did not pass shapers of the lab."""

    shapers: tuple[PassedShaper, ...]


class More(Statement, kind=True):
    """What would send more."""


class MoreSenders(More):
    """More threads that send."""


class MoreByLiveFrames(More):
    """BPF live frames in bursts."""

    live_fps: float
    now_fps: float


class GeneratorLimited(TrialWarning):
    """The generator was the limit of a search: the rate is a lower bound."""

    ended: SearchEnd
    more: More


class SearchCutShort(TrialWarning):
    """A search ended before it had its rate."""

    code: Literal[
        "line-limited",  # The line was the limit of a search: the rate is a lower bound
        "nothing-passed",  # Even the lowest load lost too much
        "search-partial",  # The search was not finished: its bounds are what is known
        # The search for the rate of a load curve was not finished: 100 % is the highest rate forwarded with any loss:
        "curve-partial",
    ]
    ended: SearchEnd


class StepsAboveLine(TrialWarning):
    """Steps of a load curve are above the line, and were run at the line's rate."""

    steps: int
    from_ratio: float


class SearchDisturbed(TrialWarning):
    """Loads were only seen while the host was disturbed, in every re-run."""

    loads: int


class QueueTookUp(TrialWarning):
    """The rate is more than the device forwards without end: a queue took the rest up."""

    sustained_fps: float
    burst_frames: int


class DeviceChanged(TrialWarning):
    """The same load fared otherwise at the end of a search than at first."""

    load_fps: float
    earlier_ratio: float
    """Part of the load that was forwarded at first, the mean of trials."""
    later_ratio: float
    """In the end."""


class QueuesUneven(TrialWarning):
    """Some receive queues of a card took less than their share of the frames."""

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
    """Why an interface and a program may count differently."""

    code: Literal[
        "segments-twice",  # TCP: segments were sent twice, or lay unread in the socket at the end
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
    """A computer of the lab is not ready to be measured on."""

    host: Computer
    concerns: tuple[HostIssue, ...]


class DiskUnsteady(TrialWarning):
    """A disk that did not become steady within the rounds that it was given."""

    comparable = False
    rounds: int
    spread_ratio: float
    """Greatest less least of the last five rounds, of their mean."""
    slope_ratio: float
    """What the line through them rises or falls, of their mean."""


class DiskLoadShort(TrialWarning):
    """Fewer reads and writes were begun than were offered."""

    offered_per_s: int
    reached_per_s: int


class CacheUnknown(TrialWarning):
    """Caches on the way of a disk trial were not shown to be as declared."""

    comparable = False
    layers: tuple[CacheLayer, ...]
