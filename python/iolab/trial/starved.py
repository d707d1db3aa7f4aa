"""Threads that were ready to take frames in and waited for a CPU, and who had it meanwhile. Pure.

The time that a thread waited is the kernel's own figure for what a taken CPU cost it, whoever took it. How busy the CPU
was is known only over a longer time than the trial's: the counters are read behind the drained barrier.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from iolab.record.search import LoadResult
from iolab.record.verdict import BUSY_RATIO, CpuUse, Thread

WAITING_RATIO = 0.3
"""A thread that waited for its CPU so much of the time did not get what it needed."""
READY_RATIO = 0.9
"""A thread that ran or waited so much of the time had none left, however much of it was its CPU's doing."""
BEYOND_RATIO = 0.9
"""Of a CPU's time, what is enough to account for it: the kernel counts it in ticks."""
TOLD_RATIO = 0.02
"""What used less of a CPU is not told of."""


@dataclass(frozen=True, slots=True)
class Starved:
    """A thread that did not get the CPU it needed."""

    text: str
    """What it got, and who had the rest."""
    figures: dict[str, float]
    """By name, with the unit in it."""
    others_ratio: float = 1.0
    """What had its CPU beyond the known threads, at most."""


def starved(
    result: LoadResult,
    waiting: Thread,
    cpus: Sequence[CpuUse],
    threads: Sequence[Thread],
    least_ratio: float = WAITING_RATIO,
) -> Starved | None:
    """Return what kept a thread from its CPU; None: it did not wait so much, or no CPU is seen to be why."""
    if waiting.wait_ratio < least_ratio:
        return None
    had = (
        f"{waiting.name} of {waiting.place} running {waiting.busy_ratio:.0%} and waiting for {{}} "
        f"{waiting.wait_ratio:.0%} of the time"
    )
    figures = {"thread_wait_ratio": waiting.wait_ratio}
    ready_ratio = waiting.busy_ratio + waiting.wait_ratio
    beside = neighbours(waiting, threads)
    known_ratio = waiting.busy_ratio + sum(one.busy_ratio for one in beside)
    cpu = _cpu(waiting, cpus)
    read = 1 + result.overhead_ns / result.duration_ns
    if cpu is None or max(ready_ratio, known_ratio) * BEYOND_RATIO > cpu.busy_ratio * read:
        own = [one for one in cpus if one.kernel == waiting.kernel]
        return _anywhere(had, figures, own)  # it was elsewhere for a part of the time
    if cpu.busy_ratio < BUSY_RATIO and ready_ratio < READY_RATIO:
        return None
    others_ratio = max(0.0, min(1.0, cpu.busy_ratio * read) - known_ratio)
    strangers_ratio = others_ratio - (cpu.steal_ratio + cpu.softirq_ratio) * read
    names = [f"{one.name} {one.busy_ratio:.0%}" for one in beside]
    if strangers_ratio > 1 - BEYOND_RATIO:
        names.append(f"{strangers_ratio:.0%} of work that is not of this trial")
    text = f"{_named(cpu)} {_state(cpu)}, {had.format('it')}, beside {joined(names) or 'others'}"
    return Starved(text, {**figures, "cpu_busy_ratio": cpu.busy_ratio}, others_ratio)


def shared(thread: Thread, cpus: Sequence[CpuUse], threads: Sequence[Thread]) -> Starved | None:
    """Return with whom a thread shared a CPU without time left, if threads of the trial had most of what it had not."""
    beside = neighbours(thread, threads)
    cpu = _cpu(thread, cpus)
    if cpu is None or cpu.busy_ratio < BUSY_RATIO:
        return None
    beside_ratio = sum(one.busy_ratio for one in beside)
    others_ratio = max(0.0, cpu.busy_ratio - thread.busy_ratio - beside_ratio)
    if beside_ratio <= others_ratio:
        return None  # work of lower priority keeps a CPU busy, too
    names = ", ".join(one.name for one in beside)
    text = f"{_named(cpu)} {_state(cpu)}, {thread.name} having {thread.busy_ratio:.0%} of it beside {names}"
    return Starved(text, {"cpu_busy_ratio": cpu.busy_ratio}, others_ratio)


def neighbours(thread: Thread, threads: Sequence[Thread]) -> list[Thread]:
    """Return the other threads that used the CPU of one."""
    where = (thread.kernel, thread.cpu)
    same = (one for one in threads if (one.kernel, one.cpu) == where and one is not thread)
    return [one for one in same if one.busy_ratio > TOLD_RATIO]


def joined(names: Sequence[str]) -> str:
    """Return names as one does in a sentence."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def _cpu(thread: Thread, cpus: Sequence[CpuUse]) -> CpuUse | None:
    return next((one for one in cpus if (one.kernel, one.cpu) == (thread.kernel, thread.cpu)), None)


def _named(cpu: CpuUse) -> str:
    return f"CPU {cpu.cpu} of {cpu.kernel}" if cpu.kernel else f"CPU {cpu.cpu}"


def _anywhere(had: str, figures: dict[str, float], cpus: Sequence[CpuUse]) -> Starved | None:
    """Return that a thread waited for any CPU; None: one of them was not busy."""
    least_ratio = min((one.busy_ratio for one in cpus), default=0.0)
    if least_ratio < BUSY_RATIO:
        return None
    return Starved(f"all CPUs were {least_ratio:.0%} busy or more, {had.format('one')}", figures)


def _state(cpu: CpuUse) -> str:
    """Return how busy a CPU was, and with what it was that no thread has."""
    taken = [("steal", cpu.steal_ratio), ("soft interrupts", cpu.softirq_ratio)]
    kinds = ", ".join(f"{ratio:.0%} {name}" for name, ratio in taken if ratio > TOLD_RATIO)
    state = f"was {cpu.busy_ratio:.0%} busy" if cpu.busy_ratio >= BUSY_RATIO else "had other work"
    return f"{state} ({kinds})" if kinds else state
