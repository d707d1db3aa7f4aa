"""Compare the layers of a disk trial from the program to the file: bytes read and written, and causes of differences.
Pure.

Adjacent layers must agree within 1 %, or their difference has a cause: cached data, read-ahead, file system metadata,
or protocol headers. A difference without a cause is unexplained.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from iolab.agent.messages import Json
from iolab.messages.disks import LedgerOpen, ReadFromMemory, SectionLedgerOpen
from iolab.results.metric import Dimensions, Metric
from iolab.trial.disk.figures import DiskFigure

LayerName = Literal["program", "device", "hypervisor", "network", "target"]
Cause = Literal["none", "cache", "readahead", "metadata", "signatures", "headers", "uncounted", "unexplained"]
AGREE_RATIO = 0.01
"""Maximum relative difference between layers that agree."""
AGREE_BYTES = 128 << 10
"""Maximum absolute difference between layers that agree [bytes]: a kernel reads the start of a disk, an initiator
queries it."""
HEADER_BYTES = 512
"""Maximum size of the protocol headers per read or write, in both directions [bytes]: iSCSI has 48 per PDU, NVMe/TCP 72
+ 24, NBD 28 + 16."""
HEADERS_RATIO = 0.02
"""Maximum share of headers in long reads and writes: iSCSI splits them into PDUs of 8 KiB and more."""
SIGNATURES_BYTES = 1 << 20
"""Maximum number of bytes that are read from the places of file system and partition table signatures when a device is
claimed."""
MEMORY_RATIO = 0.25
"""Maximum share of reads from memory at which results still represent the disk."""
BYTES, OPERATIONS, FLUSHES = "disk_layer_bytes", "disk_layer_operations", "disk_layer_flushes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Cumulative reads and writes of a layer; None: not reported."""

    read_bytes: int
    written_bytes: int
    reads: int | None = None
    writes: int | None = None
    flushes: int | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One layer of the comparison."""

    layer: LayerName
    counted: Counted


@dataclass(frozen=True, slots=True)
class Step:
    """Comparison of a layer with the layer above it, in one direction."""

    above: LayerName
    below: LayerName
    direction: Literal["read", "write"]
    more_bytes: int
    """Bytes of the lower layer minus bytes of the upper layer [bytes]."""
    cause: Cause


def between(before: Counted, after: Counted) -> Counted:
    """Return the difference between two readings of a layer."""
    return Counted(
        read_bytes=after.read_bytes - before.read_bytes,
        written_bytes=after.written_bytes - before.written_bytes,
        reads=_less(after.reads, before.reads),
        writes=_less(after.writes, before.writes),
        flushes=_less(after.flushes, before.flushes),
    )


def _less(after: int | None, before: int | None) -> int | None:
    return None if after is None or before is None else after - before


def of_program(figures: Iterable[DiskFigure]) -> Counted:
    """Return the reads and writes of a program's phases, as counted by the program; intended reads from memory are
    excluded."""
    read = written = reads = writes = 0
    for one in figures:
        does_read, does_write = _directions(one.phase)
        read, reads = (read + one.bytes, reads + one.operations) if does_read else (read, reads)
        written, writes = (written + one.bytes, writes + one.operations) if does_write else (written, writes)
    return Counted(read_bytes=read, written_bytes=written, reads=reads, writes=writes)


def _directions(phase: str) -> tuple[bool, bool]:
    """Return whether a phase reads, and whether it writes."""
    if phase == "rewrite":
        return True, True
    reads = phase in ("buffered", "seeks") or phase.startswith("get") or phase.endswith("read")
    return reads, phase == "stamp" or phase.startswith("put") or phase.endswith("write")


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """Layers between a program and its device."""

    direct: bool
    """Whether the program bypasses the page cache."""
    file_system: bool
    """Whether the program writes files in a file system."""
    door: bool = False
    """Whether the device is a FUSE file, whose blocks the kernel may cache and read ahead."""
    claimed: bool = False
    """Whether the program checks the device for signatures before writing."""
    uncounted: bool = False
    """Whether the program transfers data that it does not count, as fio does during ramp_time."""
    uncounted_bytes: int = 0
    """Maximum number of bytes that the program transfers and does not count, if it is known."""


def rows_of(
    figures: Iterable[DiskFigure], before: Mapping[LayerName, Counted], after: Mapping[LayerName, Counted]
) -> tuple[Row, ...]:
    """Return the rows: the program, then every layer with two readings, the nearest first."""
    below = (Row(layer, between(seen, after[layer])) for layer, seen in before.items() if layer in after)
    return (Row("program", of_program(figures)), *below)


def steps(rows: Sequence[Row], way: Way) -> tuple[Step, ...]:
    """Compare each layer with the layer above it; the layer below the network is compared with the layer above the
    network."""
    found: list[Step] = []
    for place, below in enumerate(rows[1:], 1):
        above = rows[place - 1]
        if above.layer == "network":
            above = rows[place - 2]
        found += _step(above, below, way)
    return tuple(found)


def _step(above: Row, below: Row, way: Way) -> Iterator[Step]:
    upper, lower = above.counted, below.counted
    directions: tuple[tuple[Literal["read", "write"], int, int], ...] = (
        ("read", upper.read_bytes, lower.read_bytes),
        ("write", upper.written_bytes, lower.written_bytes),
    )
    for direction, over, under in directions:
        more = under - over
        agrees = abs(more) <= max(AGREE_BYTES, AGREE_RATIO * max(over, under))
        cause: Cause = "none"
        if not agrees and way.door and above.layer == "device" and direction == "read":
            cause = _of_door(more, over, below.layer)
        elif not agrees and below.layer == "network":
            cause = _of_network(more, over, (upper.reads or 0) + (upper.writes or 0))
        elif not agrees and above.layer == "program":
            cause = _of_kernel(direction, more, way)
        elif not agrees:
            cause = "unexplained"
        yield Step(above.layer, below.layer, direction, more, cause)


def _of_door(more: int, payload: int, below: LayerName) -> Cause:
    """Return the cause of a difference in reads between a device and its FUSE file; writes pass through unchanged."""
    if more < 0:
        return "cache"
    return "headers" if below == "network" and more <= HEADERS_RATIO * payload + AGREE_BYTES else "readahead"


def kept_by_door(found: Sequence[Step]) -> bool | None:
    """Whether reads of the device were answered from cached blocks of a FUSE export; None if no lower layer shows
    this."""
    seen = [one for one in found if one.above == "device" and one.direction == "read"]
    return any(one.cause == "cache" for one in seen) if seen else None


def _of_network(more: int, payload: int, operations: int) -> Cause:
    fits = 0 <= more <= HEADER_BYTES * operations + HEADERS_RATIO * payload + AGREE_BYTES
    return "headers" if fits else "unexplained"


def _of_kernel(direction: str, more: int, way: Way) -> Cause:
    """Return the cause of a difference between a program and its kernel's device."""
    if way.claimed and direction == "read" and 0 < more <= SIGNATURES_BYTES:
        return "signatures"
    if more > 0 and (way.uncounted or more <= way.uncounted_bytes):
        return "uncounted"
    if way.direct and not way.file_system:
        return "unexplained"  # there is no layer between the program and the device
    if more < 0:
        return "cache"
    if direction == "write":
        return "metadata" if way.file_system else "unexplained"
    return "metadata" if way.direct else "readahead"


