"""Determine the limit of a user program: a full line, a thread, its CPUs, or waiting. Pure.

The program's work is unknown: the verdict depends only on which resources were exhausted while the program ran.
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
"""Minimum share of its rate at which a line is full: the share is below 1, because TCP sends unevenly and counters are
read ten times a second [ratio]."""
READY_RATIO = 0.9
"""Share of time running or waiting for a CPU above which a thread is saturated [ratio]."""
STARVED_RATIO = 0.1
"""Share of time waiting for a CPU above which a thread is short of CPU time [ratio]."""
MOST_RATIO = 0.5
"""Minimum share of the trial for which an evaluated thread must exist; a program that uses less than this share of a
CPU mostly waits [ratio]."""
WORKED_RATIO = 0.05
"""Minimum CPU use at which a service is named in addition to the limit [CPUs]."""
UNSEEN_RATIO = 0.5
"""If more than this share of a program's CPU time was not used by observed threads, the program had short-lived
processes [ratio]."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A program of a trial: the measuring program or a server."""

    process: str
    """Process name in the counters."""
    name: str
    """Name in messages."""
    machine: str
    """Machine of the program."""
    kernel: str
    """Kernel of the program; empty: the local host."""
    cpus: tuple[int, ...]
    """Allowed CPUs; empty: any."""
    cpu_ns: int
    """CPU time including that of waited-for child processes [ns]."""
    took_ns: int
    """Run time [ns]."""

    @property
    def cpus_ratio(self) -> float:
        """Return the mean CPU use [CPUs]."""
        return self.cpu_ns / max(1, self.took_ns)


@dataclass(frozen=True, slots=True)
class ServiceRan:
    """A service of the lab that a program may have used."""

    name: str
    """Name in messages."""
    machine: str
    """Machine of the service."""
    cpus_ratio: float
    """CPU use of all processes of the service during the program's run [CPUs]."""
    busiest_ratio: float
    """CPU use of the service's busiest process [CPUs]."""
    threads: int
    """Number of threads of the busiest process; with one thread, the CPU time of the process is that of the thread."""
    run_ratio: float = 0.0
    """Share of time that the service's busiest thread ran [ratio]; 0: unknown."""
    wait_ratio: float = 0.0
    """Share of time that the busiest thread was runnable without a CPU [ratio]."""
    ports: tuple[Port, ...] = ()
    """Ports of the service's machine; empty: unknown."""


@dataclass(frozen=True, slots=True)
class Line:
    """A port that sends into a link of known rate."""

    ref: PortRef
    """Port reference."""
    kernel: str
    """Kernel that counts the port's traffic."""
    netns: str | None
    """Network namespace."""
    interface: str
    """Interface name."""
    rate_bps: float
    """Link rate [bit/s]."""


def judge(
    programs: Sequence[Ran],
    lines: Sequence[Line],
    readings: Readings,
    span_ns: tuple[int, int],
    services: Sequence[ServiceRan] = (),
) -> Verdict:
    """Return the limit of the first program; the other programs are its servers. Services of the lab are included.

    `span_ns` is the start and end of the first program on the clock of its kernel: of that kernel's readings, only
    those within this time count. Clocks of two kernels are never compared, so on other kernels the readings of the
    whole trial count.
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
    """Whether a program may have waited for a service: they share a machine, or packets passed the service's ports
    both ways.

    Without readings, the result is True.
    """
    if not service.ports or any(one.machine == service.machine for one in programs):
        return True
    carried = [carried_both_ways(_of(own, one.kernel), one.netns, one.interface) for one in service.ports]
    return None in carried or True in carried


def _service_ran(service: ServiceRan) -> OwnProgramRan:
    return OwnProgramRan(program=service.name, machine=service.machine, cpus_ratio=service.cpus_ratio)


def _service(services: Sequence[ServiceRan]) -> Verdict | None:
    """Return a verdict if a service's thread, or a service process whose threads are unknown, is saturated; else
    None."""
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
    """Return a verdict if a service's thread waited for a CPU or was nearly saturated; else None."""
    for service in services:
        found = _short_of_cpu(_service_thread(service))
        if found is not None:
            return found
    return None


def _of(own: Mapping[str, Sequence[Reading]], kernel: str) -> Sequence[Reading]:
    return own.get(kernel, own.get(HERE, ()))


def _busiest(program: Ran, own: Mapping[str, Sequence[Reading]]) -> SeenThread | None:
    """Return the thread with the most run time among those that existed for most of the time."""
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
    """Return a verdict if a program's thread waited for a CPU or was nearly saturated; else None."""
    for program in programs:
        thread = busiest[program.process]
        found = None if thread is None else _short_of_cpu(_ran(program, thread))
        if found is not None:
            return found
    return None


def _short_of_cpu(ran: OwnThreadRan) -> Verdict | None:
    """Return a verdict if a thread waited for a CPU or was nearly saturated; None if the thread slept too much."""
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
    """Return a verdict if all CPUs allowed to a program, or all CPUs of its kernel, are busy; else None.

    A program that sleeps while other processes use all CPUs is not limited by them.
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
    """Return a verdict if a kernel thread for soft interrupts is saturated; else None."""
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
    """Return a verdict if one CPU was used up by a succession of processes, each too short-lived to be read; else
    None."""
    seen_ns = sum(one.run_ns for one in seen_threads(program.process, _of(own, program.kernel)))
    if program.cpus_ratio < BUSY_RATIO or seen_ns > (1 - UNSEEN_RATIO) * program.cpu_ns:
        return None
    at = AtMachine(machine=program.machine)
    return Verdict(Limit.WORKER, (_cpu_time(program),), at, TooCoarse(code="one-after-the-other"))


def _waited(programs: Sequence[Ran], busiest: Mapping[str, SeenThread | None]) -> Verdict | None:
    """Return the verdict that the program waited, if neither the program nor a server ran for half of the time; else
    None."""
    own = programs[0]
    threads = {one.process: thread for one in programs if (thread := busiest[one.process]) is not None}
    if own.process not in threads:
        return Verdict(Limit.WAITING, (_cpu_time(own),)) if own.cpus_ratio < MOST_RATIO else None
    if any(one.run_ratio + one.wait_ratio >= MOST_RATIO for one in threads.values()):
        return None
    if own.cpu_ns > 2 * threads[own.process].run_ns and own.cpus_ratio >= MOST_RATIO:
        return None  # other threads or processes of the program ran too
    said = tuple(_ran(one, threads[one.process]) for one in programs if one.process in threads)
    return Verdict(Limit.WAITING, said)


def _unknown(program: Ran) -> Verdict:
    return Verdict(Limit.UNEXPLAINED, (NothingFull(), _cpu_time(program)))


def lines_of(lab: Lab, topology: Topology) -> Iterator[Line]:
    """Yield the ports of a lab that send into an emulated link of known rate."""
    places = {port.ref: port for port in topology.ports()}
    for link in lab.links.values():
        ways = link.wire.ways(link.ends) if link.wire is not None else {}
        for end, way in ways.items():
            port = places.get(end)
            if port is not None and way.rate is not None and not way.in_frames:
                rate_bps = float(way.rate.removesuffix("bit"))
                yield Line(end, port.kernel, port.netns, port.name, rate_bps)
