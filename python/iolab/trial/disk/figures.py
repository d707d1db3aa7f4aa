"""What every disk program gives, whatever it prints: phases in exact units, and the metrics made of them. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from iolab.record.dimensions import Dimensions
from iolab.record.metric import Metric, Metrics

NS_PER_S = 1_000_000_000
RATE, OPERATIONS, CPU = "disk_bytes_per_s", "disk_operations_per_s", "disk_cpu_ratio"
"""Metrics of a disk trial."""
BY_OPERATIONS = frozenset({"seeks", "create-sequential", "stat-sequential", "delete-sequential",
                           "create-random", "stat-random", "delete-random"})  # fmt: skip
"""Phases that are read in operations per second; all others in bytes per second."""


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


def metrics_of(figures: Iterable[DiskFigure]) -> Metrics:
    """Return the metrics of a trial."""
    return Metrics(metric for figure in figures for metric in _metrics(figure))


def _metrics(figure: DiskFigure) -> Iterator[Metric]:
    about = Dimensions(part=figure.phase, block_bytes=figure.block_bytes or None)
    seconds = figure.duration_ns / NS_PER_S
    if figure.phase in BY_OPERATIONS:
        yield Metric(OPERATIONS, "op/s", figure.operations / seconds, about)
    else:
        yield Metric(RATE, "byte/s", figure.bytes / seconds, about)
    if figure.cpu_ns is not None:
        yield Metric(CPU, "ratio", figure.cpu_ns / figure.duration_ns, about)
