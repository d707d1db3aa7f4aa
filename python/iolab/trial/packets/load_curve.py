"""Measure forwarded rate, loss, latency and CPU use against offered load: one load trial per step; or latency in one
load trial at a fixed rate."""

from collections.abc import Sequence

from iolab.experiment.model.packets import Latency, LoadCurve
from iolab.lab.packets.frames import fps_of, given_fps, line_fps
from iolab.messages.failures import PlainFailure
from iolab.messages.warnings import (
    SearchCutShort,
    StepsAboveLine,
    TrialWarning,
)
from iolab.results.metric import Dimensions, Metric
from iolab.results.packets import LoadRecord, SearchRecord
from iolab.results.verdict import Limit
from iolab.trial.interference.disturbed import judged
from iolab.trial.lab_access import Site
from iolab.trial.measurement import Failed, Measured
from iolab.trial.packets.figures import (
    balance_metrics,
    latency_metrics,
    measured,
    use_metrics,
)
from iolab.trial.packets.forwarding import limited_by, searched_rate
from iolab.trial.packets.load import LoadBench
from iolab.trial.packets.paths import settled
from iolab.trial.search.types import LoadTrial

USUAL_LOSS_RATIO = 0.0001
"""Loss ratio above which a load gets a verdict: the default goal of a rate search."""


def measure_load_curve(site: Site, measure: LoadCurve) -> Measured:
    """Measure every step of a load curve.

    Raises:
        TrialFailed: the ports could not be opened, a load trial could not run, or no rate was found.
        AgentError: the connection to the agent is lost.
    """
    measure = settled(site, measure)
    with LoadBench(site, measure, measure.loss_ratio) as bench:
        found: list[LoadRecord] = []
        searched: SearchRecord | None = None
        limit = ""
        notes: tuple[TrialWarning, ...] = ()
        if measure.rate is not None:
            rate_fps = fps_of(measure.rate, measure, "rate")
        else:
            found, result, strategy = searched_rate(bench, measure)
            searched = SearchRecord("fast", strategy.goal, result)
            rate_fps = result.rate_fps or max(record.forwarded_fps for record in found) / len(
                bench.directions
            )
            if not rate_fps:
                raise Failed(PlainFailure(code="nothing-forwarded"))
            notes += () if result.robust_fps else (SearchCutShort(code="curve-partial", ended=result.seen),)
            limit = limited_by(result, found)
        steps = [
            bench.run(_trial(measure, rate_fps * share), "curve", share)
            for share in dict.fromkeys(measure.steps)
        ]
        taken = bench.taken([*found, *steps])
        steps = judged(steps, taken)
        everything = [*judged(found, taken), *steps]
        metrics = (
            _highest(steps),
            Metric.of("rate_fps", bench.over_all(rate_fps), limited_by=limit),
            *balance_metrics(everything),
            *(metric for step in steps for metric in _step(step)),
        )
        warnings = (*taken, *notes, *_above_line(measure, rate_fps))
        return measured(bench, everything, metrics, warnings, search=searched, rate_fps=rate_fps)


def _highest(steps: Sequence[LoadRecord]) -> Metric:
    """Return the highest forwarded rate of all steps; it is only a lower bound if no step shows the device's limit."""
    best = max(step.forwarded_fps for step in steps)
    causes = [step.verdict.limit for step in steps if step.verdict.limit not in (Limit.NONE, Limit.HOST)]
    own = [limit for limit in causes if limit in (Limit.GENERATOR, Limit.RECEIVER)]
    if causes:
        limit = own[0].value if len(own) == len(causes) else ""
    else:
        limit = Limit.HOST.value if any(step.verdict.limit is Limit.HOST for step in steps) else "load"
    return Metric.of("forwarded_fps", best, limited_by=limit)


def _trial(measure: LoadCurve, fps: float) -> LoadTrial:
    line = line_fps(measure)
    return LoadTrial(
        intended_fps=max(1.0, fps if line is None else min(fps, line)), duration_ns=measure.trial
    )


def _step(record: LoadRecord) -> tuple[Metric, ...]:
    at_load = Dimensions(load_ratio=record.share_ratio)
    return (
        Metric.of("offered_fps", record.offered_fps, at_load),
        Metric.of("forwarded_fps", record.forwarded_fps, at_load),
        Metric.of("loss_ratio", record.result.loss_ratio, at_load),
        Metric.of("unsent_ratio", record.result.unsent_ratio, at_load),
        *latency_metrics([record], record.share_ratio),
        *use_metrics([record], record.share_ratio),
    )


def _above_line(measure: LoadCurve, rate_fps: float) -> tuple[TrialWarning, ...]:
    line = line_fps(measure)
    beyond = [share for share in measure.steps if line is not None and rate_fps * share > line]
    if not beyond:
        return ()
    return (StepsAboveLine(steps=len(beyond), from_ratio=min(beyond)),)


def measure_latency(site: Site, measure: Latency) -> Measured:
    """Measure latency at one load.

    Raises:
        TrialFailed: the ports could not be opened, or the trial could not run.
        AgentError: the connection to the agent is lost.
    """
    fps = given_fps(measure, measure.rate)
    with LoadBench(site, measure, USUAL_LOSS_RATIO) as bench:
        ran = bench.run(LoadTrial(intended_fps=fps, duration_ns=measure.duration), "latency")
        taken = bench.taken([ran])
        (record,) = judged([ran], taken)
        metrics = [
            *latency_metrics([record]),
            Metric.of("offered_fps", record.offered_fps),
            Metric.of("forwarded_fps", record.forwarded_fps),
            Metric.of("loss_ratio", record.result.loss_ratio),
            Metric.of("reordered_frames", float(record.disorder[0])),
            Metric.of("duplicate_frames", float(record.disorder[1])),
            *balance_metrics([record]),
            *use_metrics([record]),
        ]
        if record.latency is not None:
            metrics.append(Metric.of("latency_min_ns", float(record.latency.min)))
            metrics.append(Metric.of("latency_mean_ns", record.latency.mean))
        return measured(bench, [record], metrics, taken, rate_fps=fps)
