"""Interference with load trials: programs outside the trial had CPUs that threads of the device waited for. Pure.

How many CPUs they had follows from the CPU time of every process, so that threads of an emulated link or of a device in
user space are not taken for strangers. A single load trial knows only the threads that it reads: what else had the CPU
makes its verdict doubtful. Here the two are put together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from iolab.messages.caveats import OthersOnCpu
from iolab.messages.evidence import CpusTaken, ThreadWaited
from iolab.results.packets import LoadRecord
from iolab.results.verdict import GUEST, KERNEL, Limit
from iolab.trial.interference.disturbed import cpus_taken
from iolab.trial.interference.work import Work

DEVICE_ROLES = frozenset({"device", GUEST, KERNEL})
"""Threads of what is measured; a sender that waited has a warning of its own."""


def interference(
    before: Mapping[str, Work], after: Mapping[str, Work], records: Sequence[LoadRecord]
) -> tuple[CpusTaken, ...]:
    """Return the computers of which programs outside the trial had CPUs that the trial needed."""
    return cpus_taken(before, after, lambda kernel: wait_ratio(kernel, records))


def wait_ratio(kernel: str, records: Sequence[LoadRecord]) -> float:
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
