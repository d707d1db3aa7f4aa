"""A trial of round trips: both ends run, the report read, figures, series and verdict made of it."""

import json
from collections.abc import Mapping

from iolab.agent.messages import Json
from iolab.experiment.model.measures import Ping, RequestResponse, RoundTrips
from iolab.lab.kernels import HERE
from iolab.lab.packets.placement import stream_way
from iolab.lab.topology import Endpoint
from iolab.messages.failures import NothingAnswered, ProgramFault
from iolab.results.metric import Metrics
from iolab.trial.failed import Failed
from iolab.trial.interference.disturbed import disturbed
from iolab.trial.interference.look import work_done
from iolab.trial.lab_access import Site
from iolab.trial.measurement import Concluded, Measured, Readings
from iolab.trial.round_trips.figures import (
    ping_metrics,
    ping_warnings,
    transaction_metrics,
    transaction_warnings,
    trip_series,
)
from iolab.trial.round_trips.programs import NAME, Done, run_round_trips
from iolab.trial.round_trips.requests import Found, ProbesReport, TransactionsReport, parse_report
from iolab.trial.round_trips.verdict import judge, judge_echoes

SCHEMA = 1
"""Version of the raw samples."""


def measure_ping(site: Site, measure: Ping) -> Measured:
    """Measure once.

    Raises:
        TrialFailed: a program did not do its part, or nothing was answered.
        AgentError: an agent is gone.
    """
    asking, answering = _ends(site, measure)
    work_before = work_done(site)
    done = run_round_trips(site, measure, asking, answering)
    work_after = work_done(site)
    report = _read(ProbesReport, done, asking)
    if not report.received:
        raise Failed(NothingAnswered(machine=measure.dst, address=answering.address, sent=report.sent))
    ends = ((asking, answering), (answering, asking))
    ways = tuple(stream_way(site.lab, site.topology, *pair) for pair in ends)
    return Measured(
        metrics=Metrics(ping_metrics(report)),
        warnings=ping_warnings(measure, report),
        measured_ns=measure.warm_up + measure.duration,
        commands=done.commands,
        raw=_raw(done),
        conclude=lambda read: Concluded(
            verdict=judge_echoes(measure, report, ways, site.lab),
            warnings=disturbed(work_before, work_after, read),
            series=trip_series("rtt", report, _begin_ns(report.begin_ns, asking, read), NAME),
        ),
    )


def measure_transactions(site: Site, measure: RequestResponse) -> Measured:
    """Measure once.

    Raises:
        TrialFailed: a program did not do its part, or there was no transaction.
        AgentError: an agent is gone.
    """
    asking, answering = _ends(site, measure)
    work_before = work_done(site)
    done = run_round_trips(site, measure, asking, answering)
    work_after = work_done(site)
    report = _read(TransactionsReport, done, asking)
    if not report.transactions:
        sent = report.lost + report.unsent
        raise Failed(NothingAnswered(machine=measure.dst, address=answering.address, sent=sent))
    programs: Mapping[str, Endpoint] = {
        done.asker: asking, **({} if done.server is None else {done.server: answering})
    }  # fmt: skip
    return Measured(
        metrics=Metrics(transaction_metrics(measure, report)),
        warnings=transaction_warnings(measure, report),
        measured_ns=measure.warm_up + measure.duration,
        commands=done.commands,
        raw=_raw(done),
        conclude=lambda read: Concluded(
            verdict=judge(measure, report, programs, read),
            warnings=disturbed(work_before, work_after, read),
            series=trip_series("transaction", report, _begin_ns(report.begin_ns, asking, read), NAME),
        ),
    )


def _ends(site: Site, measure: RoundTrips) -> tuple[Endpoint, Endpoint]:
    topology = site.topology
    return (
        topology.endpoint(measure.src, towards=measure.dst, ip=measure.ip),
        topology.endpoint(measure.dst, towards=measure.src, ip=measure.ip),
    )


def _read(shape: type[Found], done: Done, at: Endpoint) -> Found:
    try:
        return parse_report(shape, done.asked.stdout)
    except ValueError as error:
        raise Failed(
            ProgramFault(code="report-unreadable", program=NAME, machine=at.machine, said=str(error))
        ) from error


def _begin_ns(begin_ns: int, asking: Endpoint, readings: Readings) -> int:
    """Return when the reported time began, on the time of the counters of the asking end's kernel [ns]."""
    own = readings.get(asking.kernel) or readings.get(HERE)
    return max(0, begin_ns - own[0].observations[0].begin_ns) if own else 0


def _raw(done: Done) -> dict[str, Json]:
    """Return what the asking end wrote, for the samples folder."""
    try:
        report = json.loads(done.asked.stdout.strip().rpartition("\n")[2])
    except ValueError:
        report = done.asked.stdout
    return {"schema": SCHEMA, "report": report, "messages": done.asked.stderr}