@dataclass(frozen=True, slots=True)
class Ledger:
    """Comparison of all layers during one run of a program."""

    sections: tuple[str, ...]
    """Sections of a job file in the run; empty: the whole trial."""
    rows: tuple[Row, ...]
    """Compared layers; the program is the first row."""
    steps: tuple[Step, ...]
    """Comparisons of the layers."""


def layer_metrics(rows: Sequence[Row], sections: Sequence[str] = ()) -> Iterator[Metric]:
    """Yield the metrics of each layer."""
    section = " + ".join(sections) or None
    for row in rows:
        seen = row.counted
        pairs = (("read", seen.read_bytes, seen.reads), ("written", seen.written_bytes, seen.writes))
        for word, moved, done in pairs:
            about = Dimensions(section=section, part=f"{row.layer}, {word}")
            yield Metric.of(BYTES, float(moved), about)
            if done is not None:
                yield Metric.of(OPERATIONS, float(done), about)
        if seen.flushes is not None:
            yield Metric.of(FLUSHES, float(seen.flushes), Dimensions(section=section, part=row.layer))


def ledger_warnings(found: Sequence[Step]) -> tuple[LedgerOpen, ...]:
    """Return a warning for each unexplained difference."""
    return tuple(
        LedgerOpen(above=one.above, below=one.below, direction=one.direction, more_bytes=one.more_bytes)
        for one in found
        if one.cause == "unexplained"
    )


def section_warnings(ledgers: Sequence[Ledger]) -> tuple[SectionLedgerOpen, ...]:
    """Return a warning for each unexplained difference in runs that were counted separately."""
    return tuple(
        SectionLedgerOpen(section=" + ".join(each.sections), **dict(one))
        for each in ledgers
        for one in ledger_warnings(each.steps)
    )


def memory_warnings(program: str, read_bytes: int, found: Sequence[Step]) -> tuple[ReadFromMemory, ...]:
    """Return a warning if a program's reads did not reach its device."""
    return tuple(
        ReadFromMemory(program=program, read_bytes=read_bytes, disk_bytes=read_bytes + one.more_bytes)
        for one in found
        if (one.above, one.direction, one.cause) == ("program", "read", "cache")
        and -one.more_bytes > MEMORY_RATIO * read_bytes
    )


def ledger_record(found: Sequence[Step]) -> Json:
    """Return the comparison of the layers for the trial's evidence."""
    return [
        {
            "above": one.above,
            "below": one.below,
            "direction": one.direction,
            "more_bytes": one.more_bytes,
            "cause": one.cause,
        }
        for one in found
    ]
