"""Read the cumulative CPU work of a host, and how much of this work belongs to a lab.

Agents read the data; all other functions are pure.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from iolab.agent.client import Agent
from iolab.errors import AgentError
from iolab.lab.kernels import HERE
from iolab.lab.services import service_place
from iolab.lab.volumes.exports import control_socket
from iolab.lab.volumes.places import door_of, nbd_pid_file
from iolab.trial.disk.ran import run_to_end
from iolab.trial.lab_access import Site

TICK_NS = 10_000_000
"""Clock tick of the kernel's counters (USER_HZ) [ns]."""
KERNEL_THREAD = 0x0020_0000
"""Flag PF_KTHREAD in proc_pid_stat(5)."""
HELPER = "helper"
"""Line prefix of a process that works for a lab and is not a child of its agent."""
SCHEDSTAT = re.compile(r"/proc/(\d+)/task/(\d+)/schedstat:(\d+) (\d+) \d+")
"""Pattern of a thread's line: run time and waiting time [ns] (scheduler/sched-stats.rst)."""
SHOW = (
    "any=; for file in FILES; do"
    f' [ ! -f "$file" ] || {{ any=1; pid=; read -r pid <"$file"; echo "{HELPER} $pid ${{file##*/}}"; }}; done;'
    " cat /proc/stat /proc/[0-9]*/stat 2>/dev/null;"
    ' [ -z "$any" ] || grep -sH . /proc/[0-9]*/task/[0-9]*/schedstat; true'
)
"""Script that prints CPU times; processes that end while it runs are omitted. Threads are read only if there are
helpers."""


@dataclass(frozen=True, slots=True)
class Work:
    """CPU time since the host's start [ns]."""

    cpus: int
    """Number of CPUs."""
    all_ns: int
    """Total time of all CPUs, busy and idle."""
    idle_ns: int
    """Idle time, including waiting for I/O."""
    programs_ns: int
    """Time of programs, including their kernel time; soft interrupts and steal are excluded."""
    own_ns: int
    """Part of `programs_ns` that belongs to the lab's programs and to the measuring programs."""
    kernel_ns: Mapping[int, int]
    """Part of `programs_ns` per kernel thread, by PID; this time cannot be attributed to a program."""
    helpers: Mapping[str, Mapping[int, "HelperProcess"]] = field(default_factory=dict)
    """Processes of each helper, by PID; helpers are identified by the name of their PID file."""


@dataclass(frozen=True, slots=True)
class HelperProcess:
    """A process of a helper, such as a service."""

    cpu_ns: int
    """CPU time, including that of waited-for child processes [ns]."""
    threads: int
    """Number of threads."""
    times: Mapping[int, "ThreadTime"] = field(default_factory=dict)
    """Threads by ID; empty if the scheduler's times could not be read."""


@dataclass(frozen=True, slots=True)
class ThreadTime:
    """Scheduler times of a thread: cumulative, or between two readings."""

    run_ns: int
    """Run time [ns]."""
    wait_ns: int
    """Time runnable without a CPU [ns]."""


@dataclass(frozen=True, slots=True)
class HelperUse:
    """CPU use of a helper between two readings."""

    name: str
    """File name without suffix, which for a service is machine.service."""
    cpu_ns: int
    """CPU time of all processes of the helper [ns]."""
    busiest_ns: int
    """CPU time of the helper's busiest process [ns]."""
    threads: int
    """Number of threads of the busiest process."""
    thread: ThreadTime | None = None
    """The thread of all processes with the longest running and waiting time; None: unknown."""


@dataclass(frozen=True, slots=True)
class OtherWork:
    """CPU use of processes outside a trial."""

    cpus: float
    """CPU use of processes outside the trial [CPUs]."""
    idle_ratio: float
    """Idle share of all CPUs [ratio]."""


def beside(before: Work, after: Work) -> OtherWork:
    """Return the CPU use of other processes between two readings."""
    all_ns = max(1, after.all_ns - before.all_ns)
    kernel_ns = sum(max(0, ns - before.kernel_ns.get(pid, 0)) for pid, ns in after.kernel_ns.items())
    others_ns = after.programs_ns - before.programs_ns - (after.own_ns - before.own_ns) - kernel_ns
    return OtherWork(
        cpus=max(0, others_ns) * after.cpus / all_ns,
        idle_ratio=min(1.0, max(0, after.idle_ns - before.idle_ns) / all_ns),
    )


def helpers_between(before: Work, after: Work) -> Iterator[HelperUse]:
    """Yield the CPU use of each helper that exists in both readings."""
    for name, own in after.helpers.items():
        earlier = before.helpers.get(name)
        if earlier is None or not own:
            continue
        spent = {pid: one.cpu_ns - (earlier[pid].cpu_ns if pid in earlier else 0) for pid, one in own.items()}
        busiest = max(spent, key=lambda pid: spent[pid])
        thread = max(_times_between(earlier, own), key=lambda one: one.run_ns + one.wait_ns, default=None)
        yield HelperUse(
            name.removesuffix(".pid"), sum(spent.values()), spent[busiest], own[busiest].threads, thread
        )


def _times_between(
    before: Mapping[int, HelperProcess], after: Mapping[int, HelperProcess]
) -> Iterator[ThreadTime]:
    for pid, process in after.items():
        known = before[pid].times if pid in before else {}
        for tid, own in process.times.items():
            earlier = known.get(tid, ThreadTime(0, 0))
            yield ThreadTime(own.run_ns - earlier.run_ns, own.wait_ns - earlier.wait_ns)


