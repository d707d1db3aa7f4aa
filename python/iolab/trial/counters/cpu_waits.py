"""Find threads that waited for a CPU, the threads that used this CPU, and guests that were limited by the wait. Pure.

The waiting time of a thread is the kernel's own count of the time in which the thread was runnable without a CPU. The
busy time of a CPU covers more time than the trial, because CPU counters are read after the drain. A guest's limit is
determined from its threads on the host. For a misconfigured guest, the module reports only the place of the loss.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from iolab.experiment.model.quantities import PortRef
from iolab.messages.caveats import Caveat, OthersOnCpu
from iolab.messages.drop_reasons import DropReason, LostBetween, NeverRead
from iolab.messages.evidence import (
    CpuBusy,
    CpuInSoftirq,
    CpuInSteal,
    CpuOccupied,
    CpusBusy,
    CpuSharers,
    CpuStrangers,
    Evidence,
    GuestIdle,
    GuestThreadMoved,
    GuestThreadPolls,
    GuestThreadRan,
    GuestWaited,
    MachineCpu,
    OwnCpu,
    ThreadRan,
    ThreadShare,
    ThreadWaited,
)
from iolab.messages.places import AtMachineCpu, AtPort, InMachineKernel, Place
from iolab.results.packets import Drop
from iolab.results.search import LoadResult
from iolab.results.verdict import BUSY_RATIO, GUEST, CpuUse, Limit, Thread, Verdict
from iolab.trial.counters.drops import OVERRUNS, QDISC, RING_FULL, leading

WAITING_RATIO = 0.3
"""Share of time waiting for its CPU above which a thread is short of CPU time [ratio]."""
READY_RATIO = 0.9
"""Share of time running or waiting above which a thread is saturated, even if its CPU was not fully busy [ratio]."""
BEYOND_RATIO = 0.9
"""Tolerance when a CPU's busy time is compared with the run time of its threads: the kernel counts CPU time in ticks
[ratio]."""
STRANGERS_CPUS = 0.25
"""Minimum CPU use of unknown processes that may explain why a thread waited [CPUs]; on an idle host, unknown processes
use less."""
CLEAR_RATIO = 0.5
"""Maximum CPU use of unknown processes, relative to that of the system under test, at which a verdict is not doubtful
[ratio]."""
INSTRUMENT_ROLES = frozenset({"generator", "receiver", "napi"})
"""Roles of the threads that send and receive a trial's frames."""
TOLD_RATIO = 0.02
"""Minimum CPU use at which a thread or interrupt is named in the evidence [ratio]."""


@dataclass(frozen=True, slots=True)
class Starved:
    """A thread that waited for a CPU."""

    seen: tuple[Evidence, ...]
    """Evidence of the thread's CPU time, and of the threads that used the rest of the CPU."""
    anywhere: bool = False
    """Whether the thread waited for any CPU; otherwise the thread stayed on one CPU."""
    others_ratio: float = 1.0
    """Maximum use of the thread's CPU by threads other than the known ones [ratio]."""
    strangers_cpus: float = 0.0
    """CPU use of processes outside the trial, on the CPUs that the thread needed [CPUs]."""
    device_cpus: float = 0.0
    """CPU use of the system under test, on the CPUs that the thread needed [CPUs]."""
    by_instrument: bool = False
    """Whether senders and receivers used more of the CPUs than the system under test and unknown processes."""

    @property
    def doubt(self) -> Caveat | None:
        """Return a caveat if processes outside the trial may have caused the wait; None if they used too little CPU
        time."""
        if self.strangers_cpus < max(STRANGERS_CPUS, CLEAR_RATIO * self.device_cpus):
            return None
        return OthersOnCpu(others_ratio=min(1.0, self.strangers_cpus))


def starved(
    result: LoadResult,
    waiting: Thread,
    cpus: Sequence[CpuUse],
    threads: Sequence[Thread],
    least_ratio: float = WAITING_RATIO,
) -> Starved | None:
    """Return why a thread waited for a CPU; None if the wait was too short, or if no CPU's use explains the wait."""
    wait_ratio = waiting.waited
    if wait_ratio < least_ratio:
        return None
    had = ThreadWaited(
        thread=waiting.name,
        place=waiting.place,
        busy_ratio=waiting.busy_ratio,
        wait_ratio=wait_ratio,
    )
    ready_ratio = waiting.busy_ratio + wait_ratio
    beside = neighbours(waiting, threads)
    known_ratio = waiting.busy_ratio + sum(one.busy_ratio for one in beside)
    cpu = _cpu(waiting, cpus)
    read = 1 + result.overhead_ns / result.duration_ns
    if cpu is None or max(ready_ratio, known_ratio) * BEYOND_RATIO > cpu.busy_ratio * read:
        own = [one for one in cpus if one.kernel == waiting.kernel]
        return _anywhere(
            had, own, [one for one in threads if one.kernel == waiting.kernel], read
        )  # the thread ran on several CPUs
    if cpu.busy_ratio < BUSY_RATIO and ready_ratio < READY_RATIO:
        return None
    others_ratio = max(0.0, min(1.0, cpu.busy_ratio * read) - known_ratio)
    strangers_ratio = others_ratio - (cpu.steal_ratio + cpu.softirq_ratio) * read
    strangers = strangers_ratio > 1 - BEYOND_RATIO
    others = (CpuStrangers(strangers_ratio=strangers_ratio),) if strangers else ()
    return Starved(
        seen=(*_busy(cpu), had, *_sharers(beside), *others),
        others_ratio=others_ratio,
        strangers_cpus=max(0.0, strangers_ratio),
        device_cpus=_of_device((waiting, *beside)),
        by_instrument=_is_by_instrument((waiting, *beside), strangers_ratio),
    )


