"""Determine the limit of transactions (the intended rate, a thread, the CPUs, or waiting), and the parts of an echo's
round-trip time. Pure."""

from collections.abc import Mapping, Sequence

from iolab.agent.answers import Reading
from iolab.experiment.experiment import Lab
from iolab.experiment.model.measures import Ping, RequestResponse
from iolab.experiment.model.quantities import PortRef
from iolab.lab.kernels import HERE
from iolab.lab.packets.placement import Way
from iolab.lab.topology import Endpoint
from iolab.messages.caveats import TooCoarse
from iolab.messages.evidence import ThreadRan
from iolab.messages.places import AtMachine, PlainPlace, computer
from iolab.messages.programs import OneRequestEach, RoundTripParts, TransactionsReached
from iolab.messages.streams import AllCpusBusy
from iolab.results.verdict import BUSY_RATIO, Limit, Verdict
from iolab.trial.counters.cpu_use import cpu_uses
from iolab.trial.histograms import even_quantile
from iolab.trial.measurement import Readings
from iolab.trial.round_trips.requests import ProbesReport, TransactionsReport
from iolab.trial.streams.disturbances import program_of
from iolab.units import NS_PER_S

REACHED_RATIO = 0.98
"""Minimum share of the intended transactions at which the intended rate counts as reached [ratio]."""


def judge(
    measure: RequestResponse,
    report: TransactionsReport,
    programs: Mapping[str, Endpoint],
    readings: Readings,
) -> Verdict | None:
    """Return the limit of transactions; `programs` are the processes at both ends, by ID.

    Return None if there was no transaction.
    """
    if not report.transactions:
        return None
    done_per_s = report.transactions / report.duration_ns * NS_PER_S
    if measure.per_second is not None and done_per_s >= REACHED_RATIO * measure.per_second:
        reached = TransactionsReached(done_per_s=done_per_s, intended_per_s=float(measure.per_second))
        return Verdict(Limit.RATE, (reached,))
    return _thread(programs, readings) or _cpus(programs, readings) or _waiting(measure, report)


def judge_echoes(measure: Ping, report: ProbesReport, ways: Sequence[Way], lab: Lab) -> Verdict | None:
    """Return the parts of the round-trip time; None if requests were not sent as intended, which has a separate
    warning.

    Echoes at fixed intervals have no limit: the verdict states the parts of the round-trip time. `ways` are the
    forward and return path.
    """
    median_ns = even_quantile(report.rtt_ns, 0.5)
    if median_ns is None or report.unsent + report.refused > (1 - REACHED_RATIO) * report.sent:
        return None
    delay_ns = sum(_delay_ns(lab, way) for way in ways)
    parts = RoundTripParts(rtt_ns=median_ns, delay_ns=delay_ns, rest_ns=max(0.0, median_ns - delay_ns))
    return Verdict(Limit.RATE, (parts,), AtMachine(machine=PortRef(measure.src).machine))


def _delay_ns(lab: Lab, way: Way) -> int:
    """Return the constant delay of the emulated paths on a path [ns]; for random delays, the part common to all
    frames."""
    wires = (link.wire.ways(link.ends) for link in lab.links.values() if link.wire is not None)
    delays = {str(end): own.delay for ends in wires for end, own in ends.items()}
    return sum(delays.get(str(out), 0) for out, _ in way.hops)


def _thread(programs: Mapping[str, Endpoint], readings: Readings) -> Verdict | None:
    """Return a verdict if a thread at either end is saturated; else None."""
    for name, end in programs.items():
        ran = program_of(name, end.machine, end.kernel, _of(readings, end), None)
        if ran is not None and ran.run_ratio >= BUSY_RATIO:
            said = ThreadRan(thread=name, busy_ratio=ran.run_ratio)
            return Verdict(Limit.WORKER, (said,), AtMachine(machine=end.machine))
    return None


def _cpus(programs: Mapping[str, Endpoint], readings: Readings) -> Verdict | None:
    """Return a verdict if all CPUs of a kernel are busy; else None."""
    for end in programs.values():
        own = _of(readings, end)
        busy = [cpu.busy_ratio for cpu in cpu_uses(own[0], own[-1], end.kernel)] if len(own) > 1 else []
        if busy and min(busy) >= BUSY_RATIO:
            said = AllCpusBusy(host=computer(end.kernel), cpus=len(busy), busy_ratio=min(busy))
            place = AtMachine(machine=end.kernel) if end.kernel else PlainPlace(code="all-cpus")
            return Verdict(Limit.CPU, (said,), place, TooCoarse(code="no-single-thread"))
    return None


def _waiting(measure: RequestResponse, report: TransactionsReport) -> Verdict:
    """Return the verdict that each connection waits for its one request in flight; more connections would raise the
    rate."""
    mean_ns = report.latency_ns.sum / report.latency_ns.count
    return Verdict(Limit.WAITING, (OneRequestEach(connections=measure.connections, mean_ns=mean_ns),))


def _of(readings: Readings, end: Endpoint) -> Sequence[Reading]:
    return readings.get(end.kernel) or readings.get(HERE) or ()