def work_of(text: str, agent: int) -> Work | None:
    """Parse the output of SHOW: helper lines, /proc/stat, the stat of every process, and schedstat of threads, named
    by grep.

    Return None if the output has no CPU lines. `agent` is the PID of the lab's agent on that host. The agent's
    descendants belong to the lab, including ended processes that were waited for. For the agent's ancestors (the
    measuring programs), only their own time counts.
    """
    cpus, helpers = -1, dict[int, str]()
    total: tuple[int, ...] = ()
    processes: dict[int, _Process] = {}
    times: dict[int, dict[int, ThreadTime]] = {}
    for line in text.splitlines():
        words = line.split()
        if line.startswith("cpu"):
            cpus += 1
            total = total or tuple(int(word) for word in words[1:9])
        elif words[:1] == [HELPER] and len(words) > 1 and words[1].isdecimal():
            helpers[int(words[1])] = " ".join(words[2:])
        elif (of_thread := SCHEDSTAT.fullmatch(line)) is not None:
            pid, tid, run_ns, wait_ns = map(int, of_thread.groups())
            times.setdefault(pid, {})[tid] = ThreadTime(run_ns, wait_ns)
        elif (one := _process(line)) is not None:
            processes[one.pid] = one
    if cpus < 1 or len(total) < 8:
        return None
    user, nice, system, idle, waiting = total[:5]
    return Work(
        cpus=cpus,
        all_ns=sum(total) * TICK_NS,
        idle_ns=(idle + waiting) * TICK_NS,
        programs_ns=(user + nice + system) * TICK_NS,
        own_ns=_own_ticks(processes, {agent, *helpers}, agent) * TICK_NS,
        kernel_ns={one.pid: one.own_ticks * TICK_NS for one in processes.values() if one.of_kernel},
        helpers={
            name: {
                pid: HelperProcess(
                    (one.own_ticks + one.ended_ticks) * TICK_NS, one.threads, times.get(pid, {})
                )
                for pid in _descendants(processes, [root])
                if (one := processes.get(pid)) is not None
            }
            for root, name in helpers.items()
            if name
        },
    )


@dataclass(frozen=True, slots=True)
class _Process:
    pid: int
    parent: int
    of_kernel: bool
    own_ticks: int
    ended_ticks: int
    """CPU time of waited-for descendants [ticks]."""
    threads: int
    """Number of threads."""


def _process(line: str) -> _Process | None:
    """Parse a line of proc_pid_stat(5); return None for other lines."""
    head, named, tail = line.rpartition(") ")
    pid, fields = head.partition(" (")[0], tail.split()
    if not named or not pid.isdecimal() or len(fields) < 18:
        return None
    user, system, ended_user, ended_system = map(int, fields[11:15])
    flags = int(fields[6])
    return _Process(
        int(pid),
        int(fields[1]),
        bool(flags & KERNEL_THREAD),
        user + system,
        ended_user + ended_system,
        int(fields[17]),
    )


def _own_ticks(processes: Mapping[int, _Process], roots: Iterable[int], agent: int) -> int:
    family = set(_descendants(processes, roots))
    ancestors = set(_ancestors(processes, agent)) - family
    return sum(
        one.own_ticks + (one.ended_ticks if one.pid in family else 0)
        for one in processes.values()
        if one.pid in family or one.pid in ancestors
    )


def _descendants(processes: Mapping[int, _Process], roots: Iterable[int]) -> Iterator[int]:
    children: dict[int, list[int]] = {}
    for one in processes.values():
        children.setdefault(one.parent, []).append(one.pid)
    found, pending = set[int](), list(roots)
    while pending:
        pid = pending.pop()
        if pid not in found:
            found.add(pid)
            pending += children.get(pid, ())
    yield from found


def _ancestors(processes: Mapping[int, _Process], pid: int) -> Iterator[int]:
    """Yield the ancestors of a process except process 1."""
    one = processes.get(pid)
    while one is not None and one.parent > 1:
        yield one.parent
        one = processes.get(one.parent)


Looked = Mapping[str, Work]
"""Cumulative work by kernel."""


def work_done(site: Site) -> dict[str, Work]:
    """Return the cumulative work of each kernel except the lab's guests, on which no other processes run.

    Kernels that cannot be read are omitted.
    """
    agents = site.agents or {HERE: site.agent}
    own = {kernel: agent for kernel, agent in agents.items() if not _is_guest(site, kernel)}
    files = " ".join(_pid_files(site))
    found = {kernel: _work(agent, files) for kernel, agent in own.items()}
    return {kernel: work for kernel, work in found.items() if work is not None}


def _pid_files(site: Site) -> Iterator[str]:
    """Yield the PID files of targets, exports and services, whose processes outlive the process that started them."""
    for volume in site.lab.volumes:
        yield from (f"{control_socket(volume)}.pid", f"{door_of(volume)}.pid", nbd_pid_file(volume))
    yield f"{service_place('*', '*', site.topology.file_prefix)}.pid"


def _is_guest(site: Site, kernel: str) -> bool:
    return kernel != HERE and site.lab.machines[kernel].kind == "vm"


def _work(agent: Agent, files: str) -> Work | None:
    try:
        shown = run_to_end(agent, ("sh", "-c", SHOW.replace("FILES", files)))
    except AgentError:
        return None
    return work_of(shown.stdout, agent.hello.pid)
