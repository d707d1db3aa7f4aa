"""What the CPUs of a computer did by a moment, and how much of it was for a lab.

Agents look at it; the rest is pure.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from iolab.agent.client import Agent
from iolab.errors import AgentError
from iolab.lab.kernels import HERE
from iolab.lab.topology import NAME_PREFIX
from iolab.lab.volumes.places import RUN
from iolab.trial.disk.ran import run_to_end
from iolab.trial.lab_access import Site

TICK_NS = 10_000_000
"""In which the kernel counts here (USER_HZ)."""
KERNEL_THREAD = 0x0020_0000
"""PF_KTHREAD among the flags of proc_pid_stat(5)."""
HELPER = "helper"
"""Begins the line of a process that works for a lab and is no child of its agent."""
SCHEDSTAT = re.compile(r"/proc/(\d+)/task/(\d+)/schedstat:(\d+) (\d+) \d+")
"""Line of a thread: for how long it ran, and waited for a CPU [ns] (scheduler/sched-stats.rst)."""
PID_FILES = (
    f"{RUN}/{NAME_PREFIX}*.pid",
    f"{RUN}/{NAME_PREFIX}*.qemu-nbd",
    f"{RUN}/{NAME_PREFIX}services/*.pid",
)
"""Of targets, doors and services: they outlive who started them."""
SHOW = (
    f"any=; for file in {' '.join(PID_FILES)}; do"
    f' [ ! -f "$file" ] || {{ any=1; pid=; read -r pid <"$file"; echo "{HELPER} $pid ${{file##*/}}"; }}; done;'
    " cat /proc/stat /proc/[0-9]*/stat 2>/dev/null;"
    ' [ -z "$any" ] || grep -sH . /proc/[0-9]*/task/[0-9]*/schedstat; true'
)
"""Processes that end meanwhile are left out. Threads are read for helpers alone: nobody else's are asked for."""


@dataclass(frozen=True, slots=True)
class Work:
    """CPU time since a computer began [ns]."""

    cpus: int
    """How many CPUs there are."""
    all_ns: int
    """Of all of them, whatever they did."""
    idle_ns: int
    """With nothing to do, also while a disk was waited for."""
    programs_ns: int
    """Of programs and of the kernel for them; soft interrupts and what a hypervisor took are nobody's."""
    own_ns: int
    """Of these the lab's programs, and who measures."""
    kernel_ns: Mapping[int, int]
    """Of these each of the kernel's own threads, by number: whose work they do nobody can tell."""
    helpers: Mapping[str, Mapping[int, "HelperProcess"]] = field(default_factory=dict)
    """Name of each helper's file to its processes, by number."""


@dataclass(frozen=True, slots=True)
class HelperProcess:
    """A process of a helper, such as a service."""

    cpu_ns: int
    """CPU time that it had, with that of those that it waited for [ns]."""
    threads: int
    """How many threads it has."""
    times: Mapping[int, "ThreadTime"] = field(default_factory=dict)
    """Its threads by number; empty: the scheduler's times could not be read."""


@dataclass(frozen=True, slots=True)
class ThreadTime:
    """What the scheduler did with a thread: by a moment, or between two."""

    run_ns: int
    """Time that it ran [ns]."""
    wait_ns: int
    """Time that it was ready, and had no CPU [ns]."""


@dataclass(frozen=True, slots=True)
class HelperUse:
    """What a helper did between two moments."""

    name: str
    """Of its file, without the ending: machine.service of a service."""
    cpu_ns: int
    """CPU time of all its processes [ns]."""
    busiest_ns: int
    """That of the one that had most [ns]."""
    threads: int
    """How many threads that one has."""
    thread: ThreadTime | None = None
    """The thread that ran and waited for a CPU longest, of all processes; None: not known."""


@dataclass(frozen=True, slots=True)
class OtherWork:
    """What was done beside a trial."""

    cpus: float
    """As many CPUs programs had that are not of the trial."""
    idle_ratio: float
    """Part of the time of all CPUs that was left over."""


def beside(before: Work, after: Work) -> OtherWork:
    """Return what was done between two moments."""
    all_ns = max(1, after.all_ns - before.all_ns)
    kernel_ns = sum(max(0, ns - before.kernel_ns.get(pid, 0)) for pid, ns in after.kernel_ns.items())
    others_ns = after.programs_ns - before.programs_ns - (after.own_ns - before.own_ns) - kernel_ns
    return OtherWork(
        cpus=max(0, others_ns) * after.cpus / all_ns,
        idle_ratio=min(1.0, max(0, after.idle_ns - before.idle_ns) / all_ns),
    )


def helpers_between(before: Work, after: Work) -> Iterator[HelperUse]:
    """Yield what each helper did that was there at both moments."""
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
    """Read the lines of helpers, of /proc/stat, of every process's stat and of threads' schedstat, which grep names.

    None: the CPUs are not among them.

    `agent` is the process id of the lab's agent on that computer. Its descendants are the lab's, with those that
    ended and were waited for; of its ancestors (who measures) their own time alone.
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
    """Of its descendants that it waited for."""
    threads: int
    """How many it has."""


def _process(line: str) -> _Process | None:
    """Read a line of proc_pid_stat(5); None: it is another line."""
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
    """Give the parents of a process but the first process of all."""
    one = processes.get(pid)
    while one is not None and one.parent > 1:
        yield one.parent
        one = processes.get(one.parent)


Looked = Mapping[str, Work]
"""Kernel to the work it had done."""


def work_done(site: Site) -> dict[str, Work]:
    """Return the work of each kernel but those of the lab's guests: nobody else works there.

    One that cannot be asked is left out.
    """
    agents = site.agents or {HERE: site.agent}
    own = {kernel: agent for kernel, agent in agents.items() if not _is_guest(site, kernel)}
    found = {kernel: _work(agent) for kernel, agent in own.items()}
    return {kernel: work for kernel, work in found.items() if work is not None}


def _is_guest(site: Site, kernel: str) -> bool:
    return kernel != HERE and site.lab.machines[kernel].kind == "vm"


def _work(agent: Agent) -> Work | None:
    try:
        shown = run_to_end(agent, ("sh", "-c", SHOW))
    except AgentError:
        return None
    return work_of(shown.stdout, agent.hello.pid)
