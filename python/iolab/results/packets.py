"""All load trials of one trial that sends frames, and the ports, places and search behind them.

A load trial is all that was seen while frames were sent at one load. The balance sheet of a direction is: offered =
forwarded + drops + unexplained.
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
    """Where."""
    reason: DropReason
    """Why."""
    frames: int
    """How many."""
    cause: Name = ""
    """The kernel's own name of the reason, where it tells one."""
    doubt: Caveat | None = None
    """Why that reason is not certain; None: it is, or there is none."""


@dataclass(frozen=True, slots=True)
class Balance:
    """One direction's balance."""

    direction: Name
    """From->to."""
    offered_frames: int
    """Frames that left the sender."""
    forwarded_frames: int
    """First copies that arrived whole."""
    drops: tuple[Drop, ...]
    """Named losses, in the order of the way."""
    unexplained_frames: int
    """What no counter tells of; below zero: counters tell of more than is missing."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A histogram in short; values in its unit."""

    count: int
    """Values."""
    min: int
    """Smallest."""
    mean: float
    """Arithmetic mean."""
    p50: int
    """Median."""
    p99: int
    """99 of 100 are at most this."""
    p999: int
    """999 of 1000 are at most this."""
    max: int
    """Largest."""


@dataclass(frozen=True, slots=True)
class Shaper:
    """A queueing discipline that limits a rate, over one trial."""

    place: Name
    """The port at whose egress it is."""
    kind: Name
    """tbf, htb and the like."""
    offered_frames: int
    """Frames that were sent or passed on to its interface, as far as the interface counts them."""
    passed_frames: int
    """Frames that left it."""
    passed_bytes: int
    """The same in bytes, with Ethernet's head and without the checksum."""
    dropped_frames: int
    """Frames that it dropped."""
    held_back: int
    """How many times a frame had to wait for its rate (overlimits)."""
    rates_bps: tuple[int, ...] = ()
    """Rates that the lab gave it and its classes [bit/s]; empty: it is not of the lab."""

    def rate_bps(self, duration_ns: int) -> int | None:
        """Return the one of its rates that is nearest to what it passed [bit/s]; None: none is known."""
        passed_bps = self.passed_bps(duration_ns)
        return min(self.rates_bps, key=lambda rate: abs(rate - passed_bps), default=None)

    def passed_bps(self, duration_ns: int) -> float:
        """Return what it passed in a time [bit/s]."""
        return self.passed_bytes * 8 * NS_PER_S / max(1, duration_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRecord:
    """Everything about one load trial."""

    purpose: Name
    """search, at-rate, curve or latency."""
    share_ratio: float | None
    """Of the found rate; None in a search."""
    begin_ns: int
    """When the first frame was due [ns, monotonic]."""
    result: LoadResult
    """What the search needs of it; sums over directions, but `intended_fps` is per direction."""
    directions: int
    """Directions sent at once."""
    balances: tuple[Balance, ...]
    """Per direction."""
    verdict: Verdict
    """What limited it."""
    latency: Summary | None
    """Over all directions [ns]; None where no frame arrived."""
    disorder: tuple[int, int]
    """Reordered and duplicate frames."""
    density: tuple[tuple[int, int], ...]
    """Displacement [frames], and the frames that had it, over all directions: RFC 5236."""
    cpus: tuple[CpuUse, ...]
    """Of the host."""
    threads: tuple[Thread, ...]
    """Of the instrument and of the system under test."""
    shapers: tuple[Shaper, ...] = ()
    """Shapers on the ways."""
    unstamped_frames: int = 0
    """Frames that were sent without a stamp: counted where they arrived, and no more."""
    foreign_frames: int | None = 0
    """Frames of other traffic that came along the ways, at least; None: an old record does not say."""
    drop_reasons: Mapping[Name, int] = field(default_factory=dict)
    """Packets that the whole kernel dropped meanwhile, by its name of the reason; empty where it does not tell."""

    @property
    def intended_fps(self) -> float:
        """Return the rate that was asked for, sum over directions [frames/s]."""
        return self.result.intended_fps * self.directions

    @property
    def offered_fps(self) -> float:
        """Return the sum over directions [frames/s]."""
        return self.result.offered_frames * NS_PER_S / self.result.duration_ns

    @property
    def forwarded_fps(self) -> float:
        """Return the sum over directions [frames/s]."""
        return self.result.forwarded_frames * NS_PER_S / self.result.duration_ns

    @property
    def unexplained_frames(self) -> int:
        """Return the frames that no counter accounts for, both signs counted."""
        return sum(abs(balance.unexplained_frames) for balance in self.balances)


@dataclass(frozen=True, slots=True)
class Tried:
    """What a path did on the ports at hand."""

    path: Name
    """af_xdp or bpf_live."""
    ceiling_fps: float
    """What left of more than it can send, in one direction [frames/s]."""
    late_p90_ns: int | None = None
    """How late 90 % of the frames were at most, at the load of the comparison [ns]; None: it was not tried."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The path that was taken, and why."""

    path: Name
    """As measures name it."""
    reasons: tuple[PathReason, ...]
    """With the figures."""
    tried: tuple[Tried, ...] = ()
    """What was compared."""


@dataclass(frozen=True, slots=True)
class FrameSize:
    """One size of the frames that were sent."""

    frame_bytes: int
    """With the checksum [bytes]."""
    weight: int
    """How many frames of this size there are in one round of all sizes."""


@dataclass(frozen=True, slots=True)
class PortUse:
    """How one half of a port reached its interface."""

    port: Name
    """machine.port."""
    half: Name
    """send or receive."""
    path: Name
    """AF_XDP or AF_PACKET, and how."""
    fallbacks: tuple[PathFallback, ...]
    """Why it is not the best path."""


@dataclass(frozen=True, slots=True)
class NapiThread:
    """A thread that takes frames in at a port."""

    name: Name
    """As the kernel calls it."""
    pid: int
    """Its number."""
    port: Name
    """machine.port."""
    cpu: int | None
    """The CPU it is kept on; None: any."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Where the parts of the instrument and of the device ran."""

    generator_cpus: tuple[int, ...]
    """CPUs of the senders."""
    receiver_cpus: tuple[int, ...]
    """CPUs of the receivers."""
    threads: tuple[NapiThread, ...]
    """Threads that take frames in."""
    shared: tuple[Sharing, ...]
    """Who shared a CPU; empty: nobody."""


@dataclass(frozen=True, slots=True)
class SearchRecord:
    """A search for a rate: what it was asked, and what it found. Its steps are the load trials."""

    strategy: Name
    """fast, mlr or bisect."""
    goal: Goal
    """What was looked for."""
    found: Found
    """What it found; places are those of the load trials whose purpose is `search`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketTrial:
    """Everything behind the metrics of one trial that sends frames."""

    directions: tuple[Name, ...]
    """From->to, both as machine.port."""
    sizes: tuple[FrameSize, ...]
    """Of the frames."""
    placed: Placed
    """Who ran where."""
    ports: tuple[PortUse, ...]
    """Halves of ports that sent or received."""
    path_choice: Choice | None
    """Which path was chosen where the file leaves it open; None: nothing was to be chosen."""
    search: SearchRecord | None
    """The search for the rate; None: there was none."""
    rate_fps: float | None
    """The rate that was found or given, sum over directions [frames/s]; None: none was found."""
    load_trials: tuple[LoadRecord, ...]
    """In the order they were run."""
