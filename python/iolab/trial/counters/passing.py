"""Compute rates of ports and queues over the time in which traffic passed. Pure.

A queue continues to send after its program has ended, and a program connects before it sends, so the requested duration
differs from the time in which traffic passed.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log10
from statistics import median

from iolab.agent.answers import Observation
from iolab.lab.kernels import HERE
from iolab.trial.counters.differences import ROOT, Counted, Port
from iolab.trial.measurement import Readings
from iolab.units import NS_PER_S

HEAD_RATIO = 0.02
"""Share of the bytes excluded at the start and at the end: handshakes, reports, neighbour discovery [ratio]."""
FEWEST_POINTS = 6
"""Minimum number of rate points for finding a change; fewer points can always be split into two levels."""
LEVEL_RATIO = 1.5
"""Minimum ratio of two levels that count as separate."""
SPREADS = 3.0
"""Minimum distance between two levels, in mean deviations of their points; below it, the rate changes continuously."""
MISLEADING_RATIO = 0.2
"""Maximum relative difference between the mean and the longest-lasting level at which the mean is still
representative."""

MOST_POINTS = 100
"""Maximum number of points to evaluate; longer trials are subsampled."""
QUEUE = "queue"

Counts = Sequence[tuple[int, int]]
"""Ascending times [ns] and values of a byte counter."""


@dataclass(frozen=True, slots=True)
class Passing:
    """Bytes, and the time in which they passed."""

    bytes: int
    """Number of bytes."""
    span_ns: int
    """Time span [ns]."""

    @property
    def bps(self) -> float:
        """Return the rate [bit/s]."""
        return self.bytes * 8 * NS_PER_S / max(1, self.span_ns)


@dataclass(frozen=True, slots=True)
class LevelChange:
    """A change of a rate from one level to another."""

    at_ns: int
    """Time from the first point to the change [ns]."""
    before_bps: float
    """Median before the change [bit/s]."""
    after_bps: float
    """Median after the change [bit/s]."""
    mean_bps: float
    """Mean over the whole time [bit/s]."""
    longest_bps: float
    """The one of the two levels that lasted longer [bit/s]."""
    changed_ns: int
    """Time of the change on the clock of the points [ns]."""


def passing(counts: Counts) -> Passing | None:
    """Return the bytes that passed, without the first and the last share, and the time in which they passed; None if
    nothing passed.

    The counter is interpolated linearly between two readings.
    """
    if len(counts) < 2 or counts[-1][1] <= counts[0][1]:
        return None
    first, total = counts[0][1], counts[-1][1] - counts[0][1]
    begin_ns = _reached_ns(counts, first + HEAD_RATIO * total)
    end_ns = _reached_ns(counts, first + (1 - HEAD_RATIO) * total)
    return Passing(round((1 - 2 * HEAD_RATIO) * total), max(1, round(end_ns - begin_ns)))


def _reached_ns(counts: Counts, value: float) -> float:
    for (begin_ns, low), (end_ns, high) in pairwise(counts):
        if high >= value:
            return begin_ns + (end_ns - begin_ns) * max(0.0, value - low) / max(1, high - low)
    return counts[-1][0]


def level_change(counts: Counts) -> LevelChange | None:
    """Return the change of a rate between two levels if the mean is not representative; else None.

    Rates are compared as logarithms, so that deviations above and below a level have equal weight. The change is where
    the sum of absolute deviations from the medians of both sides is smallest: a burst or pause in the middle does not
    move a median. A level may have a single point if it affects the mean.
    """
    begun = next((at for at, (one, other) in enumerate(pairwise(counts)) if other[1] > one[1]), 0)
    counts = counts[begun :: -(-len(counts) // MOST_POINTS) or 1]
    rates = [
        (high - low) * 8 * NS_PER_S / (end_ns - begin_ns)
        for (begin_ns, low), (end_ns, high) in pairwise(counts)
    ]
    if len(rates) < FEWEST_POINTS:
        return None
    logs = [log10(max(1.0, rate)) for rate in rates]
    split = min(range(1, len(logs)), key=lambda at: _deviation(logs[:at]) + _deviation(logs[at:]))
    before, after = median(rates[:split]), median(rates[split:])
    if not min(before, after) or max(before, after) < LEVEL_RATIO * min(before, after):
        return None  # a standstill has a separate warning
    spread = max(_deviation(side) / len(side) for side in (logs[:split], logs[split:]))
    if abs(log10(before / after)) < SPREADS * spread:
        return None
    mean = (counts[-1][1] - counts[0][1]) * 8 * NS_PER_S / (counts[-1][0] - counts[0][0])
    at_ns = counts[split][0] - counts[0][0]
    longest = before if 2 * at_ns > counts[-1][0] - counts[0][0] else after
    if abs(mean - longest) <= MISLEADING_RATIO * longest:
        return None
    return LevelChange(at_ns, before, after, mean, longest, counts[split][0])


def _deviation(values: Sequence[float]) -> float:
    middle = median(values)
    return sum(abs(value - middle) for value in values)


def sustained_bps(passed: Passing, rates_bps: Sequence[int], credit_bytes: int) -> float:
    """Return the rate of a shaper without the burst of its full buckets [bit/s]; at least the shaper's rate."""
    rate_bps = min(rates_bps, key=lambda rate: abs(rate - passed.bps))
    beyond_bytes = passed.bytes - rate_bps * passed.span_ns // (8 * NS_PER_S)
    return Passing(passed.bytes - max(0, min(beyond_bytes, credit_bytes)), passed.span_ns).bps


