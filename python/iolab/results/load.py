"""One load trial: all that was seen while frames were sent at one load."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from iolab.messages.statement import Name
from iolab.results.balance import Balance
from iolab.results.search import LoadResult
from iolab.results.verdict import CpuUse, Thread, Verdict
from iolab.units import NS_PER_S


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
