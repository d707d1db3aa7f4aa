"""Compute the metrics of round trips from the programs' reports. Pure."""

from collections.abc import Iterator, Sequence

from iolab.agent.messages import Histogram
from iolab.experiment.model.measures import Ping, RequestResponse
from iolab.messages.programs import AnswersUnstamped, RequestsLate, RequestsRefused, RequestsUnsent
from iolab.messages.warnings import TrialWarning
from iolab.results.metric import Metric, unit_of
from iolab.results.series import Series, series
from iolab.trial.histograms import even_quantile, quantile
from iolab.trial.round_trips.requests import ProbesReport, Slice, TransactionsReport
from iolab.units import NS_PER_S

SHORT_RATIO = 0.01
"""Minimum share of unsent requests that causes a warning [ratio]."""
LATE_RATIO = 0.5
"""Maximum lateness of requests, relative to their interval, at which requests count as evenly paced [ratio]."""
NS_PER_MIN = 60 * NS_PER_S
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99_9": 0.999, "p99_99": 0.9999}
"""Quantiles by metric suffix."""


def ping_metrics(report: ProbesReport) -> tuple[Metric, ...]:
    """Return round-trip times, loss and reordering."""
    return (
        *_times("rtt", report.rtt_ns),
        Metric.of("loss_ratio", 1 - report.received / report.sent if report.sent else 0.0),
        Metric.of("requests_sent", float(report.sent)),
        Metric.of("duplicate_answers", float(report.duplicate)),
        Metric.of("reordered_answers", float(report.reordered)),
        *_responsiveness(report.rtt_ns),
    )


def ping_warnings(measure: Ping, report: ProbesReport) -> tuple[TrialWarning, ...]:
    """Return the warnings that limit the validity of echo results."""
    found: list[TrialWarning] = []
    intended = report.sent + report.unsent + report.refused
    if report.unsent > SHORT_RATIO * intended:
        found.append(RequestsUnsent(machine=measure.src, unsent=report.unsent, intended=intended))
    if report.refused > SHORT_RATIO * intended:
        found.append(RequestsRefused(machine=measure.src, refused=report.refused, intended=intended))
    late_ns = quantile(report.lateness_ns, 0.99)
    if late_ns is not None and late_ns > LATE_RATIO * measure.interval:
        found.append(RequestsLate(machine=measure.src, late_p99_ns=late_ns, interval_ns=measure.interval))
    if report.received and not report.stamped:
        found.append(AnswersUnstamped(machine=measure.src))
    return tuple(found)


def transaction_metrics(measure: RequestResponse, report: TransactionsReport) -> tuple[Metric, ...]:
    """Return the rate of transactions, their latency, and losses."""
    asked = report.transactions + report.lost
    return (
        Metric.of("transactions_per_s", report.transactions / report.duration_ns * NS_PER_S),
        *_times("transaction", report.latency_ns),
        *(_times("connect", report.connect_ns) if report.connect_ns.count else ()),
        Metric.of("transactions", float(report.transactions)),
        *([Metric.of("loss_ratio", report.lost / asked)] if measure.protocol == "udp" and asked else []),
        *_responsiveness(report.latency_ns),
    )


def transaction_warnings(measure: RequestResponse, report: TransactionsReport) -> tuple[TrialWarning, ...]:
    """Return the warnings that limit the validity of transaction results."""
    intended = report.transactions + report.lost + report.unsent
    if report.unsent <= SHORT_RATIO * intended:
        return ()
    return (RequestsUnsent(machine=measure.src, unsent=report.unsent, intended=intended),)


def trip_series(
    name: str, report: ProbesReport | TransactionsReport, begin_ns: int, source: str
) -> tuple[Series, ...]:
    """Return mean and maximum time per slice, and completions per second; `begin_ns` is the start of the slices on the
    trial's time axis."""
    ended = [
        (begin_ns + at * report.slice_ns, each) for at, each in enumerate(report.slices, 1) if each.count
    ]
    if not ended:
        return ()
    found = {
        f"{name}_mean_ns": [(at, each.sum_ns / each.count) for at, each in ended],
        f"{name}_max_ns": [(at, float(each.max_ns)) for at, each in ended],
        f"{name}s_per_s": _rates(report.slices, report.slice_ns, begin_ns),
    }
    return tuple(series(name, unit_of(name), points, source=source) for name, points in found.items())


def _rates(slices: Sequence[Slice], slice_ns: int, begin_ns: int) -> list[tuple[int, float]]:
    return [(begin_ns + at * slice_ns, each.count * NS_PER_S / slice_ns) for at, each in enumerate(slices, 1)]


def _times(name: str, found: Histogram) -> Iterator[Metric]:
    """Yield quantiles, mean, minimum and maximum; yield nothing if no round trip was timed."""
    if not found.count or found.min is None or found.max is None:
        return
    for word, share in QUANTILES.items():
        yield Metric.of(f"{name}_{word}_ns", even_quantile(found, share) or 0.0)
    yield Metric.of(f"{name}_mean_ns", found.sum / found.count)
    yield Metric.of(f"{name}_min_ns", float(found.min))
    yield Metric.of(f"{name}_max_ns", float(found.max))


def _responsiveness(found: Histogram) -> Iterator[Metric]:
    """Yield the number of sequential round trips per minute."""
    if found.count and found.sum:
        yield Metric.of("round_trips_per_min", NS_PER_MIN * found.count / found.sum)
