"""What every disk program gives, whatever it prints: phases in exact units, and the metrics made of them. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from iolab.results.metric import Dimensions, Metric, Metrics
from iolab.units import NS_PER_S

RATE, OPERATIONS, CPU = "disk_bytes_per_s", "disk_operations_per_s", "disk_cpu_ratio"
LATENCY, UNDER_WAY = "disk_latency_{}_ns", "disk_under_way"
"""Metrics of a disk trial."""
BY_OPERATIONS = frozenset({"stamp", "seeks", "create-sequential", "stat-sequential", "delete-sequential",
                           "create-random", "stat-random", "delete-random"})  # fmt: skip
"""Phases that are read in operations per second; all others in bytes per second."""


@dataclass(frozen=True, slots=True)
class DiskLatency:
    """How long single reads or writes took, from when each was to begin until it had ended."""

    mean_ns: float
    """Of all [ns]."""
    quantiles_ns: Mapping[str, int]
    """By the metric's word: p50, p90, p99, p999, max. One that too few operations show is not there [ns]."""


@dataclass(frozen=True, slots=True)
class DiskFigure:
    """One phase of a disk program."""

    phase: str
    """write, read, cached, buffered, put-block, seeks, ..."""
    block_bytes: int
    """Of one read or write; 0: the program does not say, or moves no data [bytes]."""
    bytes: int
    """Moved, as the program counts them [bytes]."""
    operations: int
    """Reads, writes, seeks or files."""
    duration_ns: int
    """What the program takes for the time [ns]."""
    cpu_ns: int | None = None
    """CPU time of the program; None: it does not say [ns]."""
    cache: str | None = None
    """The page cache when it began: cold, warm, partly, unknown; None: it was not looked at."""
    depth: int | None = None
    """Reads and writes that are kept under way; None: one, as programs that wait for each have it."""
    latency: DiskLatency | None = None
    """Of its operations; None: they were not timed one by one."""
    section: str | None = None
    """Of a job file of the user's own; None: the program has none."""
    offered_per_s: int | None = None
    """Operations that were begun per second; None: as fast as they ended, or as the measure says."""
    random: bool = False
    """Whether the places were random: operations per second and latency stand for it, not its bytes."""


def dimensions_of(figure: DiskFigure) -> Dimensions:
    """Return what the metrics of a phase are about."""
    return Dimensions(
        part=figure.phase, block_bytes=figure.block_bytes or None, depth=figure.depth, section=figure.section
    )


def metrics_of(figures: Iterable[DiskFigure]) -> Metrics:
    """Return the metrics of a trial."""
    return Metrics(metric for figure in figures for metric in _metrics(figure))


def _metrics(figure: DiskFigure) -> Iterator[Metric]:
    about = dimensions_of(figure)
    seconds = figure.duration_ns / NS_PER_S
    rates = []
    if figure.phase not in BY_OPERATIONS:
        rates.append(Metric.of(RATE, figure.bytes / seconds, about))
    if figure.phase in BY_OPERATIONS or figure.random or figure.latency is not None:
        rates.append(Metric.of(OPERATIONS, figure.operations / seconds, about))
    yield from reversed(rates) if figure.random else rates  # the first stands for the measure
    if figure.latency is not None:
        for word, value in figure.latency.quantiles_ns.items():
            yield Metric.of(LATENCY.format(word), float(value), about)
        # Little's law: what was under way on average is the rate by the time that each took.
        yield Metric.of(UNDER_WAY, figure.operations / seconds * figure.latency.mean_ns / NS_PER_S, about)
    if figure.cpu_ns is not None:
        yield Metric.of(CPU, figure.cpu_ns / figure.duration_ns, about)
