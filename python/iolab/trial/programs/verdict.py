"""What limited a program of the user's own: a full line, a thread, its CPUs, or that it waited. Pure.

What a program does is not known: only what had no time or room left while it ran, and what did have some.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from iolab.agent.answers import Reading
from iolab.experiment.experiment import Lab
from iolab.experiment.model.quantities import PortRef
from iolab.lab.endpoints import Port
from iolab.lab.kernels import HERE
from iolab.lab.topology import Topology
from iolab.messages.caveats import TooCoarse
from iolab.messages.places import AtMachine, AtPort, InThread, PlainPlace, computer
from iolab.messages.programs import (
    NothingFull,
    OwnCpusFull,
    OwnProgramRan,
    OwnThreadRan,
)
from iolab.messages.streams import AllCpusBusy, LineFull, NearlyBusy, WorkerRan
from iolab.results.verdict import BUSY_RATIO, Limit, Verdict
from iolab.trial.counters.cpu_use import cpu_uses, kernel_threads
from iolab.trial.measurement import Readings
from iolab.trial.programs.seen import SeenThread, carried_both_ways, passed_bps, seen_threads, within

FULL_RATIO = 0.9
"""From which share of a line's rate on it was full: TCP sends unevenly, and is read ten times a second."""
READY_RATIO = 0.9
"""A thread that ran or waited for a CPU so much of the time had none left."""
STARVED_RATIO = 0.1
"""A thread that waited for its CPU so much of the time did not get what it needed."""
MOST_RATIO = 0.5
"""A thread counts that was there for so much of the time; a program that ran less than that waited most of the time."""
WORKED_RATIO = 0.05
"""A service that had so much of a CPU is named beside what limited a program."""
UNSEEN_RATIO = 0.5
"""From which share of a program's CPU time on that no thread was seen to use it had processes too short to be seen."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A program of a trial, its own or a server."""

    process: str
    """As the counters call it."""
    name: str
    """What it is called in messages."""
    machine: str
    """Where it ran."""
    kernel: str
    """Whose CPUs it had; empty: this computer's."""
    cpus: tuple[int, ...]
    """The only ones that it may run on; empty: any."""
    cpu_ns: int
    """CPU time, with that of processes that it waited for [ns]."""
    took_ns: int
    """How long it ran [ns]."""

    @property
    def cpus_ratio(self) -> float:
        """Return the CPU time for each second: 1 is that of one CPU."""
        return self.cpu_ns / max(1, self.took_ns)


@dataclass(frozen=True, slots=True)
class ServiceRan:
    """A service of the lab, while a program ran that may have asked it."""

    name: str
    """What it is called in messages."""
    machine: str
    """Where it ran."""
    cpus_ratio: float
    """CPU time of all its processes for each second of the program."""
    busiest_ratio: float
    """That of the process that had most."""
    threads: int
    """How many threads that one has: with one, its time is the thread's."""
    run_ratio: float = 0.0
    """Part of the time that its busiest thread ran; 0: not known."""
    wait_ratio: float = 0.0
    """Part of the time that this thread was ready, and had no CPU."""
    ports: tuple[Port, ...] = ()
    """Of its machine; empty: not known."""


@dataclass(frozen=True, slots=True)
class Line:
    """A port that sends into a link of known rate."""

    ref: PortRef
    """The port."""
    kernel: str
    """Whose counters it has."""
    netns: str | None
    """Its namespace there."""
    interface: str
    """Its name there."""
    rate_bps: float
    """What the link carries [bit/s]."""


def judge(
    programs: Sequence[Ran],
    lines: Sequence[Line],
    readings: Readings,
    span_ns: tuple[int, int],
    services: Sequence[ServiceRan] = (),
) -> Verdict:
    """Return what limited the first of the programs; the others are its servers. Services of the lab take part.

    `span_ns` is when it began and ended, on the clock of its kernel: what was read there meanwhile counts. Clocks of
    two kernels are never compared, so on others all of the trial does.
    """
    home = programs[0].kernel if programs[0].kernel in readings else HERE
    own = {name: within(read, span_ns) if name == home else read for name, read in readings.items()}
    asked = [one for one in services if _may_be_asked(one, programs, own)]
    busiest = {one.process: _busiest(one, own) for one in programs}
    found = (
        _line(lines, own)
        or _thread(programs, busiest)
        or _service(asked)
        or _starved(programs, busiest)
        or _starved_service(asked)
        or _cpus(programs, busiest, own)
        or _kernel_thread(programs, own)
        or _in_turn(programs[0], own)
        or (None if any(one.cpus_ratio >= MOST_RATIO for one in asked) else _waited(programs, busiest))
        or _unknown(programs[0])
    )
    told = {
        (said.program, said.machine) for said in found.seen if isinstance(said, OwnProgramRan | OwnThreadRan)
    }
    worked = (
        one for one in services if one.cpus_ratio >= WORKED_RATIO and (one.name, one.machine) not in told
    )
    return replace(found, seen=(*found.seen, *map(_service_ran, worked)))


