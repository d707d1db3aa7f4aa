"""What the threads of virtual machines (virtual CPUs, vhost, switches, hypervisors' own) did on their parents. Pure.

They are what a guest has of its parent: a guest whose vhost thread has no time left loses frames though every CPU has.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count

from iolab.agent.messages import Reading, ThreadTimes
from iolab.lab.kernels import HERE
from iolab.results.verdict import GUEST, SENDERS, Thread
from iolab.trial.counters.cpu_use import run_and_wait, threads_read
from iolab.trial.lab_access import GuestPlace

VCPU = re.compile(r"CPU (\d+)/")
"""QEMU's name of the thread of a virtual CPU, with -name debug-threads=on: CPU 0/KVM, CPU 1/TCG."""
VHOST = re.compile(r"vhost-\d+")
POLLING = re.compile(r"(lcore|rte|dpdk)-worker")
"""DPDK's names of a thread that looks for frames all the time: of 20.11, of 22.11, and since 23.07."""
IDLE_RATIO = 0.001
"""Threads that did less are left out."""


def guest_threads(
    guests: Mapping[str, GuestPlace],
    before: Mapping[str, Reading],
    after: Mapping[str, Reading],
    span_ns: int,
    senders: str = HERE,
) -> tuple[Thread, ...]:
    """Return the threads of guests that did something, by readings of their parents before and after.

    Frames are sent on the kernel `senders`.

    A hypervisor's first thread is always among them, so that a guest of which nothing ran can be told.
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
            continue  # it takes messages now and then
        name = _name(row, vhosts, others) if card is None else f"switch {card}"
        first = earlier.get(row.tid, row)
        busy, wait = run_and_wait(first, row, span_ns)
        # Where it was last is where it was only if nothing moves it.
        cpu = row.last_cpu if row.last_cpu == first.last_cpu else None
        if busy >= IDLE_RATIO or row.tid == row.pid:
            yield Thread(name, GUEST, guest, cpu, busy, wait, f"{guest}.{card}" if card else "")


def _name(row: ThreadTimes, vhosts: "count[int]", others: "count[int]") -> str:
    """Return a name that is the same in every run."""
    vcpu = VCPU.match(row.name)
    if vcpu:
        return f"vCPU {vcpu[1]}"
    if VHOST.match(row.name):
        return f"vhost {next(vhosts)}"
    return "hypervisor" if row.tid == row.pid else f"{row.name} {next(others)}"
