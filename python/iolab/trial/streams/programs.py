"""What the programs at the ends of a stream did on their CPUs, from readings over time. Pure."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from iolab.agent.messages import Reading, ThreadTimes
from iolab.trial.streams.evidence import Program

STOPPED = frozenset({"T", "t"})
"""States of a thread that a signal, or a debugger, stopped: proc_pid_stat(5)."""

Timed = tuple[int, ThreadTimes]
"""When a thread was read [ns], and its times."""


def program_of(
    process: str, machine: str, kernel: str, readings: Sequence[Reading], within: tuple[int, int] | None
) -> Program | None:
    """Return what a process did between two times; None where it was not seen twice."""
    threads: dict[int, list[Timed]] = {}
    for reading in readings:
        for seen in reading.observations:
            if within is not None and not within[0] <= seen.begin_ns <= within[1]:
                continue
            for row in seen.threads:
                if row.process == process:
                    threads.setdefault(row.tid, []).append((seen.begin_ns, row))
    several = [rows for rows in threads.values() if len(rows) > 1]
    if not several:
        return None
    busiest = max(several, key=lambda rows: rows[-1][1].run_ns - rows[0][1].run_ns)
    (begin_ns, first), (end_ns, last) = busiest[0], busiest[-1]
    span_ns = max(1, end_ns - begin_ns)
    run_ratio = min(1.0, (last.run_ns - first.run_ns) / span_ns)
    return Program(
        machine=machine,
        kernel=kernel,
        run_ratio=run_ratio,
        wait_ratio=min(1.0 - run_ratio, (last.wait_ns - first.wait_ns) / span_ns),
        stopped_ns=sum(
            later[0] - earlier[0]
            for earlier, later in pairwise(busiest)
            if earlier[1].state in STOPPED and later[1].state in STOPPED
        ),
        cpus=tuple(row.last_cpu for _, row in busiest[1:]),
        kept_on=int(last.allowed_cpus) if last.allowed_cpus.isdecimal() else None,
    )


def lifetime(process: str, readings: Sequence[Reading]) -> tuple[int, int] | None:
    """Return when a process was first and last seen [ns]; None: never."""
    times = [
        seen.begin_ns
        for reading in readings
        for seen in reading.observations
        if any(row.process == process for row in seen.threads)
    ]
    return (times[0], times[-1]) if times else None


def strangers(readings: Sequence[Reading]) -> float:
    """Return how many CPUs of a kernel programs had, over a series, that are not of this trial: at least so many.

    Soft interrupts are nobody's: those of the stream itself run wherever they come.
    """
    if len(readings) < 2:
        return 0.0
    first, last = readings[0], readings[-1]
    span_ns = max(1, last.observations[0].begin_ns - first.observations[0].begin_ns)
    threads: dict[int, list[ThreadTimes]] = {}
    for reading in readings:
        for row in reading.threads():
            threads.setdefault(row.tid, []).append(row)
    others_ns = 0
    for own, classes in (("user_ns", ("user_ns", "nice_ns")), ("system_ns", ("system_ns",))):
        work_ns = sum(
            int(getattr(later, name) - getattr(earlier, name))
            for earlier, later in zip(first.cpu_times(), last.cpu_times(), strict=True)
            for name in classes
        )
        ours_ns = sum(getattr(rows[-1], own) - getattr(rows[0], own) for rows in threads.values())
        others_ns += max(0, work_ns - ours_ns)
    return others_ns / span_ns


def longest_gap_ns(readings: Sequence[Reading]) -> int:
    """Return the longest time between two readings of a series [ns]."""
    times = [reading.observations[0].begin_ns for reading in readings if reading.observations]
    return max((later - earlier for earlier, later in pairwise(times)), default=0)


def all_strangers(series: Mapping[str, Sequence[Reading]]) -> dict[str, float]:
    """Return the same for every kernel that was read over time."""
    return {kernel: strangers(readings) for kernel, readings in series.items() if len(readings) > 1}
