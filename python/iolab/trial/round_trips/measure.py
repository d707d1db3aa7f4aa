"""Run a trial of round trips: run programs at both ends, and derive metrics, series and the verdict from their
report."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic

from iolab.agent.messages import Json
from iolab.experiment.experiment import Lab
from iolab.experiment.model.measures import Ping, RequestResponse, RoundTrips
from iolab.lab.packets.placement import Way, stream_way
from iolab.lab.topology import Endpoint
from iolab.messages.failures import NothingAnswered, ProgramFault
from iolab.results.metric import Metrics
from iolab.results.series import Series
from iolab.trial.interference.disturbed import disturbed
from iolab.trial.interference.work import Looked, work_done
from iolab.trial.lab_access import Site
from iolab.trial.measurement import Failed, Measured, Readings, after_begin_ns
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
"""Schema version of the raw samples."""


@dataclass(frozen=True, slots=True)
class Trips(Generic[Found]):
    """Data read in a trial."""

    asking: Endpoint
    """Requesting end."""
    answering: Endpoint
    """Answering end."""
    done: Done
    """Programs at both ends."""
    report: Found
    """Report of the requesting end."""
    work: tuple[Looked, Looked]
    """CPU work on the hosts before and after the trial."""


@dataclass(frozen=True, slots=True)
class Echoes:
    """Data read in a trial of echoes, and the paths of the echoes."""

    measure: Ping
    """Measure."""
    trips: Trips[ProbesReport]
    """Data read."""
    ways: Sequence[Way]
    """Forward and return path."""
    lab: Lab
    """Lab resolved for the cell."""


@dataclass(frozen=True, slots=True)
class Transactions:
    """Data read in a trial of transactions."""

    measure: RequestResponse
    """Measure."""
    trips: Trips[TransactionsReport]
    """Data read."""


def measure_ping(site: Site, measure: Ping) -> Echoes:
    """Run one trial of echoes.

    Raises:
        TrialFailed: a program failed, or no request was answered.
        AgentError: the connection to an agent is lost.
    """
    trips = _trips(site, measure, ProbesReport)
    if not trips.report.received:
        raise _unanswered(measure, trips, trips.report.sent)
    ends = ((trips.asking, trips.answering), (trips.answering, trips.asking))
    return Echoes(measure, trips, [stream_way(site.lab, site.topology, *pair) for pair in ends], site.lab)


def conclude_ping(evidence: Echoes, readings: Readings) -> Measured:
    """Derive the result from echoes and the counters during the trial."""
    measure, trips = evidence.measure, evidence.trips
    return Measured(
        metrics=Metrics(ping_metrics(trips.report)),
        warnings=(*ping_warnings(measure, trips.report), *disturbed(*trips.work, readings)),
        measured_ns=measure.warm_up + measure.duration,
        commands=trips.done.commands,
        raw=_raw(trips.done),
        series=_series("rtt", trips, readings),
        verdict=judge_echoes(measure, trips.report, evidence.ways, evidence.lab),
    )


def measure_transactions(site: Site, measure: RequestResponse) -> Transactions:
    """Run one trial of transactions.

    Raises:
        TrialFailed: a program failed, or there was no transaction.
        AgentError: the connection to an agent is lost.
    """
    trips = _trips(site, measure, TransactionsReport)
    if not trips.report.transactions:
        raise _unanswered(measure, trips, trips.report.lost + trips.report.unsent)
    return Transactions(measure, trips)


def conclude_transactions(evidence: Transactions, readings: Readings) -> Measured:
    """Derive the result from transactions and the counters during the trial."""
    measure, trips = evidence.measure, evidence.trips
    done, report = trips.done, trips.report
    programs: Mapping[str, Endpoint] = {
        done.asker: trips.asking, **({} if done.server is None else {done.server: trips.answering})
    }  # fmt: skip
    return Measured(
        metrics=Metrics(transaction_metrics(measure, report)),
        warnings=(*transaction_warnings(measure, report), *disturbed(*trips.work, readings)),
        measured_ns=measure.warm_up + measure.duration,
        commands=done.commands,
        raw=_raw(done),
        series=_series("transaction", trips, readings),
        verdict=judge(measure, report, programs, readings),
    )


def _trips(site: Site, measure: RoundTrips, shape: type[Found]) -> Trips[Found]:
    """Run the programs at both ends and parse the report. Raises TrialFailed and AgentError."""
    asking = site.topology.endpoint(measure.src, towards=measure.dst, ip=measure.ip)
    answering = site.topology.endpoint(measure.dst, towards=measure.src, ip=measure.ip)
    before = work_done(site)
    done = run_round_trips(site, measure, asking, answering)
    after = work_done(site)
    return Trips(asking, answering, done, _read(shape, done, asking), (before, after))


def _unanswered(measure: RoundTrips, trips: Trips[Found], sent: int) -> Failed:
    return Failed(NothingAnswered(machine=measure.dst, address=trips.answering.address, sent=sent))


def _read(shape: type[Found], done: Done, at: Endpoint) -> Found:
    try:
        return parse_report(shape, done.asked.stdout)
    except ValueError as error:
        raise Failed(
            ProgramFault(code="report-unreadable", program=NAME, machine=at.machine, said=str(error))
        ) from error


def _series(
    name: str, trips: Trips[ProbesReport] | Trips[TransactionsReport], readings: Readings
) -> tuple[Series, ...]:
    """Return the reported slices as series, on the clock of the requesting end's kernel."""
    begin_ns = after_begin_ns(readings, trips.asking.kernel, trips.report.begin_ns)
    return trip_series(name, trips.report, begin_ns, NAME)


def _raw(done: Done) -> dict[str, Json]:
    """Return the output of the requesting end for the samples folder."""
    try:
        report = json.loads(done.asked.stdout.strip().rpartition("\n")[2])
    except ValueError:
        report = done.asked.stdout
    return {"schema": SCHEMA, "report": report, "messages": done.asked.stderr}
