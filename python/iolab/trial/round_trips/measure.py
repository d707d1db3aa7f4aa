"""A trial of round trips: both ends run, the report read, figures, series and verdict made of it."""

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
"""Version of the raw samples."""


@dataclass(frozen=True, slots=True)
class Trips(Generic[Found]):
    """What a trial read."""

    asking: Endpoint
    """The end that asked."""
    answering: Endpoint
    """The end that answered."""
    done: Done
    """The programs at both ends."""
    report: Found
    """Of the end that asked."""
    work: tuple[Looked, Looked]
    """Of the computers, before and after."""


@dataclass(frozen=True, slots=True)
class Echoes:
    """What a trial of echoes read, and where these went."""

    measure: Ping
    """What was asked for."""
    trips: Trips[ProbesReport]
    """What was read."""
    ways: Sequence[Way]
    """There and back."""
    lab: Lab
    """As resolved for the cell."""


@dataclass(frozen=True, slots=True)
class Transactions:
    """What a trial of transactions read."""

    measure: RequestResponse
    """What was asked for."""
    trips: Trips[TransactionsReport]
    """What was read."""


def measure_ping(site: Site, measure: Ping) -> Echoes:
    """Measure once.

    Raises:
        TrialFailed: a program did not do its part, or nothing was answered.
        AgentError: an agent is gone.
    """
    trips = _trips(site, measure, ProbesReport)
    if not trips.report.received:
        raise _unanswered(measure, trips, trips.report.sent)
    ends = ((trips.asking, trips.answering), (trips.answering, trips.asking))
    return Echoes(measure, trips, [stream_way(site.lab, site.topology, *pair) for pair in ends], site.lab)


def conclude_ping(evidence: Echoes, readings: Readings) -> Measured:
    """Conclude from echoes, and from the counters read meanwhile."""
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
    """Measure once.

    Raises:
        TrialFailed: a program did not do its part, or there was no transaction.
        AgentError: an agent is gone.
    """
    trips = _trips(site, measure, TransactionsReport)
    if not trips.report.transactions:
        raise _unanswered(measure, trips, trips.report.lost + trips.report.unsent)
    return Transactions(measure, trips)


def conclude_transactions(evidence: Transactions, readings: Readings) -> Measured:
    """Conclude from transactions, and from the counters read meanwhile."""
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
    """Run the programs at both ends and read the report. Raises TrialFailed and AgentError."""
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
    """Return the reported slices, on the time of the counters of the asking end's kernel."""
    begin_ns = after_begin_ns(readings, trips.asking.kernel, trips.report.begin_ns)
    return trip_series(name, trips.report, begin_ns, NAME)


def _raw(done: Done) -> dict[str, Json]:
    """Return what the asking end wrote, for the samples folder."""
    try:
        report = json.loads(done.asked.stdout.strip().rpartition("\n")[2])
    except ValueError:
        report = done.asked.stdout
    return {"schema": SCHEMA, "report": report, "messages": done.asked.stderr}
