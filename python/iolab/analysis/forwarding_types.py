"""Result types of packet measures: limits, frame accounting, load curves, direction ratios."""

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
    """Kind of bound for a value that was not measured exactly."""

    LEAST = "least"
    """The true value is at least this value."""
    MOST = "most"
    """The true value is at most this value."""


class PacketKind(StrEnum):
    """Kinds of packet measures."""

    FORWARDING = "forwarding"
    LOAD_CURVE = "load-curve"
    LATENCY = "latency"


@dataclass(frozen=True, slots=True)
class DirectionRatio:
    """Ratio of both directions to one direction in one configuration; rates are sums over the directions."""

    cell: Mapping[str, str]
    """Level label by factor, without the direction."""
    n: int
    """Number of trials of the direction with fewer trials."""
    mean: float | None
    """Ratio of the means; None if the one-way mean is 0."""
    min: float | None
    """Ratio of the minima."""
    max: float | None
    """Ratio of the maxima."""
    bound: Bound | None = None
    """Kind of bound of the ratios if the rate of one direction is a bound; None if they are exact."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One point of a load curve."""

    load_ratio: float
    """Offered load relative to the found or given rate [ratio]."""
    median: float
    """Median over trials, in the curve's unit."""
    values: tuple[float, ...]
    """Values of the trials."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One metric of one cell against load."""

    cell: Mapping[str, str]
    """Level label by factor."""
    metric: Quantity
    """Metric, without the load dimension."""
    unit: str
    """Unit of the points."""
    points: tuple[CurvePoint, ...]
    """Points by ascending load."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Limit of one cell: the most common cause of the losses closest to the rate."""

    limit: str
    """Code of the limit: host, generator, receiver, shaper, rule, damage, flows, thread, cpu, hop, none,
    unexplained."""
    place: Place | None
    """Location of the limit; None if there is no single location."""
    seen: tuple[Evidence, ...]
    """Evidence from the representative trial."""
    doubt: Caveat | None
    """Reason for doubt about the limit; None if no load trial has a reason for doubt."""
    count: int
    """Number of load trials with this limit."""
    total: int
    """Number of load trials close to the rate that had any limit."""
    cpu: int | None
    """Busiest CPU in the representative trial; None if no CPU was counted."""
    cpu_busy_ratio: float
    """Busy share of the busiest CPU [ratio]."""
    idle_ratio: float
    """Idle share of the total CPU time in the representative trial [ratio]."""

    @property
    def doubtful(self) -> bool:
        """Whether the verdict is uncertain: its trial has a caveat, or most load trials close to the rate have a
        different limit."""
        return self.doubt is not None or 2 * self.count < self.total


@dataclass(frozen=True, slots=True)
class BalanceSheet:
    """Frame balance of one cell over all load trials: offered = forwarded + drops + unexplained."""

    offered_frames: int
    """Frames that the sending interfaces accepted."""
    forwarded_frames: int
    """Frames that were received."""
    drops: tuple[Drop, ...]
    """Drops, most frames first."""
    unexplained_frames: int
    """Remaining frames; negative if the counters show more drops than there are missing frames."""
    load_trials: int
    """Number of load trials in the sums."""
    closed_trials: int
    """Number of load trials without an unexplained frame in any direction."""


@dataclass(frozen=True, slots=True)
class CellTruth:
    """Verdict and frame balance of one cell."""

    cell: Mapping[str, str]
    """Level label by factor."""
    trials: int
    """Number of trials whose samples were read."""
    verdict: Verdict
    """Limit of the cell."""
    balance: BalanceSheet
    """Frame balance."""


@dataclass(frozen=True, slots=True)
class CellLimit:
    """Limit of the streams in one cell."""

    cell: Mapping[str, str]
    """Level label by factor."""
    verdict: Verdict
    """Most common limit of the trials; its counts are numbers of trials."""


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """Limits of the streams of a measure."""

    measure: str
    """Measure name."""
    cells: tuple[CellLimit, ...]
    """Cells with a successful trial, in the plan's order."""


@dataclass(frozen=True, slots=True)
class UsedPath:
    """A path, such as af_xdp, through which a port sent or received frames, and the number of trials that used the
    path."""

    port: str
    """Name as machine.port, and the half of the port: send or receive."""
    path: str
    """Name of the path."""
    reasons: tuple[PathReason, ...]
    """Reasons for the path; empty if this is the preferred path."""
    count: int
    """Number of trials."""


@dataclass(frozen=True, slots=True)
class SharedCpu:
    """A case of CPU sharing, and the number of trials with it."""

    seen: Sharing
    """The CPU sharing."""
    count: int
    """Number of trials."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forwarding:
    """Results of one packet measure beyond its estimates."""

    measure: str
    """Measure name."""
    kind: PacketKind
    """Kind of the measure."""
    ratios: tuple[DirectionRatio, ...] = ()
    """Ratios of both directions to one direction, for configurations in which both-ways and one-way traffic were
    measured."""
    curves: tuple[Curve, ...] = ()
    """Curves of metrics over the offered load."""
    cells: tuple[CellTruth, ...] = ()
    """Cells whose samples were read, in the plan's order."""
    paths: tuple[UsedPath, ...] = ()
    """Path through which each port reached its interface."""
    shared: tuple[SharedCpu, ...] = ()
    """CPUs shared by generator, receiver and device; empty if no CPU is shared."""
    samples_read: int = 0
    """Number of trials whose samples were read."""
    samples_total: int = 0
    """Number of valid trials."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Onset:
    """Offered load from which a measure loses frames or datagrams, under conditions in which all cells agree."""

    measure: str
    """Measure name."""
    factor: str
    """Factor that sets the load."""
    conditions: Mapping[str, str]
    """Factor levels for which the onset applies; empty: all levels."""
    level: str | None
    """Lowest load at which a cell has loss; None if no cell has loss."""
    largest: str
    """Highest load."""
    loss: tuple[float, float]
    """Minimum and maximum mean loss of the cells at `level` [ratio]."""
    loss_at_largest: tuple[float, float]
    """Minimum and maximum mean loss of the cells at `largest` [ratio]."""
