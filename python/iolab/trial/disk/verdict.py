"""Determine the limit of a disk program from its figures: an offered rate or throttle, a thread, a line, the queue
depth. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from iolab.experiment.model.machines import Disk
from iolab.experiment.model.measures import DiskMeasure
from iolab.messages.disks import AtDisk, BytesThrottled, DepthHeld, OperationsOffered, OperationsThrottled
from iolab.messages.evidence import Evidence, ThreadRan
from iolab.messages.places import AtMachine, AtPort
from iolab.messages.streams import LineFull
from iolab.results.verdict import Limit, Verdict
from iolab.trial.disk.disk_programs import times_as_hdparm
from iolab.trial.disk.figures import DiskFigure
from iolab.trial.disk.workers import BUSY_RATIO, Busy
from iolab.units import NS_PER_S

MIXED = ("mixed-read", "mixed-write")
REACHED_RATIO = 0.95
"""Minimum share of a limit at which the limit counts as reached: a phase may not count its last operations [ratio]."""
MOST_RATIO = 1.15
"""Maximum ratio of a rate to a throttle's limit: QEMU lets 0.1 s worth of data through unthrottled; a higher rate came
from a cache."""
MOST_OF_TIME = 0.5
"""If phases that take more than this share of the time have the same limit, this limit is the trial's limit [ratio]."""
FULL_RATIO = 0.9
"""Minimum TCP payload rate at which a line is full, as a share of the line's rate: Ethernet, IP and TCP headers take 5
% [ratio]."""
GAIN_RATIO = 1.25
"""Minimum gain in rate from a higher queue depth that shows that the lower depth is the limit; this gain exceeds the
variation between blocks [ratio]."""


@dataclass(frozen=True, slots=True)
class Line:
    """Link of known rate between a disk's two ends, and its traffic during the measurement."""

    place: str
    """The one of the link's two ports that sent more data."""
    passed_bps: float
    """Payload rate [bit/s]."""
    rate_bps: float
    """Link rate [bit/s]."""


def judge(
    measure: DiskMeasure,
    disk: Disk,
    figures: Sequence[DiskFigure],
    busy: Busy | None = None,
    line: Line | None = None,
) -> Verdict | None:
    """Return the limit of a trial; None if no figure shows it.

    `busy` is a saturated thread on the disk's path; None if no thread is saturated. Requested limits are checked first,
    then exhausted resources, then unused queue depth.
    """
    asked = _throttle(measure, disk, figures) or _offered(measure, disk, figures)
    return asked or _thread(measure, figures, busy) or _line(line) or _depth(measure, disk, figures)


def _throttle(measure: DiskMeasure, disk: Disk, figures: Sequence[DiskFigure]) -> Verdict | None:
    place = AtDisk(volume=disk.volume, machine=measure.on)
    found = [(clause, figures_ns(one)) for one in _together(figures) for clause in _throttled(disk, one)]
    at_limit_ns = sum(took for _, took in found)
    all_ns = sum(figures_ns(one) for one in _together(figures))
    if found and at_limit_ns >= MOST_OF_TIME * all_ns:
        return Verdict(Limit.THROTTLE, tuple(clause for clause, _ in found), place)
    return None


def _offered(measure: DiskMeasure, disk: Disk, figures: Sequence[DiskFigure]) -> Verdict | None:
    """Return a verdict if the offered rate was reached most of the time or, if the measure sets it, in every phase;
    else None."""
    place = AtDisk(volume=disk.volume, machine=measure.on)
    if times_as_hdparm(measure) or not figures:
        return None
    every = measure.fio.offered if measure.fio is not None else None
    groups = list(_together(figures))
    rates = [
        (_group_per_s(group), _group_offered(group) if every is None else every, figures_ns(group))
        for group in groups
    ]
    reached = [
        (per_s, offered, took_ns)
        for per_s, offered, took_ns in rates
        if offered is not None and per_s >= offered * REACHED_RATIO
    ]
    reached_ns, all_ns = sum(one[2] for one in reached), sum(map(figures_ns, groups))
    enough = len(reached) == len(groups) if every is not None else reached_ns >= MOST_OF_TIME * all_ns
    if not reached or not enough:
        return None
    per_s, offered, _ = min(reached, key=lambda one: one[0])
    return Verdict(Limit.RATE, (OperationsOffered(reached_per_s=round(per_s), offered_per_s=offered),), place)


def _group_offered(group: Sequence[DiskFigure]) -> int | None:
    """Return a section's offered rate [operations/s]; None if a direction has none."""
    rates = [one.offered_per_s for one in group]
    return None if None in rates else sum(rate for rate in rates if rate is not None)