# Where counts are --------------------------------------------------------------------------------------------


class Course:
    """Counters of ports before, during and after a trial; each lookup is cached."""

    def __init__(self, counted: Counted, readings: Readings) -> None:
        self._counted = counted
        self._seen: dict[tuple[str, str, str | None], list[Observation]] = {}
        self._known: dict[tuple[str, str], Counts] = {}
        self._changes: dict[tuple[str, str], LevelChange | None] = {}
        for kernel in counted.kernels():
            between = readings.get(kernel, () if kernel else readings.get(HERE, ()))
            for reading in (counted.before.of(kernel), *between, counted.after.of(kernel)):
                for seen in reading.observations:
                    self._seen.setdefault((kernel, seen.sampler, seen.netns), []).append(seen)

    def port(self, ref: str, counter: str) -> Counts:
        """Return the values of an interface's counter."""
        port = self._counted.ports[ref]
        return self._once(
            ref,
            counter,
            lambda: (
                (seen.begin_ns, int(getattr(row, counter)))
                for seen in self._observed(port, "interfaces")
                for row in seen.interfaces
                if row.name == port.interface
            ),
        )

    def queue(self, ref: str) -> Counts:
        """Return the bytes sent by an interface's root qdiscs, summed if each of its queues has one."""
        port = self._counted.ports[ref]
        own = (port.interface, ROOT)
        return self._once(
            ref,
            QUEUE,
            lambda: (
                (seen.begin_ns, sum(row.bytes for row in seen.qdiscs if (row.interface, row.parent) == own))
                for seen in self._observed(port, "qdiscs")
            ),
        )

    def queue_change(self, ref: str) -> LevelChange | None:
        """Return the change of the root qdiscs' sending rate between two levels; None if the rate did not change."""
        return self._changed(ref, QUEUE, self.queue(ref))

    def port_change(self, ref: str, begin_ns: int, end_ns: int) -> LevelChange | None:
        """Return the change of an interface's receiving rate between two levels within a time span; None if the rate
        did not change."""
        counts = [one for one in self.port(ref, "rx_bytes") if begin_ns <= one[0] <= end_ns]
        return self._changed(ref, f"{begin_ns}-{end_ns}", counts)

    def waiting(self, ref: str) -> float | None:
        """Return the share of readings with packets waiting in an interface's queues [ratio]; None without
        readings."""
        port = self._counted.ports[ref]
        seen = self._observed(port, "qdiscs")[1:-1]
        found = [
            any(row.backlog_bytes for row in one.qdiscs if row.interface == port.interface) for one in seen
        ]
        return sum(found) / len(found) if found else None

    def _observed(self, port: Port, sampler: str) -> Sequence[Observation]:
        known = self._seen.get((port.kernel, sampler, port.netns))
        return known or self._seen.get((HERE, sampler, port.netns), [])

    def _once(self, ref: str, what: str, read: Callable[[], Iterator[tuple[int, int]]]) -> Counts:
        if (ref, what) not in self._known:
            self._known[ref, what] = _rising(read())
        return self._known[ref, what]

    def _changed(self, ref: str, what: str, counts: Counts) -> LevelChange | None:
        if (ref, what) not in self._changes:
            self._changes[ref, what] = level_change(counts)
        return self._changes[ref, what]


def _rising(counts: Iterator[tuple[int, int]]) -> Counts:
    """Return the counts since the last counter reset, with ascending times."""
    found: list[tuple[int, int]] = []
    for at_ns, value in counts:
        if found and at_ns <= found[-1][0]:
            continue
        if found and value < found[-1][1]:
            found.clear()
        found.append((at_ns, value))
    return found
