"""What CPUs and threads did during a load trial, from readings before and after. Pure."""

from collections.abc import Mapping, Sequence

from iolab.agent.messages import CpuTimes, Reading, ThreadTimes
from iolab.agent.traffic import ThreadUse, TrafficRan
from iolab.lab.packets.placement import Way
from iolab.results.verdict import KERNEL, SENDERS, CpuUse, Thread
from iolab.trial.lab_access import Site

SOFTIRQ = "ksoftirqd/"
IDLE_RATIO = 0.01
"""Threads of the kernel that did less are left out."""
CLASSES = ("user_ns", "nice_ns", "system_ns", "irq_ns", "softirq_ns", "steal_ns", "idle_ns", "iowait_ns")


def threads_read(reading: Reading) -> dict[int, ThreadTimes]:
    """Return the times of each thread, by thread id."""
    return {row.tid: row for row in reading.threads()}


def run_and_wait(before: ThreadTimes, after: ThreadTimes, span_ns: int) -> tuple[float, float]:
    """Return which part of a time a thread ran, and which it waited for a CPU: together all of it at most."""
    return _ratios(after.run_ns - before.run_ns, after.wait_ns - before.wait_ns, span_ns)


def thread_uses(
    site: Site,
    directions: Sequence[Way],
    ran: TrafficRan,
    before: Mapping[int, ThreadTimes],
    after: Mapping[int, ThreadTimes],
) -> tuple[Thread, ...]:
    """Return every thread that frames pass, in the order of the way."""
    span_ns = max(1, *(sender.end_ns - sender.begin_ns for sender in ran.senders))
    found: list[Thread] = []
    for index, way in enumerate(directions):
        sender = ran.senders[index]
        found += [
            _own("generator", way.source.ref, use, span_ns)
            for use in (sender.thread, *sender.further_threads)
        ]
        for ref in way.arrivals:
            thread = site.threads.get(ref)
            if thread is None:
                continue
            role = "napi" if ref == way.target.ref else "device"
            for pid in (pid for pid in thread.pids if pid in before and pid in after):
                busy, wait = run_and_wait(before[pid], after[pid], span_ns)
                found.append(Thread(after[pid].name, role, ref, thread.cpu, busy, wait))
        receiver = next(one for one in ran.receivers if one.of == index)
        found.append(_own("receiver", way.target.ref, receiver.thread, span_ns))
    return tuple(found)


def kernel_threads(before: Reading, after: Reading, span_ns: int, prefix: str = "") -> tuple[Thread, ...]:
    """Return the threads that do the kernel's soft interrupts where these are too many, as far as they ran."""
    earlier = threads_read(before)
    found: list[Thread] = []
    for row in after.threads():
        if row.process is None and row.name.startswith(SOFTIRQ):
            busy, wait = run_and_wait(earlier.get(row.tid, row), row, span_ns)
            if busy >= IDLE_RATIO:
                found.append(Thread(f"{prefix}{row.name}", KERNEL, "", row.last_cpu, busy, wait))
    return tuple(found)


def _own(role: str, place: str, use: ThreadUse, span_ns: int) -> Thread:
    return Thread(role, role, place, use.cpu, *_ratios(use.run_ns, use.wait_ns, span_ns))


def _ratios(run_ns: int, wait_ns: int, span_ns: int) -> tuple[float, float]:
    busy_ratio = min(1.0, run_ns / max(1, span_ns))
    return busy_ratio, min(1.0 - busy_ratio, wait_ns / max(1, span_ns))


def cpu_uses(before: Reading, after: Reading, kernel: str = SENDERS) -> tuple[CpuUse, ...]:
    """Return what every CPU of a kernel did; it counts in ticks of 10 ms."""
    found: list[CpuUse] = []
    for earlier, later in zip(before.cpu_times(), after.cpu_times(), strict=True):
        spent = _spent(earlier, later)
        total = sum(spent.values())
        if total:
            idle = spent["idle_ns"] + spent["iowait_ns"]
            found.append(
                CpuUse(
                    cpu=later.cpu,
                    busy_ratio=(total - idle) / total,
                    softirq_ratio=spent["softirq_ns"] / total,
                    steal_ratio=spent["steal_ns"] / total,
                    kernel=kernel,
                )
            )
    return tuple(found)


def steal_ns(before: Reading, after: Reading) -> int:
    """Return what the hypervisor took from all CPUs [ns]."""
    pairs = zip(before.cpu_times(), after.cpu_times(), strict=True)
    return sum(max(0, later.steal_ns - earlier.steal_ns) for earlier, later in pairs)


def _spent(earlier: CpuTimes, later: CpuTimes) -> dict[str, int]:
    return {name: max(0, getattr(later, name) - getattr(earlier, name)) for name in CLASSES}