def _may_be_asked(service: ServiceRan, programs: Sequence[Ran], own: Mapping[str, Sequence[Reading]]) -> bool:
    """Whether a program can have waited for a service: both share a machine, or packets reached and left its machine.

    Where that was not read, it can.
    """
    if not service.ports or any(one.machine == service.machine for one in programs):
        return True
    carried = [carried_both_ways(_of(own, one.kernel), one.netns, one.interface) for one in service.ports]
    return None in carried or True in carried


def _service_ran(service: ServiceRan) -> OwnProgramRan:
    return OwnProgramRan(program=service.name, machine=service.machine, cpus_ratio=service.cpus_ratio)


def _service(services: Sequence[ServiceRan]) -> Verdict | None:
    """A thread of a service without time left, or a process whose threads' times are not known."""
    for service in services:
        at = AtMachine(machine=service.machine)
        if service.run_ratio >= BUSY_RATIO:
            return Verdict(Limit.WORKER, (_service_thread(service),), at)
        if service.busiest_ratio >= BUSY_RATIO:
            doubt = None if service.threads == 1 else TooCoarse(code="no-single-thread")
            return Verdict(Limit.WORKER, (_service_ran(service),), at, doubt)
    return None


def _service_thread(service: ServiceRan) -> OwnThreadRan:
    return OwnThreadRan(
        program=service.name,
        machine=service.machine,
        busy_ratio=service.run_ratio,
        wait_ratio=service.wait_ratio,
    )


def _starved_service(services: Sequence[ServiceRan]) -> Verdict | None:
    """A thread of a service that was ready nearly all of the time, and had no CPU for a part of it."""
    for service in services:
        found = _short_of_cpu(_service_thread(service))
        if found is not None:
            return found
    return None


def _of(own: Mapping[str, Sequence[Reading]], kernel: str) -> Sequence[Reading]:
    return own.get(kernel, own.get(HERE, ()))


def _busiest(program: Ran, own: Mapping[str, Sequence[Reading]]) -> SeenThread | None:
    """Return the thread that ran most, of those that were there most of the time."""
    readings = _of(own, program.kernel)
    threads = seen_threads(program.process, readings)
    lasting = [one for one in threads if one.span_ns >= MOST_RATIO * _span_ns(readings)]
    return max(lasting, key=lambda one: one.run_ns, default=None)


def _span_ns(readings: Sequence[Reading]) -> int:
    return readings[-1].observations[0].begin_ns - readings[0].observations[0].begin_ns if readings else 0


def _line(lines: Sequence[Line], own: Mapping[str, Sequence[Reading]]) -> Verdict | None:
    for line in lines:
        sent_bps = passed_bps(_of(own, line.kernel), line.netns, line.interface)
        if sent_bps is not None and sent_bps >= FULL_RATIO * line.rate_bps:
            said = LineFull(place=str(line.ref), passed_bps=sent_bps, line_bps=line.rate_bps)
            return Verdict(Limit.LINE, (said,), AtPort(port=str(line.ref)))
    return None


def _ran(program: Ran, thread: SeenThread) -> OwnThreadRan:
    return OwnThreadRan(
        program=program.name,
        machine=program.machine,
        busy_ratio=thread.run_ratio,
        wait_ratio=thread.wait_ratio,
    )


def _thread(programs: Sequence[Ran], busiest: Mapping[str, SeenThread | None]) -> Verdict | None:
    for program in programs:
        thread = busiest[program.process]
        if thread is not None and thread.run_ratio >= BUSY_RATIO:
            return Verdict(Limit.WORKER, (_ran(program, thread),), AtMachine(machine=program.machine))
    return None


def _starved(programs: Sequence[Ran], busiest: Mapping[str, SeenThread | None]) -> Verdict | None:
    """A thread that was ready nearly all of the time, and had no CPU for a part of it."""
    for program in programs:
        thread = busiest[program.process]
        found = None if thread is None else _short_of_cpu(_ran(program, thread))
        if found is not None:
            return found
    return None


def _short_of_cpu(ran: OwnThreadRan) -> Verdict | None:
    """Return that a thread had no CPU, or nearly no time left; None: it slept."""
    ready_ratio = ran.busy_ratio + ran.wait_ratio
    at = AtMachine(machine=ran.machine)
    if ready_ratio < READY_RATIO:
        return None
    if ran.wait_ratio >= STARVED_RATIO:
        return Verdict(Limit.CPU, (ran,), at)
    return Verdict(Limit.WORKER, (ran,), at, NearlyBusy(ready_ratio=ready_ratio))


