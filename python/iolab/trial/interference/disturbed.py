"""What disturbed a trial from beside: CPUs that others had, or a hypervisor, and kernels that stood still. Pure.

Of load trials: programs outside the trial had CPUs that threads of the device waited for. How many CPUs they had
follows from the CPU time of every process, so that threads of an emulated link or of a device in user space are not
taken for strangers. A single load trial knows only the threads that it reads: what else had the CPU makes its verdict
doubtful. Here the two are put together.
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
"""Where less of all CPUs is left over, threads wait that are ready: those of the kernel, which nobody reads, too."""
DEVICE_ROLES = frozenset({"device", GUEST, KERNEL})
"""Threads of what is measured; a sender that waited has a warning of its own."""


def disturbed(
    before: Mapping[str, Work], after: Mapping[str, Work], readings: Readings
) -> tuple[TrialWarning, ...]:
    """Return what disturbed a trial, by the work before and after it and the counters meanwhile, by kernel."""
    uses = [
        use for kernel, own in readings.items() if len(own) > 1 for use in cpu_uses(own[0], own[-1], kernel)
    ]
    gaps = {kernel: longest_gap_ns(own) for kernel, own in readings.items()}
    taken = cpus_taken(before, after, lambda kernel: wait_ratio(readings.get(kernel, ())))
    return (*taken, *stolen(uses), *stood_still(gaps))


def cpus_taken(
    before: Mapping[str, Work], after: Mapping[str, Work], waited: Callable[[str], float]
) -> tuple[CpusTaken, ...]:
    """Return the hosts of which programs outside a trial had CPUs that it needed.

    `waited` says for how much of the time what was measured on a kernel was ready and had no CPU [ratio].
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
    """Return how much of its time the process that waited most was ready and had no CPU.

    At each time of a process its thread counts that waited longest: one after another may do its work.
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
    """Return the computers of which programs outside the trial had CPUs that the trial needed."""
    return cpus_taken(before, after, lambda kernel: device_wait_ratio(kernel, records))


def device_wait_ratio(kernel: str, records: Sequence[LoadRecord]) -> float:
    """Return how much of all load trials the device's thread that waited most was ready and had no CPU."""
    waited: dict[tuple[str, str, str], float] = {}
    for record in records:
        for one in record.threads:
            if one.kernel == kernel and one.role in DEVICE_ROLES:
                key = (one.role, one.place, one.name)
                waited[key] = waited.get(key, 0.0) + one.waited * record.result.duration_ns
    return max(waited.values(), default=0.0) / max(1, sum(one.result.duration_ns for one in records))


def judged(records: Sequence[LoadRecord], taken: Sequence[CpusTaken]) -> list[LoadRecord]:
    """Return records in which a CPU that others had is no limit of the device, where others are known to have it."""
    return [_judged(record) for record in records] if taken else list(records)


def _judged(record: LoadRecord) -> LoadRecord:
    found = record.verdict
    if found.limit is not Limit.CPU or not isinstance(found.doubt, OthersOnCpu):
        return record
    return replace(record, verdict=replace(found, limit=Limit.HOST, doubt=None))


def is_interference(record: LoadRecord) -> bool:
    """Whether what a load trial lost is no limit of the device: its thread waited for CPUs that others had."""
    verdict = record.verdict
    return verdict.limit is Limit.HOST and any(isinstance(one, ThreadWaited) for one in verdict.seen)
