"""Evaluate threads and ports during a program's run, from counter readings over time. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from iolab.agent.answers import Reading
from iolab.agent.messages import InterfaceCounters, ThreadTimes
from iolab.units import NS_PER_S


@dataclass(frozen=True, slots=True)
class SeenThread:
    """Times of a program's thread between its first and its last reading."""

    run_ns: int
    """Run time [ns]."""
    wait_ns: int
    """Time runnable without a CPU [ns]."""
    span_ns: int
    """Time between the readings [ns]."""

    @property
    def run_ratio(self) -> float:
        """Return the share of time that the thread ran [ratio]."""
        return min(1.0, self.run_ns / max(1, self.span_ns))

    @property
    def wait_ratio(self) -> float:
        """Return the share of time that the thread waited for a CPU [ratio]."""
        return min(1.0 - self.run_ratio, self.wait_ns / max(1, self.span_ns))


def within(readings: Sequence[Reading], span_ns: tuple[int, int]) -> Sequence[Reading]:
    """Return the readings that started and ended within a time span [ns]."""
    begin_ns, end_ns = span_ns
    return [
        one
        for one in readings
        if one.observations
        and begin_ns <= one.observations[0].begin_ns
        and one.observations[-1].end_ns <= end_ns
    ]


def seen_threads(process: str, readings: Sequence[Reading]) -> list[SeenThread]:
    """Return the threads of a process and its descendants, but only threads with two readings."""
    rows: dict[int, list[tuple[int, ThreadTimes]]] = {}
    for reading in readings:
        for seen in reading.observations:
            for row in seen.threads:
                if row.process == process:
                    rows.setdefault(row.tid, []).append((seen.begin_ns, row))
    return [
        SeenThread(last.run_ns - first.run_ns, last.wait_ns - first.wait_ns, end_ns - begin_ns)
        for (begin_ns, first), *_, (end_ns, last) in (own for own in rows.values() if len(own) > 1)
    ]


def passed_bps(readings: Sequence[Reading], netns: str | None, interface: str) -> float | None:
    """Return the median rate at which a port sent between readings [bit/s]; None without two readings.

    The median shows a line that was full for most of the time, even if a lost segment stopped all traffic for a while.
    """
    found = _counts(readings, netns, interface)
    rates = [
        (later.tx_bytes - earlier.tx_bytes) * 8 * NS_PER_S / max(1, end_ns - begin_ns)
        for (begin_ns, earlier), (end_ns, later) in pairwise(found)
    ]
    return median(rates) if rates else None


def carried_both_ways(readings: Sequence[Reading], netns: str | None, interface: str) -> bool | None:
    """Whether a port received packets and sent some; None without two readings."""
    counts = [row for _, row in _counts(readings, netns, interface)]
    if len(counts) < 2:
        return None
    first, last = counts[0], counts[-1]
    return last.rx_packets > first.rx_packets and last.tx_packets > first.tx_packets


def _counts(
    readings: Sequence[Reading], netns: str | None, interface: str
) -> list[tuple[int, InterfaceCounters]]:
    return [
        (seen.begin_ns, row)
        for reading in readings
        for seen in reading.observations
        if seen.netns == netns
        for row in seen.interfaces
        if row.name == interface
    ]