def _thread(measure: DiskMeasure, figures: Sequence[DiskFigure], busy: Busy | None) -> Verdict | None:
    """Return a verdict if the program's thread was busy most of the time, or a thread on the disk's path is saturated;
    else None."""
    timed = [one for one in figures if one.cpu_ns is not None]
    at_limit = [one for one in timed if (one.cpu_ns or 0) >= BUSY_RATIO * one.duration_ns]
    at_limit_ns = sum(one.duration_ns for one in at_limit)
    if at_limit and at_limit_ns >= MOST_OF_TIME * sum(one.duration_ns for one in figures):
        ran_ns = sum(min(one.cpu_ns or 0, one.duration_ns) for one in at_limit)
        ran = ThreadRan(thread=measure.program, busy_ratio=ran_ns / at_limit_ns)
        return Verdict(Limit.WORKER, (ran,), AtMachine(machine=measure.on))
    if busy is None:
        return None
    ran = ThreadRan(thread=busy.name, busy_ratio=busy.busy_ratio)
    return Verdict(Limit.WORKER, (ran,), AtMachine(machine=busy.machine))


def _line(line: Line | None) -> Verdict | None:
    if line is None or line.passed_bps < FULL_RATIO * line.rate_bps:
        return None
    full = LineFull(place=line.place, passed_bps=line.passed_bps, line_bps=line.rate_bps)
    return Verdict(Limit.LINE, (full,), AtPort(port=line.place))


def _depth(measure: DiskMeasure, disk: Disk, figures: Sequence[DiskFigure]) -> Verdict | None:
    """Return a verdict if, for most of the time, a higher queue depth of the same trial was faster than the queue depth
    in use; else None."""
    groups = list(_together(figures))
    found: list[tuple[Evidence, int]] = []
    for group in groups:
        depth, own_per_s = group[0].depth or 1, _group_per_s(group)
        deeper = [
            (_group_per_s(other), other[0].depth or 1)
            for other in groups
            if (other[0].section, other[0].phase, other[0].block_bytes)
            == (group[0].section, group[0].phase, group[0].block_bytes)
            and (other[0].depth or 1) > depth
        ]
        best_per_s, best = max(deeper, default=(0.0, 0))
        if own_per_s and best_per_s >= GAIN_RATIO * own_per_s:
            gain = best_per_s / own_per_s
            clause = DepthHeld(
                phase=group[0].phase,
                block_bytes=group[0].block_bytes,
                depth=depth,
                deeper=best,
                gain=gain,
            )
            found.append((clause, figures_ns(group)))
    if not found or sum(took for _, took in found) < MOST_OF_TIME * sum(map(figures_ns, groups)):
        return None
    place = AtDisk(volume=disk.volume, machine=measure.on)
    return Verdict(Limit.DEPTH, tuple(clause for clause, _ in found), place)


def _group_per_s(group: Sequence[DiskFigure]) -> float:
    return _per_s(sum(one.operations for one in group), figures_ns(group))


def figures_ns(group: Sequence[DiskFigure]) -> int:
    """Return the duration of a phase [ns]."""
    return max(one.duration_ns for one in group)


def _together(figures: Sequence[DiskFigure]) -> Iterator[tuple[DiskFigure, ...]]:
    """Yield the phases, with the reads and writes of a mixed phase added up, because a throttle counts both."""
    for _, group in groupby(figures, key=_mix):
        found = tuple(group)
        if len({one.phase for one in found}) == len(found):
            yield found
        else:
            yield from ((one,) for one in found)


def _mix(figure: DiskFigure) -> tuple[object, ...]:
    """Return a key that the reads and the writes of a mixed phase have in common, and that no other phase has."""
    if figure.section is not None:
        return (figure.section,)
    name = "mixed" if figure.phase in MIXED else figure.phase
    return name, figure.block_bytes, figure.depth


def _throttled(disk: Disk, group: Sequence[DiskFigure]) -> Iterable[Evidence]:
    """Yield the throttle limit that a phase reached; if it reached two limits, yield the limit to which it came
    closer."""
    if disk.throttle is None:
        return
    took_ns, name = figures_ns(group), group[0].section or group[0].phase
    moved, done = sum(one.bytes for one in group), sum(one.operations for one in group)
    shares: list[tuple[float, Evidence]] = []
    if disk.throttle.bytes is not None:
        share = _per_s(moved, took_ns) / disk.throttle.bytes
        shares.append((share, BytesThrottled(phase=name, passed_ratio=share, most_bytes=disk.throttle.bytes)))
    if disk.throttle.operations is not None:
        share = _per_s(done, took_ns) / disk.throttle.operations
        most = disk.throttle.operations
        shares.append((share, OperationsThrottled(phase=name, passed_ratio=share, most=most)))
    if shares and REACHED_RATIO <= max(shares, key=_share)[0] <= MOST_RATIO:
        yield max(shares, key=_share)[1]


def _share(one: tuple[float, Evidence]) -> float:
    return one[0]


def _per_s(count: int, took_ns: int) -> float:
    return count / took_ns * NS_PER_S
