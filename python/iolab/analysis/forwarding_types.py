"""What is concluded about packet forwarding beyond estimates: what limited it, where frames went, curves, ratios."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from iolab.messages.caveats import Caveat
from iolab.messages.evidence import Evidence
from iolab.messages.instrument import PathReason, Sharing
from iolab.messages.places import Place
from iolab.results.metric import Quantity
from iolab.results.packets import Drop


class Bound(StrEnum):
    """What a figure is that was not measured exactly."""

    LEAST = "least"
    """The truth is at least this."""
    MOST = "most"
    """The truth is at most this."""


class PacketKind(StrEnum):
    """Kinds of measures that send frames."""

    FORWARDING = "forwarding"
    LOAD_CURVE = "load-curve"
    LATENCY = "latency"


@dataclass(frozen=True, slots=True)
class DirectionRatio:
    """Both ways over one way in one configuration; rates are sums over the directions."""

    cell: Mapping[str, str]
    """Factor to label, without the direction."""
    n: int
    """Trials of the direction that has fewer."""
    mean: float | None
    """Mean over mean [ratio]; None where one way is 0."""
    min: float | None
    """Smallest over smallest [ratio]."""
    max: float | None
    """Largest over largest [ratio]."""
    bound: Bound | None = None
    """What the ratios are, where the rate of one direction is a bound; None: as measured."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One step of a curve."""

    load_ratio: float
    """Offered load, of the found or given rate [ratio]."""
    median: float
    """Middle trial, in the curve's unit."""
    values: tuple[float, ...]
    """The trials."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One figure of one cell against load."""

    cell: Mapping[str, str]
    """Factor to label."""
    metric: Quantity
    """What it is of, without the load."""
    unit: str
    """Of the points."""
    points: tuple[CurvePoint, ...]
    """By rising load."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What limited one cell: the commonest cause of the losses closest above the rate."""

    limit: str
    """Code: host, generator, receiver, shaper, rule, damage, flows, thread, cpu, hop, none, unexplained."""
    place: Place | None
    """Where; None: nowhere in particular."""
    seen: tuple[Evidence, ...]
    """What the trial that stands for it shows."""
    doubt: Caveat | None
    """Why it is not certain; None: no load trial says that it is not."""
    count: int
    """Load trials with this cause."""
    total: int
    """Load trials close to the rate that had any."""
    cpu: int | None
    """The busiest CPU then; None where none was counted."""
    cpu_busy_ratio: float
    """How busy it was."""
    idle_ratio: float
    """Share of all CPUs' time that was idle then."""

    @property
    def doubtful(self) -> bool:
        """Whether it is not certain: a load trial says so, or most of those close to the rate say something else."""
        return self.doubt is not None or 2 * self.count < self.total


@dataclass(frozen=True, slots=True)
class BalanceSheet:
    """Where the frames of one cell went, all load trials together: offered = forwarded + drops + unexplained."""

    offered_frames: int
    """What interfaces accepted."""
    forwarded_frames: int
    """What arrived."""
    drops: tuple[Drop, ...]
    """Most frames first."""
    unexplained_frames: int
    """The rest; below zero: counters show more drops than frames are missing."""
    load_trials: int
    """Load trials in the sums."""
    closed_trials: int
    """Load trials without an unexplained frame in any direction."""


@dataclass(frozen=True, slots=True)
class CellTruth:
    """What stands behind the figures of one cell."""

    cell: Mapping[str, str]
    """Factor to label."""
    trials: int
    """Trials whose samples were read."""
    verdict: Verdict
    """What limited it."""
    balance: BalanceSheet
    """Where the frames went."""


@dataclass(frozen=True, slots=True)
class CellLimit:
    """What limited the streams of one cell."""

    cell: Mapping[str, str]
    """Factor to label."""
    verdict: Verdict
    """The commonest limit; counts are of trials."""


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """What limited the streams of a measure."""

    measure: str
    """Its name."""
    cells: tuple[CellLimit, ...]
    """Those with a trial that ended well, in the order of the plan."""


@dataclass(frozen=True, slots=True)
class UsedPath:
    """By which path a port was reached, and in how many trials."""

    port: str
    """machine.port, and which half of it."""
    path: str
    """As the instrument names it."""
    reasons: tuple[PathReason, ...]
    """Why; empty where it is as wanted."""
    count: int
    """Trials."""


@dataclass(frozen=True, slots=True)
class SharedCpu:
    """What shared a CPU, and in how many trials."""

    seen: Sharing
    """What did."""
    count: int
    """Trials."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forwarding:
    """Everything beyond estimates about one measure that sends frames."""

    measure: str
    """Name of the measure."""
    kind: PacketKind
    """What it is."""
    ratios: tuple[DirectionRatio, ...] = ()
    """Both ways over one way, where both were measured."""
    curves: tuple[Curve, ...] = ()
    """Figures against load."""
    cells: tuple[CellTruth, ...] = ()
    """In the plan's order; only cells whose samples were read."""
    paths: tuple[UsedPath, ...] = ()
    """How each port reached its interface."""
    shared: tuple[SharedCpu, ...] = ()
    """Where generator, receiver and device shared a CPU; empty: nowhere."""
    samples_read: int = 0
    """Trials whose samples were read."""
    samples_total: int = 0
    """Trials that count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Onset:
    """From which offered load on a measure loses, under conditions in which every cell agrees."""

    measure: str
    """Name of the measure."""
    factor: str
    """What sets the load."""
    conditions: Mapping[str, str]
    """Levels of the factors for which it holds; empty: over all."""
    level: str | None
    """Lowest load at which any cell loses; None: none does."""
    largest: str
    """Highest load."""
    loss: tuple[float, float]
    """Least and largest mean loss of the cells at `level` [ratio]."""
    loss_at_largest: tuple[float, float]
    """The same at `largest`."""
