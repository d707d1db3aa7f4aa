"""Common result of all disk programs: phases in exact units, and their metrics. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from iolab.results.metric import Dimensions, Metric, Metrics
from iolab.units import NS_PER_S

RATE, OPERATIONS, CPU = "disk_bytes_per_s", "disk_operations_per_s", "disk_cpu_ratio"
LATENCY, UNDER_WAY = "disk_latency_{}_ns", "disk_under_way"
"""Names of disk metrics."""
BY_OPERATIONS = frozenset({"stamp", "seeks", "create-sequential", "stat-sequential", "delete-sequential",
                           "create-random", "stat-random", "delete-random"})  # fmt: skip
"""Phases that are reported in operations per second; all others are in bytes per second."""


@dataclass(frozen=True, slots=True)
class DiskLatency:
    """Latency of single reads or writes, from the intended start to completion."""

    mean_ns: float
    """Mean over all operations [ns]."""
    quantiles_ns: Mapping[str, int]
    """Quantiles by metric suffix: p50, p90, p99, p999, max [ns]; a quantile is missing if there are too few
    operations."""


@dataclass(frozen=True, slots=True)
class DiskFigure:
    """One phase of a disk program."""

    phase: str
    """Phase name: write, read, cached, buffered, put-block, seeks, ..."""
    block_bytes: int
    """Size of one read or write [bytes]; 0: not reported, or no data is transferred."""
    bytes: int
    """Bytes transferred, as counted by the program [bytes]."""
    operations: int
    """Number of reads, writes, seeks or files in the phase."""
    duration_ns: int
    """Duration, as reported by the program [ns]."""
    cpu_ns: int | None = None
    """CPU time of the program [ns]; None: not reported."""
    cache: str | None = None
    """State of the page cache at the start: cold, warm, partly, unknown; None: not checked."""
    depth: int | None = None
    """Queue depth; None: 1, for programs that wait for each operation."""
    latency: DiskLatency | None = None
    """Latency of the operations; None: single operations were not timed."""
    section: str | None = None
    """Section of the user's job file; None: the program has no sections."""
    offered_per_s: int | None = None
    """Offered operations per second; None: unlimited, or set by the measure."""
    random: bool = False
    """Whether positions were random; if so, the phase is reported in operations per second and latency, not bytes per
    second."""


def dimensions_of(figure: DiskFigure) -> Dimensions:
    """Return the dimensions of a phase's metrics."""
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
    yield from reversed(rates) if figure.random else rates  # the first metric represents the measure
    if figure.latency is not None:
        for word, value in figure.latency.quantiles_ns.items():
            yield Metric.of(LATENCY.format(word), float(value), about)
        # Little's law: the mean queue depth is rate x mean latency.
        yield Metric.of(UNDER_WAY, figure.operations / seconds * figure.latency.mean_ns / NS_PER_S, about)
    if figure.cpu_ns is not None:
        yield Metric.of(CPU, figure.cpu_ns / figure.duration_ns, about)
