"""What limited a disk program, where a figure shows it; else nothing is said. Pure."""

from collections.abc import Iterable, Iterator, Sequence

from iolab.experiment.machines import Disk
from iolab.experiment.measures import DiskMeasure
from iolab.record.verdict import Limit, Verdict
from iolab.statements.clauses import Clause
from iolab.statements.disks import AtDisk, BytesThrottled, OperationsOffered, OperationsThrottled
from iolab.trial.disk.figures import NS_PER_S, DiskFigure

REACHED_RATIO = 0.95
"""From which share of a limit on a phase was at it: the last reads and writes of a phase are not all counted."""
MOST_RATIO = 1.15
"""A throttle lets a tenth of a second's worth through at once (QEMU); more came from a cache before it."""
MOST_OF_TIME = 0.5
"""A trial is limited by what its phases were limited by for so much of their time."""


def judge(measure: DiskMeasure, disk: Disk, figures: Sequence[DiskFigure]) -> Verdict | None:
    """Return what limited a trial; None: no figure shows it."""
    place = AtDisk(volume=disk.volume, machine=measure.on)
    found = [(clause, figures_ns(one)) for one in _together(figures) for clause in _throttled(disk, one)]
    at_limit_ns = sum(took for _, took in found)
    all_ns = sum(figures_ns(one) for one in _together(figures))
    if found and at_limit_ns >= MOST_OF_TIME * all_ns:
        return Verdict(Limit.THROTTLE, tuple(clause for clause, _ in found), place)
    offered = measure.fio.offered if measure.fio is not None else None
    if offered is None or measure.profile == "hdparm":
        return None
    reached = min(
        (_per_s(sum(one.operations for one in group), figures_ns(group)) for group in _together(figures)),
        default=0,
    )
    if reached < offered * REACHED_RATIO:
        return None
    return Verdict(
        Limit.RATE, (OperationsOffered(reached_per_s=round(reached), offered_per_s=offered),), place
    )


def figures_ns(group: Sequence[DiskFigure]) -> int:
    """Return how long a phase took [ns]."""
    return max(one.duration_ns for one in group)


def _together(figures: Sequence[DiskFigure]) -> Iterator[tuple[DiskFigure, ...]]:
    """Give the phases, reads and writes of one that mixes them together: a throttle counts both."""
    waiting: tuple[DiskFigure, ...] = ()
    for one in figures:
        if one.phase == "mixed-read":
            waiting = (one,)
        elif one.phase == "mixed-write" and waiting:
            yield (*waiting, one)
            waiting = ()
        else:
            yield (one,)
    if waiting:
        yield waiting


def _throttled(disk: Disk, group: Sequence[DiskFigure]) -> Iterable[Clause]:
    """Give the limit that a phase was at; of two the one that it came nearer to."""
    if disk.throttle is None:
        return
    took_ns, name = figures_ns(group), group[0].phase
    moved, done = sum(one.bytes for one in group), sum(one.operations for one in group)
    shares: list[tuple[float, Clause]] = []
    if disk.throttle.bytes is not None:
        share = _per_s(moved, took_ns) / disk.throttle.bytes
        shares.append((share, BytesThrottled(phase=name, passed_ratio=share, most_bytes=disk.throttle.bytes)))
    if disk.throttle.operations is not None:
        share = _per_s(done, took_ns) / disk.throttle.operations
        most = disk.throttle.operations
        shares.append((share, OperationsThrottled(phase=name, passed_ratio=share, most=most)))
    if shares and REACHED_RATIO <= max(shares, key=_share)[0] <= MOST_RATIO:
        yield max(shares, key=_share)[1]


def _share(one: tuple[float, Clause]) -> float:
    return one[0]


def _per_s(count: int, took_ns: int) -> float:
    return count / took_ns * NS_PER_S
