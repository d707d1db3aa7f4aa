"""All load trials of one trial with generated frames, and their ports, placement and search.

A load trial consists of the observations that were made while frames were sent at one load. The frame accounting of a
direction is: offered = forwarded + drops + unexplained.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from iolab.messages.caveats import Caveat
from iolab.messages.drop_reasons import DropReason
from iolab.messages.instrument import PathFallback, PathReason, Sharing
from iolab.messages.places import Place
from iolab.messages.statement import Name
from iolab.results.search import Found, Goal, LoadResult
from iolab.results.verdict import CpuUse, Thread, Verdict
from iolab.units import NS_PER_S


@dataclass(frozen=True, slots=True)
class Drop:
    """Frames lost at one place for one reason."""

    place: Place
    """The place of the loss."""
    reason: DropReason
    """Reason of the loss."""
    frames: int
    """Number of lost frames."""
    cause: Name = ""
    """The kernel's drop reason, if it reports one."""
    doubt: Caveat | None = None
    """Reason why the drop reason is uncertain; None: the drop reason is certain, or no drop reason is known."""


@dataclass(frozen=True, slots=True)
class Balance:
    """The frame accounting of one direction."""

    direction: Name
    """From->to."""
    offered_frames: int
    """Frames that left the sender."""
    forwarded_frames: int
    """Frames that arrived undamaged, without duplicates."""
    drops: tuple[Drop, ...]
    """Named losses, in the order of the path."""
    unexplained_frames: int
    """Lost frames that no drop counter accounts for; negative: there are more counted drops than missing frames."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary of a histogram, in its unit."""

    count: int
    """Number of values."""
    min: int
    """Minimum."""
    mean: float
    """Arithmetic mean."""
    p50: int
    """Median."""
    p99: int
    """99th percentile."""
    p999: int
    """99.9th percentile."""
    max: int
    """Maximum."""


