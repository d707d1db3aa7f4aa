"""Compute the use of CPUs and threads, including those of guests, from readings before and after a load trial. Pure.

The threads of virtual machines (virtual CPUs, vhost, switches, hypervisor threads) show the CPU time that a guest
receives on its host: a guest whose vhost thread is saturated loses frames even if every CPU has idle time.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count

from iolab.agent.answers import Reading
from iolab.agent.messages import CpuTimes, ThreadTimes, ThreadUse
from iolab.agent.traffic import TrafficRan
from iolab.lab.kernels import HERE
from iolab.lab.packets.placement import Way
from iolab.results.verdict import GUEST, KERNEL, SENDERS, CpuUse, Thread
from iolab.trial.lab_access import GuestPlace, Site

SOFTIRQ = "ksoftirqd/"
IDLE_RATIO = 0.01
"""Minimum CPU use at which a kernel thread is listed [ratio]."""
CLASSES = ("user_ns", "nice_ns", "system_ns", "irq_ns", "softirq_ns", "steal_ns", "idle_ns", "iowait_ns")


def threads_read(reading: Reading) -> dict[int, ThreadTimes]:
    """Return the run and waiting time of each thread, by thread ID."""
    return {row.tid: row for row in reading.threads()}


def run_and_wait(before: ThreadTimes, after: ThreadTimes, span_ns: int) -> tuple[float, float]:
    """Return the share of a time span in which a thread ran, and the share in which it waited for a CPU; their sum is
    at most 1."""
    return _ratios(after.run_ns - before.run_ns, after.wait_ns - before.wait_ns, span_ns)


def thread_uses(
    site: Site,
    directions: Sequence[Way],
    ran: TrafficRan,
    before: Mapping[int, ThreadTimes],
    after: Mapping[int, ThreadTimes],
) -> tuple[Thread, ...]:
    """Return every thread on the path of the frames, in path order."""
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
    """Return the kernel's soft interrupt threads (ksoftirqd) that ran."""
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
    """Return the CPU use of every CPU of a kernel, from counters with a resolution of 10 ms."""
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
    """Return the steal time of all CPUs [ns]."""
    pairs = zip(before.cpu_times(), after.cpu_times(), strict=True)
    return sum(max(0, later.steal_ns - earlier.steal_ns) for earlier, later in pairs)


def _spent(earlier: CpuTimes, later: CpuTimes) -> dict[str, int]:
    return {name: max(0, getattr(later, name) - getattr(earlier, name)) for name in CLASSES}


VCPU = re.compile(r"CPU (\d+)/")
"""Pattern of the names of QEMU's virtual CPU threads with -name debug-threads=on: CPU 0/KVM, CPU 1/TCG."""
VHOST = re.compile(r"vhost-\d+")
POLLING = re.compile(r"(lcore|rte|dpdk)-worker")
"""Pattern of the names of DPDK's busy-polling threads, which differ between DPDK 20.11, 22.11 and 23.07."""
GUEST_IDLE_RATIO = 0.001
"""Minimum CPU use at which a guest thread is listed [ratio]."""


def guest_threads(
    guests: Mapping[str, GuestPlace],
    before: Mapping[str, Reading],
    after: Mapping[str, Reading],
    span_ns: int,
    senders: str = HERE,
) -> tuple[Thread, ...]:
    """Return the guests' threads that ran, from readings of their hosts before and after a trial.

    `senders` is the kernel that sends the frames. The hypervisor's main thread is always listed, so that a guest
    without any running thread is visible.
    """
    found: list[Thread] = []
    for name, place in guests.items():
        if place.parent in before and place.parent in after:
            own = _of_guest(name, place, before[place.parent], after[place.parent], span_ns)
            kernel = SENDERS if place.parent == senders else place.parent
            found += (replace(one, kernel=kernel) for one in own)
    return tuple(found)


def _of_guest(
    guest: str, place: GuestPlace, before: Reading, after: Reading, span_ns: int
) -> Iterator[Thread]:
    earlier = threads_read(before)
    vhosts, others = count(), count()
    for row in after.threads():
        card = place.switches.get(row.process or "")
        if row.process != place.process and card is None:
            continue
        if card is not None and not POLLING.match(row.name):
            continue  # this is a control thread, which rarely runs
        name = _name(row, vhosts, others) if card is None else f"switch {card}"
        first = earlier.get(row.tid, row)
        busy, wait = run_and_wait(first, row, span_ns)
        # The CPU on which a thread ran last is its CPU for the whole trial only if the thread did not move.
        cpu = row.last_cpu if row.last_cpu == first.last_cpu else None
        if busy >= GUEST_IDLE_RATIO or row.tid == row.pid:
            yield Thread(name, GUEST, guest, cpu, busy, wait, f"{guest}.{card}" if card else "")


def _name(row: ThreadTimes, vhosts: "count[int]", others: "count[int]") -> str:
    """Return a thread name that is the same in every run."""
    vcpu = VCPU.match(row.name)
    if vcpu:
        return f"vCPU {vcpu[1]}"
    if VHOST.match(row.name):
        return f"vhost {next(vhosts)}"
    return "hypervisor" if row.tid == row.pid else f"{row.name} {next(others)}"