def _cpus(
    programs: Sequence[Ran], busiest: Mapping[str, SeenThread | None], own: Mapping[str, Sequence[Reading]]
) -> Verdict | None:
    """The CPUs that a program is kept on, or all of its kernel, without time left, and a program that wanted some.

    One that sleeps while others have all CPUs is not kept from anything.
    """
    for program in programs:
        readings, thread = _of(own, program.kernel), busiest[program.process]
        uses = cpu_uses(readings[0], readings[-1], program.kernel) if len(readings) > 1 else ()
        ready_ratio = 0.0 if thread is None else thread.run_ratio + thread.wait_ratio
        if max(ready_ratio, program.cpus_ratio) < MOST_RATIO:
            continue
        at = AtMachine(machine=program.machine)
        allowed = [one.busy_ratio for one in uses if one.cpu in program.cpus]
        if allowed and min(allowed) >= BUSY_RATIO:
            full = OwnCpusFull(
                program=program.name, machine=program.machine, cpus=program.cpus, busy_ratio=min(allowed)
            )
            return Verdict(Limit.CPU, (full,), at)
        busy = [one.busy_ratio for one in uses]
        if busy and min(busy) >= BUSY_RATIO:
            said = AllCpusBusy(host=computer(program.kernel), cpus=len(busy), busy_ratio=min(busy))
            place = AtMachine(machine=program.kernel) if program.kernel else PlainPlace(code="all-cpus")
            return Verdict(Limit.CPU, (_cpu_time(program), said), place, TooCoarse(code="no-single-thread"))
    return None


def _kernel_thread(programs: Sequence[Ran], own: Mapping[str, Sequence[Reading]]) -> Verdict | None:
    """A thread of the kernel that does the soft interrupts of all, without time left."""
    for kernel in dict.fromkeys(one.kernel for one in programs):
        readings = _of(own, kernel)
        found = kernel_threads(readings[0], readings[-1], max(1, _span_ns(readings))) if readings else ()
        for thread in found:
            if thread.busy_ratio >= BUSY_RATIO:
                said = WorkerRan(thread=thread.name, busy_ratio=thread.busy_ratio)
                place = AtMachine(machine=kernel) if kernel else InThread(thread=thread.name)
                return Verdict(Limit.WORKER, (said,), place)
    return None


def _cpu_time(program: Ran) -> OwnProgramRan:
    return OwnProgramRan(program=program.name, machine=program.machine, cpus_ratio=program.cpus_ratio)


def _in_turn(program: Ran, own: Mapping[str, Sequence[Reading]]) -> Verdict | None:
    """Processes that each are too short to be seen, and together had a CPU's time."""
    seen_ns = sum(one.run_ns for one in seen_threads(program.process, _of(own, program.kernel)))
    if program.cpus_ratio < BUSY_RATIO or seen_ns > (1 - UNSEEN_RATIO) * program.cpu_ns:
        return None
    at = AtMachine(machine=program.machine)
    return Verdict(Limit.WORKER, (_cpu_time(program),), at, TooCoarse(code="one-after-the-other"))


def _waited(programs: Sequence[Ran], busiest: Mapping[str, SeenThread | None]) -> Verdict | None:
    """Neither the program nor a server of it ran for half of the time."""
    own = programs[0]
    threads = {one.process: thread for one in programs if (thread := busiest[one.process]) is not None}
    if own.process not in threads:
        return Verdict(Limit.WAITING, (_cpu_time(own),)) if own.cpus_ratio < MOST_RATIO else None
    if any(one.run_ratio + one.wait_ratio >= MOST_RATIO for one in threads.values()):
        return None
    if own.cpu_ns > 2 * threads[own.process].run_ns and own.cpus_ratio >= MOST_RATIO:
        return None  # others of its threads or processes ran, too
    said = tuple(_ran(one, threads[one.process]) for one in programs if one.process in threads)
    return Verdict(Limit.WAITING, said)


def _unknown(program: Ran) -> Verdict:
    return Verdict(Limit.UNEXPLAINED, (NothingFull(), _cpu_time(program)))


def lines_of(lab: Lab, topology: Topology) -> Iterator[Line]:
    """Give the ports of a lab that send into a link whose rate is known: that of its wire."""
    places = {port.ref: port for port in topology.ports()}
    for link in lab.links.values():
        ways = link.wire.ways(link.ends) if link.wire is not None else {}
        for end, way in ways.items():
            port = places.get(end)
            if port is not None and way.rate is not None and not way.in_frames:
                rate_bps = float(way.rate.removesuffix("bit"))
                yield Line(end, port.kernel, port.netns, port.name, rate_bps)
