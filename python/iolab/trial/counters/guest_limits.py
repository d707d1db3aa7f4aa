"""What limited a guest that lost frames: a thread of it without time left, or one that did not get its CPU. Pure.

What its threads did on their parent says it; of a guest that is itself set up wrongly the place alone is known.
"""

from collections.abc import Sequence

from iolab.experiment.model.quantities import PortRef
from iolab.messages.drop_reasons import DropReason, LostBetween, NeverRead, RingFull
from iolab.messages.evidence import (
    Evidence,
    GuestIdle,
    GuestThreadMoved,
    GuestThreadPolls,
    GuestThreadRan,
    GuestWaited,
)
from iolab.messages.places import AtMachineCpu, AtPort, InMachineKernel, Place
from iolab.results.balance import Drop
from iolab.results.search import LoadResult
from iolab.results.verdict import BUSY_RATIO, GUEST, CpuUse, Limit, Thread, Verdict
from iolab.trial.counters.cpu_waits import WAITING_RATIO, Starved, starved
from iolab.trial.counters.drops import OVERRUNS, QDISC, leading

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
    if not isinstance(leading(worst.reason), RingFull | NeverRead | LostBetween):
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
    unread = isinstance(leading(worst.reason), RingFull | NeverRead)
    return not thread.polls or (AtPort(port=thread.polls) == worst.place and unread)


def _may_be_overrun(reason: DropReason) -> bool:
    """Tell whether frames are lost for this reason where a guest has no time for them; others are decisions."""
    first = leading(reason)
    return first == QDISC or first in OVERRUNS or isinstance(first, NeverRead | LostBetween)