def shared(thread: Thread, cpus: Sequence[CpuUse], threads: Sequence[Thread]) -> Starved | None:
    """Return evidence that a thread shared a fully busy CPU, and mostly with threads of the trial; else None."""
    beside = neighbours(thread, threads)
    cpu = _cpu(thread, cpus)
    if cpu is None or cpu.busy_ratio < BUSY_RATIO:
        return None
    beside_ratio = sum(one.busy_ratio for one in beside)
    others_ratio = max(0.0, cpu.busy_ratio - thread.busy_ratio - beside_ratio)
    if beside_ratio <= others_ratio:
        return None  # programs of lower priority keep a CPU busy too
    ran = ThreadRan(thread=thread.name, busy_ratio=thread.busy_ratio)
    return Starved((*_busy(cpu), ran, *_sharers(beside)), others_ratio=others_ratio)


def neighbours(thread: Thread, threads: Sequence[Thread]) -> list[Thread]:
    """Return the other threads that used a thread's CPU."""
    where = (thread.kernel, thread.cpu)
    same = (one for one in threads if (one.kernel, one.cpu) == where and one is not thread)
    return [one for one in same if one.busy_ratio > TOLD_RATIO]


def _cpu(thread: Thread, cpus: Sequence[CpuUse]) -> CpuUse | None:
    return next((one for one in cpus if (one.kernel, one.cpu) == (thread.kernel, thread.cpu)), None)


def _is_by_instrument(threads: Sequence[Thread], strangers: float) -> bool:
    own = sum(one.busy_ratio for one in threads if one.role in INSTRUMENT_ROLES)
    return own > max(strangers, _of_device(threads))


def _of_device(threads: Sequence[Thread]) -> float:
    """Return the CPU use of the system under test's threads [CPUs]."""
    return sum(one.busy_ratio for one in threads if one.role not in INSTRUMENT_ROLES)


def _anywhere(
    had: ThreadWaited, cpus: Sequence[CpuUse], threads: Sequence[Thread], read: float
) -> Starved | None:
    """Return evidence that a thread waited for any CPU; None if one of the CPUs was not busy.

    `threads` are the trial's threads on the kernel; `read` is the time between readings, relative to the trial's time.
    """
    least_ratio = min((one.busy_ratio for one in cpus), default=0.0)
    if least_ratio < BUSY_RATIO:
        return None
    of_programs = sum(one.busy_ratio - one.softirq_ratio - one.steal_ratio for one in cpus) * read
    known = sum(one.busy_ratio for one in threads)
    strangers = max(0.0, min(of_programs, float(len(cpus))) - known)
    own = [one for one in threads if one.role in INSTRUMENT_ROLES and one.busy_ratio > TOLD_RATIO]
    by_instrument = _is_by_instrument(threads, strangers)
    return Starved(
        seen=(CpusBusy(busy_ratio=least_ratio), had, *(_sharers(own) if by_instrument else ())),
        anywhere=True,
        strangers_cpus=strangers,
        device_cpus=_of_device(threads),
        by_instrument=by_instrument,
    )


def _busy(use: CpuUse) -> Iterator[Evidence]:
    """Yield evidence of a CPU's busy time, and of its steal and soft interrupt time."""
    cpu = MachineCpu(cpu=use.cpu, machine=use.kernel) if use.kernel else OwnCpu(cpu=use.cpu)
    busy_ratio = use.busy_ratio
    yield CpuBusy(cpu=cpu, busy_ratio=busy_ratio) if busy_ratio >= BUSY_RATIO else CpuOccupied(cpu=cpu)
    if use.steal_ratio > TOLD_RATIO:
        yield CpuInSteal(steal_ratio=use.steal_ratio)
    if use.softirq_ratio > TOLD_RATIO:
        yield CpuInSoftirq(softirq_ratio=use.softirq_ratio)


