"""Threads that were ready to take frames in and waited for a CPU, who had it, and guests limited by that. Pure.

The time that a thread waited is the kernel's own figure for what a taken CPU cost it, whoever took it. How busy the CPU
was is known only over a longer time than the trial's: the counters are read behind the drained barrier. What limited a
guest, its threads on their parent say; of a guest that is itself set up wrongly the place alone is known.
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
"""A thread that waited for its CPU so much of the time did not get what it needed."""
READY_RATIO = 0.9
"""A thread that ran or waited so much of the time had none left, however much of it was its CPU's doing."""
BEYOND_RATIO = 0.9
"""Of a CPU's time, what is enough to account for it: the kernel counts it in ticks."""
STRANGERS_CPUS = 0.25
"""So many CPUs of unknown work may be why a thread waited; a calm host has less."""
CLEAR_RATIO = 0.5
"""Of what the system under test had, what unknown programs may have had while it is clear what the limit is."""
INSTRUMENT_ROLES = frozenset({"generator", "receiver", "napi"})
"""Threads that send and receive the frames of a trial."""
TOLD_RATIO = 0.02
"""What used less of a CPU is not named."""


@dataclass(frozen=True, slots=True)
class Starved:
    """A thread that did not get the CPU it needed."""

    seen: tuple[Evidence, ...]
    """What it got, and who had the rest."""
    anywhere: bool = False
    """Whether it waited for any CPU; otherwise it stayed on one."""
    others_ratio: float = 1.0
    """What had its CPU beyond the known threads, at most."""
    strangers_cpus: float = 0.0
    """CPUs that programs had which the trial does not know, of those that it needed."""
    device_cpus: float = 0.0
    """CPUs that the threads of the system under test had, of these."""
    by_instrument: bool = False
    """Whether senders and receivers had more of the CPUs than the system under test and unknown programs."""

    @property
    def doubt(self) -> Caveat | None:
        """Return that programs outside the trial may be why; None: they had too little."""
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
    """Return what kept a thread from its CPU; None: it did not wait so much, or no CPU is seen to be why."""
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
        )  # it was elsewhere for a part of the time
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
    """Return that a thread shared a CPU without time left, if threads of the trial had most of what it had not."""
    beside = neighbours(thread, threads)
    cpu = _cpu(thread, cpus)
    if cpu is None or cpu.busy_ratio < BUSY_RATIO:
        return None
    beside_ratio = sum(one.busy_ratio for one in beside)
    others_ratio = max(0.0, cpu.busy_ratio - thread.busy_ratio - beside_ratio)
    if beside_ratio <= others_ratio:
        return None  # work of lower priority keeps a CPU busy, too
    ran = ThreadRan(thread=thread.name, busy_ratio=thread.busy_ratio)
    return Starved((*_busy(cpu), ran, *_sharers(beside)), others_ratio=others_ratio)


def neighbours(thread: Thread, threads: Sequence[Thread]) -> list[Thread]:
    """Return the other threads that used the CPU of one."""
    where = (thread.kernel, thread.cpu)
    same = (one for one in threads if (one.kernel, one.cpu) == where and one is not thread)
    return [one for one in same if one.busy_ratio > TOLD_RATIO]


def _cpu(thread: Thread, cpus: Sequence[CpuUse]) -> CpuUse | None:
    return next((one for one in cpus if (one.kernel, one.cpu) == (thread.kernel, thread.cpu)), None)


def _is_by_instrument(threads: Sequence[Thread], strangers: float) -> bool:
    own = sum(one.busy_ratio for one in threads if one.role in INSTRUMENT_ROLES)
    return own > max(strangers, _of_device(threads))


def _of_device(threads: Sequence[Thread]) -> float:
    """Return the CPUs that threads of the system under test had."""
    return sum(one.busy_ratio for one in threads if one.role not in INSTRUMENT_ROLES)


def _anywhere(
    had: ThreadWaited, cpus: Sequence[CpuUse], threads: Sequence[Thread], read: float
) -> Starved | None:
    """Return that a thread waited for any CPU; None: one of them was not busy.

    `threads` are the trial's on that kernel; `read` is the time between readings, in times of the trial's.
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
    """Yield how busy a CPU was, and with what it was that no thread has."""
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
"""Instead of WAITING_RATIO, where it passed nothing on at all: a guest that is not set up to does not need its CPU."""
STOPPED_RATIO = 0.001
"""A guest whose busiest thread ran no more was stopped: an idle one's timers run more."""


def guest_verdict(
    result: LoadResult,
    worst: Drop,
    lost: Evidence,
    cpus: Sequence[CpuUse],
    threads: Sequence[Thread],
) -> Verdict | None:
    """Return the verdict where frames were lost at a guest whose threads on the parent had, or got, no time left."""
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
        # A guest whose thread waited for the instrument is not what the rate is of.
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
    """Return for how much of the time the busiest thread of a guest ran."""
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
    """Return what kept the busiest of a guest's threads that waited from its CPU, if frames were lost for that."""
    first = leading(worst.reason)
    if first != RING_FULL and not isinstance(first, NeverRead | LostBetween):
        return None  # what is lost inside the guest is lost while it runs
    least_ratio = WAITING_RATIO if result.forwarded_frames else STARVED_RATIO
    for thread in sorted(_own(worst, threads), key=lambda one: -one.busy_ratio):
        short = starved(result, thread, cpus, threads, least_ratio)
        # One that passes nothing on may be set up wrongly: only the CPU it stayed on is evidence then.
        if short is not None and (result.forwarded_frames or not short.anywhere):
            return short
    return None


def _machine_of(place: Place) -> str:
    """Return the machine that a place is on; empty: it is on none in particular."""
    match place:
        case AtPort():
            return PortRef(place.port).machine
        case AtMachineCpu() | InMachineKernel():
            return place.machine
        case _:
            return ""


def _own(worst: Drop, threads: Sequence[Thread]) -> list[Thread]:
    """Return the threads of the guest at which frames were lost, if it may have had no time for them."""
    if not _may_be_overrun(worst.reason):
        return []
    machine = _machine_of(worst.place)
    return [one for one in threads if one.role == GUEST and one.place == machine and _tells(one, worst)]


def _tells(thread: Thread, worst: Drop) -> bool:
    """Tell whether it says something that a thread was busy, or waited.

    One that polls is busy whatever comes; where frames were left in a queue that only it reads, it did not keep up.
    """
    first = leading(worst.reason)
    unread = first == RING_FULL or isinstance(first, NeverRead)
    return not thread.polls or (AtPort(port=thread.polls) == worst.place and unread)


def _may_be_overrun(reason: DropReason) -> bool:
    """Tell whether frames are lost for this reason where a guest has no time for them; others are decisions."""
    first = leading(reason)
    return first == QDISC or first in OVERRUNS or isinstance(first, NeverRead | LostBetween)
