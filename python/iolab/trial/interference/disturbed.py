"""Find interference in a trial: CPUs used by other processes, CPU steal, and paused kernels. Pure.

In load trials, interference means that processes outside the trial used CPUs for which threads of the device waited.
The CPU use of processes outside the trial is computed from the CPU time of every process, so threads of an emulated
link or of a user-space device do not count. A single load trial reads only some threads, so CPU time of unknown threads
makes its verdict doubtful. This module combines the trial's and the load trials' readings.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from iolab.agent.answers import Reading
from iolab.agent.messages import ThreadTimes
from iolab.messages.caveats import OthersOnCpu
from iolab.messages.evidence import CpusIdle, CpusTaken, Evidence, ProgramsWaited, ThreadWaited
from iolab.messages.places import computer
from iolab.messages.warnings import TrialWarning
from iolab.results.packets import LoadRecord
from iolab.results.verdict import GUEST, KERNEL, Limit
from iolab.trial.counters.cpu_use import cpu_uses
from iolab.trial.interference.work import Work, beside
from iolab.trial.measurement import Readings
from iolab.trial.streams.disturbances import STRANGERS_CPUS, TAKEN_RATIO, longest_gap_ns, stolen, stood_still

IDLE_RATIO = 0.05
"""If all CPUs together are idle for less than this share, runnable threads wait, even kernel threads that are not read
[ratio]."""
DEVICE_ROLES = frozenset({"device", GUEST, KERNEL})
"""Roles of the measured threads; a sender that waited has a separate warning."""


def disturbed(
    before: Mapping[str, Work], after: Mapping[str, Work], readings: Readings
) -> tuple[TrialWarning, ...]:
    """Return the interference in a trial by kernel, from the CPU work before and after the trial and the counters
    during it."""
    uses = [
        use for kernel, own in readings.items() if len(own) > 1 for use in cpu_uses(own[0], own[-1], kernel)
    ]
    gaps = {kernel: longest_gap_ns(own) for kernel, own in readings.items()}
    taken = cpus_taken(before, after, lambda kernel: wait_ratio(readings.get(kernel, ())))
    return (*taken, *stolen(uses), *stood_still(gaps))


def cpus_taken(
    before: Mapping[str, Work], after: Mapping[str, Work], waited: Callable[[str], float]
) -> tuple[CpusTaken, ...]:
    """Return a warning for each host on which processes outside a trial used CPUs that the trial needed.

    `waited` returns the share of time in which the measured threads of a kernel waited for a CPU [ratio].
    """
    found: list[CpusTaken] = []
    for kernel in (kernel for kernel in before if kernel in after):
        others = beside(before[kernel], after[kernel])
        if others.cpus < STRANGERS_CPUS:
            continue
        seen: list[Evidence] = []
        if (ratio := waited(kernel)) >= TAKEN_RATIO:
            seen.append(ProgramsWaited(wait_ratio=ratio))
        if others.idle_ratio < IDLE_RATIO:
            seen.append(CpusIdle(idle_ratio=others.idle_ratio))
        if seen:
            found.append(CpusTaken(host=computer(kernel), cpus=others.cpus, seen=tuple(seen)))
    return tuple(found)


def wait_ratio(readings: Sequence[Reading]) -> float:
    """Return the share of time that the process with the longest wait waited for a CPU [ratio].

    Between two readings, the process's thread with the longest wait counts, because the threads may work in turn.
    """
    lived: dict[str, int] = {}
    waited: dict[str, int] = {}
    for earlier, later in pairwise(readings):
        before = {row.tid: row for row in earlier.threads()}
        longest: dict[str, int] = {}
        for row in later.threads():
            if row.process is not None and row.tid in before:
                wait_ns = _waited_ns(before[row.tid], row)
                longest[row.process] = max(longest.get(row.process, 0), wait_ns)
        span_ns = _at_ns(later) - _at_ns(earlier)
        for process, wait_ns in longest.items():
            lived[process] = lived.get(process, 0) + span_ns
            waited[process] = waited.get(process, 0) + min(wait_ns, span_ns)
    return max((waited[process] / max(1, span_ns) for process, span_ns in lived.items()), default=0.0)


def _waited_ns(before: ThreadTimes, after: ThreadTimes) -> int:
    return max(0, after.wait_ns - before.wait_ns)


def _at_ns(reading: Reading) -> int:
    return next((seen.begin_ns for seen in reading.observations if seen.threads), 0)


def interference(
    before: Mapping[str, Work], after: Mapping[str, Work], records: Sequence[LoadRecord]
) -> tuple[CpusTaken, ...]:
    """Return a warning for each host on which processes outside the trial used CPUs that the trial needed."""
    return cpus_taken(before, after, lambda kernel: device_wait_ratio(kernel, records))


def device_wait_ratio(kernel: str, records: Sequence[LoadRecord]) -> float:
    """Return the share of time that the device's thread with the longest wait waited for a CPU, over all load trials
    [ratio]."""
    waited: dict[tuple[str, str, str], float] = {}
    for record in records:
        for one in record.threads:
            if one.kernel == kernel and one.role in DEVICE_ROLES:
                key = (one.role, one.place, one.name)
                waited[key] = waited.get(key, 0.0) + one.waited * record.result.duration_ns
    return max(waited.values(), default=0.0) / max(1, sum(one.result.duration_ns for one in records))


def judged(records: Sequence[LoadRecord], taken: Sequence[CpusTaken]) -> list[LoadRecord]:
    """Return the records; if there was interference, a doubtful CPU limit is replaced with a limit of the host."""
    return [_judged(record) for record in records] if taken else list(records)


def _judged(record: LoadRecord) -> LoadRecord:
    found = record.verdict
    if found.limit is not Limit.CPU or not isinstance(found.doubt, OthersOnCpu):
        return record
    return replace(record, verdict=replace(found, limit=Limit.HOST, doubt=None))


def is_interference(record: LoadRecord) -> bool:
    """Whether a load trial's loss shows no limit of the device, whose thread waited for CPUs that other processes
    used."""
    verdict = record.verdict
    return verdict.limit is Limit.HOST and any(isinstance(one, ThreadWaited) for one in verdict.seen)