def _sharers(threads: Sequence[Thread]) -> Iterator[Evidence]:
    shares = tuple(ThreadShare(thread=one.name, busy_ratio=one.busy_ratio) for one in threads)
    if shares:
        yield CpuSharers(sharers=shares)


STARVED_RATIO = 0.8
"""Threshold that replaces WAITING_RATIO for a guest that forwarded no frame: a guest that is not configured to forward
needs little CPU time [ratio]."""
STOPPED_RATIO = 0.001
"""Minimum CPU use of a running guest's busiest thread [ratio]: the timers of an idle guest use more."""


def guest_verdict(
    result: LoadResult,
    worst: Drop,
    lost: Evidence,
    cpus: Sequence[CpuUse],
    threads: Sequence[Thread],
) -> Verdict | None:
    """Return a verdict if frames were lost at a guest whose threads on the host were saturated or waited for a CPU;
    else None."""
    machine = _machine_of(worst.place)
    own = _own(worst, threads)
    busiest = max(own, key=lambda one: one.busy_ratio, default=None)
    if busiest is None:
        return None
    if busiest.busy_ratio >= BUSY_RATIO:
        polls = (GuestThreadPolls(thread=busiest.name),) if busiest.polls else ()
        return Verdict(Limit.THREAD, (_ran(machine, busiest, cpus), *polls, lost), worst.place)
    if busiest.busy_ratio < STOPPED_RATIO:
        return Verdict(Limit.HOP, (lost, GuestIdle(machine=machine)), worst.place)
    short = starved_guest(result, worst, cpus, threads)
    if short is not None:
        # If a guest's thread waited for the instrument, the guest is not the limit.
        limit = Limit.HOST if short.by_instrument else Limit.CPU
        return Verdict(limit, (*short.seen, lost), worst.place, short.doubt)
    waited = GuestWaited(
        thread=busiest.name,
        machine=machine,
        busy_ratio=busiest.busy_ratio,
        wait_ratio=busiest.waited,
    )
    return Verdict(Limit.HOP, (lost, waited), worst.place)


def _ran(machine: str, busiest: Thread, cpus: Sequence[CpuUse]) -> Evidence:
    """Return evidence of the run time of a guest's busiest thread."""
    beside = [cpu for cpu in cpus if cpu.kernel == busiest.kernel]
    idle_ratio = sum(1 - cpu.busy_ratio for cpu in beside) / len(beside) if beside else 0.0
    name, busy_ratio = busiest.name, busiest.busy_ratio
    if busiest.cpu is None:
        return GuestThreadMoved(thread=name, machine=machine, busy_ratio=busy_ratio, idle_ratio=idle_ratio)
    return GuestThreadRan(
        thread=name, machine=machine, busy_ratio=busy_ratio, cpu=busiest.cpu, idle_ratio=idle_ratio
    )


def starved_guest(
    result: LoadResult, worst: Drop, cpus: Sequence[CpuUse], threads: Sequence[Thread]
) -> Starved | None:
    """Return why the guest's busiest waiting thread waited, if the wait explains the lost frames; else None."""
    first = leading(worst.reason)
    if first != RING_FULL and not isinstance(first, NeverRead | LostBetween):
        return None  # frames are lost inside a guest while the guest runs
    least_ratio = WAITING_RATIO if result.forwarded_frames else STARVED_RATIO
    for thread in sorted(_own(worst, threads), key=lambda one: -one.busy_ratio):
        short = starved(result, thread, cpus, threads, least_ratio)
        # A guest that forwards nothing may be misconfigured: only a thread that stayed on one CPU counts.
        if short is not None and (result.forwarded_frames or not short.anywhere):
            return short
    return None


def _machine_of(place: Place) -> str:
    """Return the machine at a place in the lab; empty if no machine is there."""
    match place:
        case AtPort():
            return PortRef(place.port).machine
        case AtMachineCpu() | InMachineKernel():
            return place.machine
        case _:
            return ""


def _own(worst: Drop, threads: Sequence[Thread]) -> list[Thread]:
    """Return the threads of the guest at the place of the loss, if the guest may have been overrun."""
    if not _may_be_overrun(worst.reason):
        return []
    machine = _machine_of(worst.place)
    return [one for one in threads if one.role == GUEST and one.place == machine and _tells(one, worst)]


def _tells(thread: Thread, worst: Drop) -> bool:
    """Whether a thread's busy or waiting time is evidence.

    A polling thread is always busy; its busy time is evidence only if frames were lost in a queue that it alone reads.
    """
    first = leading(worst.reason)
    unread = first == RING_FULL or isinstance(first, NeverRead)
    return not thread.polls or (AtPort(port=thread.polls) == worst.place and unread)


def _may_be_overrun(reason: DropReason) -> bool:
    """Whether a drop reason may mean that a guest was overrun; other reasons are deliberate drops."""
    first = leading(reason)
    return first == QDISC or first in OVERRUNS or isinstance(first, NeverRead | LostBetween)
