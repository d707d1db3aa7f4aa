"""The ledger of a disk trial: what each layer from the program to the file read and wrote, and why they differ. Pure.

Adjacent layers must agree within 1 %, or their difference has a name: what a cache kept, what was read ahead, what the
file system wrote of its own, what a protocol's headers added. What has none is unexplained.
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
"""Layers that differ by less agree."""
AGREE_BYTES = 128 << 10
"""Nor do a few blocks count: a kernel reads the beginning of a disk, an initiator asks what it is."""
HEADER_BYTES = 512
"""Of a protocol, per read or write, both ways: iSCSI has 48 per PDU, NVMe/TCP 72 + 24, NBD 28 + 16."""
HEADERS_RATIO = 0.02
"""The same of long reads and writes: iSCSI cuts them into PDUs of 8 KiB and more."""
SIGNATURES_BYTES = 1 << 20
"""What a claim reads at most of a device, where file systems and partition tables would have their signatures."""
MEMORY_RATIO = 0.25
"""Of what a program read: with so much from memory, its figures are no longer those of a disk."""
BYTES, OPERATIONS, FLUSHES = "disk_layer_bytes", "disk_layer_operations", "disk_layer_flushes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What a layer has read and written since it began; None: it does not say."""

    read_bytes: int
    written_bytes: int
    reads: int | None = None
    writes: int | None = None
    flushes: int | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One layer of the ledger."""

    layer: LayerName
    counted: Counted


@dataclass(frozen=True, slots=True)
class Step:
    """One layer against the one above it, in one direction."""

    above: LayerName
    below: LayerName
    direction: Literal["read", "write"]
    more_bytes: int
    """That the lower one has; negative: fewer [bytes]."""
    cause: Cause


def between(before: Counted, after: Counted) -> Counted:
    """Return what a layer did from one look to the next."""
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
    """Return what a program's phases moved, as it counts them; what it read from memory on purpose is none of it."""
    read = written = reads = writes = 0
    for one in figures:
        does_read, does_write = _directions(one.phase)
        read, reads = (read + one.bytes, reads + one.operations) if does_read else (read, reads)
        written, writes = (written + one.bytes, writes + one.operations) if does_write else (written, writes)
    return Counted(read_bytes=read, written_bytes=written, reads=reads, writes=writes)


def _directions(phase: str) -> tuple[bool, bool]:
    """Tell whether a phase reads, and whether it writes."""
    if phase == "rewrite":
        return True, True
    reads = phase in ("buffered", "seeks") or phase.startswith("get") or phase.endswith("read")
    return reads, phase == "stamp" or phase.startswith("put") or phase.endswith("write")


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """What lies between a program and its device."""

    direct: bool
    """The program passes the page cache."""
    file_system: bool
    """It writes files."""
    door: bool = False
    """Its device is a file of FUSE, of which the kernel may keep blocks and read some ahead."""
    claimed: bool = False
    """It looks for signatures on the device before it writes there."""
    uncounted: bool = False
    """It reads or writes more than it counts, as fio does before its ramp_time is over."""
    uncounted_bytes: int = 0
    """The same, of which it is known how much it is at most."""


def rows_of(
    figures: Iterable[DiskFigure], before: Mapping[LayerName, Counted], after: Mapping[LayerName, Counted]
) -> tuple[Row, ...]:
    """Return the ledger: the program, then every layer that could be counted both times, the nearest first."""
    below = (Row(layer, between(seen, after[layer])) for layer, seen in before.items() if layer in after)
    return (Row("program", of_program(figures)), *below)


def steps(rows: Sequence[Row], way: Way) -> tuple[Step, ...]:
    """Compare each layer with the one above it; below the network with the one above that."""
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
    """Name what lies between a device and the file of FUSE that it is: reads alone, for it writes through."""
    if more < 0:
        return "cache"
    return "headers" if below == "network" and more <= HEADERS_RATIO * payload + AGREE_BYTES else "readahead"


def kept_by_door(found: Sequence[Step]) -> bool | None:
    """Tell whether what the kernel kept of a door answered reads of the device; None: no layer below shows it."""
    seen = [one for one in found if one.above == "device" and one.direction == "read"]
    return any(one.cause == "cache" for one in seen) if seen else None


def _of_network(more: int, payload: int, operations: int) -> Cause:
    fits = 0 <= more <= HEADER_BYTES * operations + HEADERS_RATIO * payload + AGREE_BYTES
    return "headers" if fits else "unexplained"


def _of_kernel(direction: str, more: int, way: Way) -> Cause:
    """Name what lies between a program and its kernel's device."""
    if way.claimed and direction == "read" and 0 < more <= SIGNATURES_BYTES:
        return "signatures"
    if more > 0 and (way.uncounted or more <= way.uncounted_bytes):
        return "uncounted"
    if way.direct and not way.file_system:
        return "unexplained"  # nothing lies between
    if more < 0:
        return "cache"
    if direction == "write":
        return "metadata" if way.file_system else "unexplained"
    return "metadata" if way.direct else "readahead"


@dataclass(frozen=True, slots=True)
class Ledger:
    """What every layer did while one run of a program went on."""

    sections: tuple[str, ...]
    """Of a job file, those that the run carried out; empty: the whole trial."""
    rows: tuple[Row, ...]
    """The program first."""
    steps: tuple[Step, ...]
    """The layers compared."""


def layer_metrics(rows: Sequence[Row], sections: Sequence[str] = ()) -> Iterator[Metric]:
    """Return what each layer did, as metrics."""
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
    """Return a warning for each difference without a name."""
    return tuple(
        LedgerOpen(above=one.above, below=one.below, direction=one.direction, more_bytes=one.more_bytes)
        for one in found
        if one.cause == "unexplained"
    )


def section_warnings(ledgers: Sequence[Ledger]) -> tuple[SectionLedgerOpen, ...]:
    """Return a warning for each difference without a name, of runs that are counted by themselves."""
    return tuple(
        SectionLedgerOpen(section=" + ".join(each.sections), **dict(one))
        for each in ledgers
        for one in ledger_warnings(each.steps)
    )


def memory_warnings(program: str, read_bytes: int, found: Sequence[Step]) -> tuple[ReadFromMemory, ...]:
    """Return a warning where a program's reads did not reach its device."""
    return tuple(
        ReadFromMemory(program=program, read_bytes=read_bytes, disk_bytes=read_bytes + one.more_bytes)
        for one in found
        if (one.above, one.direction, one.cause) == ("program", "read", "cache")
        and -one.more_bytes > MEMORY_RATIO * read_bytes
    )


def ledger_record(found: Sequence[Step]) -> Json:
    """Return the comparison of the layers, for the trial's evidence."""
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
