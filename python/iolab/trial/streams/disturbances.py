"""Find disturbances of a stream trial: one warning for each cause that makes its rate differ from an undisturbed
trial's. Pure.

Limits of a stream are not disturbances. Each threshold is far above the values on idle machines, so undisturbed trials
have no warning.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise

from iolab.agent.answers import Reading
from iolab.agent.messages import ThreadTimes
from iolab.messages.evidence import CpusTaken, GuestWaited
from iolab.messages.places import computer
from iolab.messages.streams import (
    CarrierChange,
    CpuTaken,
    CpuWithheld,
    ForeignTraffic,
    KernelStoodStill,
    LevelChanged,
    LinkWentDown,
    ProgramsShareCpu,
    ProgramStopped,
    ShapeNotHeld,
    StreamStoodStill,
)
from iolab.messages.warnings import TrialWarning
from iolab.results.verdict import GUEST, CpuUse
from iolab.trial.streams.evidence import FlowSeen, Program, StreamSeen

STOPPED_NS = 150_000_000
"""Minimum time in stopped state that causes a warning [ns]: at least two readings at 100 ms."""
TAKEN_RATIO = 0.1
"""Share of time waiting for a CPU above which a program is short of CPU time [ratio]."""
STRANGERS_CPUS = 0.25
"""Minimum CPU use of other processes that counts as interference [CPUs]; on idle machines, other processes use less."""
SHARED_WAIT_RATIO = 0.03
"""Share of time waiting for a CPU above which two programs pinned to the same CPU disturb each other [ratio]."""
SAME_RATIO = 0.9
"""If a port carries more than this share of the largest foreign traffic, both ports carry the same traffic; the first
such port is reported [ratio]."""
STEAL_RATIO = 0.03
"""Steal share of a CPU above which the steal is reported [ratio]."""
GAP_NS = 700_000_000
"""Minimum gap between counter readings that shows that a kernel was paused, or that its agent got no CPU time [ns]."""
STOOD_NS = 500_000_000
"""Minimum time without traffic that counts as an interruption of a stream [ns]: more than twice TCP's minimum
retransmission timeout."""


def disturbances(seen: StreamSeen) -> tuple[TrialWarning, ...]:
    """Return the disturbances of a stream trial."""
    found = [
        *_stopped(seen),
        *_carriers(seen),
        *_processors(seen),
        *stolen(seen.cpus),
        *stood_still(seen.gaps),
        *_unheld(seen),
        *_foreign(seen),
    ]
    return (*(found or _stood(seen)), *_levels(seen))


def _programs(seen: StreamSeen) -> list[Program]:
    """Return the programs of all flows without duplicates."""
    ends = (program for flow in seen.flows for program in (flow.sender, flow.receiver))
    return list(dict.fromkeys(program for program in ends if program is not None))


def _stopped(seen: StreamSeen) -> Iterator[TrialWarning]:
    for program in _programs(seen):
        if program.stopped_ns >= STOPPED_NS:
            yield ProgramStopped(machine=program.machine, stopped_ns=program.stopped_ns)


def _carriers(seen: StreamSeen) -> Iterator[TrialWarning]:
    changed = {one.place: one.changes for flow in seen.flows for one in flow.carriers}
    if changed:
        ports = tuple(CarrierChange(place=place, changes=changes) for place, changes in changed.items())
        yield LinkWentDown(ports=ports, stood_ns=max(flow.stood_ns for flow in seen.flows))


def _processors(seen: StreamSeen) -> Iterator[TrialWarning]:
    """Yield warnings about programs that lacked CPU time because they shared a CPU, or because other processes
    interfered."""
    known: set[str] = set()
    for flow in seen.flows:
        one, other = flow.sender, flow.receiver
        if one is None or other is None or one == other or one.kernel != other.kernel:
            continue
        kept = one.kept_on is not None and one.kept_on == other.kept_on
        if kept and max(one.wait_ratio, other.wait_ratio) >= SHARED_WAIT_RATIO and one.kernel not in known:
            known.add(one.kernel)
            yield ProgramsShareCpu(
                machine=one.machine,
                other=other.machine,
                cpu=one.kept_on or 0,
                wait_ratio=one.wait_ratio,
                other_wait_ratio=other.wait_ratio,
            )
    for program in _programs(seen):
        cpus = seen.strangers.get(program.kernel, 0.0)
        if program.kernel in known or program.wait_ratio < TAKEN_RATIO or cpus < STRANGERS_CPUS:
            continue
        known.add(program.kernel)
        yield CpuTaken(machine=program.machine, wait_ratio=program.wait_ratio, cpus=cpus)
    yield from _guests(seen, known)


def _guests(seen: StreamSeen, known: Collection[str]) -> Iterator[TrialWarning]:
    """Yield warnings about hosts on which guests waited for a CPU while other processes used CPUs."""
    waiting = [one for one in seen.threads if one.role == GUEST and one.waited >= TAKEN_RATIO]
    for one in sorted(waiting, key=lambda one: -one.waited):
        cpus = seen.strangers.get(one.kernel, 0.0)
        if one.kernel in known or cpus < STRANGERS_CPUS:
            continue
        known = {*known, one.kernel}
        waited = GuestWaited(
            machine=one.place, thread=one.name, busy_ratio=one.busy_ratio, wait_ratio=one.waited
        )
        yield CpusTaken(host=computer(one.kernel), cpus=cpus, seen=(waited,))


def stolen(cpus: Sequence[CpuUse]) -> Iterator[TrialWarning]:
    """Yield a warning about the CPU with the most steal time, if it exceeds the threshold."""
    worst = max(cpus, key=lambda cpu: cpu.steal_ratio, default=None)
    if worst is not None and worst.steal_ratio >= STEAL_RATIO:
        yield CpuWithheld(host=computer(worst.kernel), cpu=worst.cpu, steal_ratio=worst.steal_ratio)


def stood_still(gaps: Mapping[str, int]) -> Iterator[TrialWarning]:
    """Yield warnings about kernels with a gap in their counter readings; `gaps` has the longest gap per kernel
    [ns]."""
    for kernel, gap_ns in gaps.items():
        if gap_ns >= GAP_NS:
            yield KernelStoodStill(host=computer(kernel), gap_ns=gap_ns)


def _unheld(seen: StreamSeen) -> Iterator[TrialWarning]:
    for one in seen.unheld:
        yield ShapeNotHeld(place=one.place, passed_bps=one.passed_bps, rate_bps=one.rate_bps)


def _foreign(seen: StreamSeen) -> Iterator[TrialWarning]:
    if seen.foreign:
        beyond = {one.place: one.passed_bps - one.rate_bps for one in seen.foreign}
        most_bps = max(beyond.values())
        place = next(place for place, bps in beyond.items() if bps > SAME_RATIO * most_bps)
        yield ForeignTraffic(place=place, foreign_bps=beyond[place])


def _levels(seen: StreamSeen) -> Iterator[TrialWarning]:
    """Yield warnings about flows whose rate changed between two levels, so the mean represents neither level."""
    for flow in seen.flows:
        if (change := flow.change) is not None:
            yield LevelChanged(
                flow=flow.name,
                before_bps=change.before_bps,
                after_bps=change.after_bps,
                at_ns=change.at_ns,
                mean_bps=change.mean_bps,
            )


def _stood(seen: StreamSeen) -> Iterator[TrialWarning]:
    """Yield warnings about streams that had no traffic for a while without any other disturbance."""
    for flow in seen.flows:
        if flow.stood_ns >= STOOD_NS and not _rested(flow):
            yield StreamStoodStill(flow=flow.name, stood_ns=flow.stood_ns)


def _rested(flow: FlowSeen) -> bool:
    """Whether a stream had no traffic for a while because of its low intended rate."""
    return flow.intended_bps is not None and flow.received_bps >= flow.intended_bps


STOPPED = frozenset({"T", "t"})
"""States of a thread stopped by a signal or debugger: proc_pid_stat(5)."""

Timed = tuple[int, ThreadTimes]
"""Time at which a thread's counters were read [ns], and the values of these counters."""


def program_of(
    process: str, machine: str, kernel: str, readings: Sequence[Reading], within: tuple[int, int] | None
) -> Program | None:
    """Return the CPU use of a process between two times; None without two readings of a thread."""
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
    """Return the times of the first and last reading of a process [ns]; None if there is no reading."""
    times = [
        seen.begin_ns
        for reading in readings
        for seen in reading.observations
        if any(row.process == process for row in seen.threads)
    ]
    return (times[0], times[-1]) if times else None


def strangers(readings: Sequence[Reading]) -> float:
    """Return the minimum number of CPUs that processes outside the trial used on a kernel, over a series of readings.

    Soft interrupts are not counted, because those of the stream run on arbitrary CPUs.
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
    """Return the CPU use of processes outside the trial for every kernel with at least two readings [CPUs]."""
    return {kernel: strangers(readings) for kernel, readings in series.items() if len(readings) > 1}