@dataclass(frozen=True, slots=True)
class Shaper:
    """A queueing discipline with a rate, during one trial."""

    place: Name
    """The port with the discipline on egress."""
    kind: Name
    """Kind of the queueing discipline: tbf, htb and others."""
    offered_frames: int
    """Frames that were sent or forwarded to the shaper's interface, according to the interface counters."""
    passed_frames: int
    """Frames that the shaper passed."""
    passed_bytes: int
    """Bytes that the shaper passed, including Ethernet headers, excluding the FCS."""
    dropped_frames: int
    """Frames that the shaper dropped."""
    held_back: int
    """Number of times that the shaper delayed a frame to keep to its rate (overlimits)."""
    rates_bps: tuple[int, ...] = ()
    """Configured rates of the shaper and its classes [bit/s]; empty: the shaper is not part of the lab."""

    def rate_bps(self, duration_ns: int) -> int | None:
        """Return the configured rate closest to the passed rate [bit/s]; None: no rate is known."""
        passed_bps = self.passed_bps(duration_ns)
        return min(self.rates_bps, key=lambda rate: abs(rate - passed_bps), default=None)

    def passed_bps(self, duration_ns: int) -> float:
        """Return the passed rate in a given time [bit/s]."""
        return self.passed_bytes * 8 * NS_PER_S / max(1, duration_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRecord:
    """All data of one load trial."""

    purpose: Name
    """search, at-rate, curve or latency."""
    share_ratio: float | None
    """Load as a ratio of the rate that the search found; None for a trial of the search."""
    begin_ns: int
    """Time at which the first frame was due [ns, monotonic]."""
    result: LoadResult
    """Data for the search; sums over directions, but `intended_fps` is per direction."""
    directions: int
    """Number of directions in which frames were sent at the same time."""
    balances: tuple[Balance, ...]
    """Frame accounting of each direction."""
    verdict: Verdict
    """The limit of the load trial."""
    latency: Summary | None
    """Latency over all directions [ns]; None if no frame arrived."""
    disorder: tuple[int, int]
    """Reordered and duplicate frames."""
    density: tuple[tuple[int, int], ...]
    """Number of frames for each displacement [frames], over all directions: RFC 5236."""
    cpus: tuple[CpuUse, ...]
    """CPUs of the host."""
    threads: tuple[Thread, ...]
    """Threads of the instrument and of the system under test."""
    shapers: tuple[Shaper, ...] = ()
    """Shapers on the paths."""
    unstamped_frames: int = 0
    """Frames sent without a stamp (frame number and send time); the receiver only counted them."""
    foreign_frames: int | None = 0
    """Minimum number of frames of other traffic on the paths; None: an old record without this value."""
    drop_reasons: Mapping[Name, int] = field(default_factory=dict)
    """Packets that the whole kernel dropped during the trial, by drop reason; empty if the kernel does not report
    reasons."""

    @property
    def intended_fps(self) -> float:
        """Return the intended rate, as a sum over directions [frames/s]."""
        return self.result.intended_fps * self.directions

    @property
    def offered_fps(self) -> float:
        """Return the offered load, as a sum over directions [frames/s]."""
        return self.result.offered_frames * NS_PER_S / self.result.duration_ns

    @property
    def forwarded_fps(self) -> float:
        """Return the forwarding rate, as a sum over directions [frames/s]."""
        return self.result.forwarded_frames * NS_PER_S / self.result.duration_ns

    @property
    def unexplained_frames(self) -> int:
        """Return the sum of the absolute numbers of unexplained frames."""
        return sum(abs(balance.unexplained_frames) for balance in self.balances)


@dataclass(frozen=True, slots=True)
class Tried:
    """The result of testing one path, such as AF_XDP, on the trial's ports."""

    path: Name
    """af_xdp or bpf_live."""
    ceiling_fps: float
    """Maximum rate in one direction [frames/s]."""
    late_p90_ns: int | None = None
    """p90 of the send delay at the load at which the paths were compared [ns]; None: not tested."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The selected path, with the reasons."""

    path: Name
    """Name of the path, as in measures."""
    reasons: tuple[PathReason, ...]
    """Reasons with figures."""
    tried: tuple[Tried, ...] = ()
    """Test results of the compared paths."""


@dataclass(frozen=True, slots=True)
class FrameSize:
    """A frame size that was sent."""

    frame_bytes: int
    """Frame size including the checksum [bytes]."""
    weight: int
    """Number of frames of this size in each sequence of frames of all sizes."""


@dataclass(frozen=True, slots=True)
class PortUse:
    """The path between one half of a port and the port's interface."""

    port: Name
    """machine.port."""
    half: Name
    """send or receive."""
    path: Name
    """AF_XDP or AF_PACKET, with its mode."""
    fallbacks: tuple[PathFallback, ...]
    """Reasons why better paths were not used."""


@dataclass(frozen=True, slots=True)
class NapiThread:
    """A NAPI thread of a port."""

    name: Name
    """Name of the thread in the kernel."""
    pid: int
    """Process ID."""
    port: Name
    """machine.port."""
    cpu: int | None
    """CPU to which the thread is pinned; None: not pinned."""


@dataclass(frozen=True, slots=True)
class Placed:
    """The CPUs of the instrument and of the device."""

    generator_cpus: tuple[int, ...]
    """CPUs of the senders."""
    receiver_cpus: tuple[int, ...]
    """CPUs of the receivers."""
    threads: tuple[NapiThread, ...]
    """NAPI threads."""
    shared: tuple[Sharing, ...]
    """Parts that shared a CPU; empty: no parts shared a CPU."""


@dataclass(frozen=True, slots=True)
class SearchRecord:
    """A search for a rate, with its goal and its result; the steps of a search are load trials."""

    strategy: Name
    """fast, mlr or bisect."""
    goal: Goal
    """Goal of the search."""
    found: Found
    """Result of the search; indices refer to the load trials with the purpose `search`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketTrial:
    """All data of one trial with generated frames, other than its metrics."""

    directions: tuple[Name, ...]
    """From->to, both as machine.port."""
    sizes: tuple[FrameSize, ...]
    """Frame sizes."""
    placed: Placed
    """CPUs of the instrument's parts and of the device."""
    ports: tuple[PortUse, ...]
    """Sending and receiving halves of the ports, with their paths."""
    path_choice: Choice | None
    """Selected path, if the experiment file leaves the choice open; None: there was no choice."""
    search: SearchRecord | None
    """The search for the rate; None: no search was run."""
    rate_fps: float | None
    """The rate that the search found or that was given, as a sum over directions [frames/s]; None: the search found no
    rate."""
    load_trials: tuple[LoadRecord, ...]
    """Load trials, in execution order."""
