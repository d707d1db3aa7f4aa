"""What limited a guest that lost frames: a thread of it without time left, or one that did not get its CPU. Pure.

What its threads did on their parent says it; a guest that is itself set up wrongly is told of by the place alone.
"""

from collections.abc import Sequence

from iolab.trial.balance import BETWEEN, OVERRUNS, QDISC, RING_FULL, UNREAD, Drop
from iolab.trial.limits import BUSY_RATIO, GUEST, CpuUse, Limit, Thread, Verdict
from iolab.trial.search.types import LoadResult

WAITING_RATIO = 0.3
"""A thread that waited for its CPU so much of the time did not get what it needed."""
STARVED_RATIO = 0.8
"""The same, where it passed nothing on at all: a guest that is not set up to does not need its CPU."""
STOPPED_RATIO = 0.001
"""A guest whose busiest thread ran no more was stopped: an idle one's timers run more."""
BEYOND_RATIO = 0.9
"""Of a busy CPU's time, what its known threads must have if nobody else is to be told of."""
LOOKING = ", which looks for frames all the time and left these unread,"


def guest_verdict(
    result: LoadResult,
    worst: Drop,
    lost: str,
    figures: dict[str, float],
    cpus: Sequence[CpuUse],
    threads: Sequence[Thread],
) -> Verdict | None:
    """Return the verdict where frames were lost at a guest whose threads on the parent had, or got, no time left."""
    machine = worst.place.partition(" ")[0].partition(".")[0]
    own = [one for one in threads if one.role == GUEST and one.place == machine and _tells(one, worst)]
    busiest = max(own, key=lambda one: one.busy_ratio, default=None)
    if busiest is None or not _may_be_overrun(worst.reason):
        return None
    figures = {**figures, "thread_busy_ratio": busiest.busy_ratio}
    if busiest.busy_ratio >= BUSY_RATIO:
        idle = sum(1 - cpu.busy_ratio for cpu in cpus) / len(cpus) if cpus else 0.0
        text = (
            f"thread {busiest.name} of {machine}{LOOKING if busiest.polls else ''} "
            f"ran {busiest.busy_ratio:.0%} of the time, "
            f"{'on several CPUs' if busiest.cpu is None else f'on CPU {busiest.cpu}'}, "
            f"while the host's CPUs were {idle:.0%} idle; {lost}"
        )
        return Verdict(Limit.THREAD, text, worst.place, {**figures, "idle_ratio": idle})
    if busiest.busy_ratio < STOPPED_RATIO:
        text = f"{lost}; no thread of {machine} ran meanwhile: is its hypervisor stopped?"
        return Verdict(Limit.HOP, text, worst.place, figures)
    least_ratio = WAITING_RATIO if result.forwarded_frames else STARVED_RATIO
    starved = [one for one in own if one.wait_ratio >= least_ratio]
    waiting = max(starved, key=lambda one: one.busy_ratio, default=None)
    # What is lost inside the guest is lost while it runs.
    if waiting is not None and worst.reason.startswith((RING_FULL, UNREAD, BETWEEN)):
        found = _starved_guest(worst, lost, figures, cpus, threads, waiting)
        # One that passes nothing on may be set up wrongly: only the CPU it stayed on is evidence then.
        if found is not None and (result.forwarded_frames or "cpu_busy_ratio" in found.figures):
            return found
    ran = f"the busiest thread of {machine}, {busiest.name}, ran {busiest.busy_ratio:.0%} of the time"
    return Verdict(
        Limit.HOP, f"{lost}; {ran} and waited for a CPU {busiest.wait_ratio:.0%}", worst.place, figures
    )


def _starved_guest(
    worst: Drop,
    lost: str,
    figures: dict[str, float],
    cpus: Sequence[CpuUse],
    threads: Sequence[Thread],
    waiting: Thread,
) -> Verdict | None:
    """Return the verdict where other work had the CPU that a guest's thread waited for; None: it was not busy."""
    had = (
        f"{waiting.name} of {waiting.place} running {waiting.busy_ratio:.0%} and waiting for {{}} "
        f"{waiting.wait_ratio:.0%} of the time"
    )
    figures = {**figures, "thread_wait_ratio": waiting.wait_ratio}
    cpu = next((one for one in cpus if one.cpu == waiting.cpu), None)
    beside = [
        one for one in threads if one.cpu == waiting.cpu and one is not waiting and one.busy_ratio > 0.02
    ]
    known = waiting.busy_ratio + sum(one.busy_ratio for one in beside)
    if cpu is None or known > cpu.busy_ratio / BEYOND_RATIO:  # it was elsewhere for a part of the time
        if not cpus or min(one.busy_ratio for one in cpus) < BUSY_RATIO:
            return None
        least = min(one.busy_ratio for one in cpus)
        text = f"all CPUs were {least:.0%} busy or more, {had.format('one')}; {lost}"
        return Verdict(Limit.CPU, text, worst.place, figures)
    if cpu.busy_ratio < BUSY_RATIO:
        return None
    names = ", ".join(f"{one.name} {one.busy_ratio:.0%}" for one in beside)
    others = f"beside {names}" if names else "beside"
    if known < BEYOND_RATIO * cpu.busy_ratio:
        others += f"{' and' if names else ''} {max(0.0, cpu.busy_ratio - known):.0%} of work that is not of this trial"
    text = f"CPU {cpu.cpu} was {cpu.busy_ratio:.0%} busy, {had.format('it')}, {others}; {lost}"
    return Verdict(Limit.CPU, text, worst.place, {**figures, "cpu_busy_ratio": cpu.busy_ratio})


def _tells(thread: Thread, worst: Drop) -> bool:
    """Tell whether it says something that a thread was busy, or waited.

    One that polls is busy whatever comes; where frames were left in a queue that only it reads, it did not keep up.
    """
    return not thread.polls or (thread.polls == worst.place and worst.reason.startswith((RING_FULL, UNREAD)))


def _may_be_overrun(reason: str) -> bool:
    """Tell whether frames are lost for this reason where a guest has no time for them; others are decisions."""
    return reason.startswith((*OVERRUNS, QDISC, UNREAD, BETWEEN))
