"""One-way latency of every frame at a given rate."""

from iolab.experiment.model.packets import Latency
from iolab.lab.packets.frames import given_fps
from iolab.results.metric import Metric
from iolab.trial.lab_access import Site
from iolab.trial.measurement import Measured
from iolab.trial.packets.figures import (
    balance_metrics,
    latency_metrics,
    measured,
    use_metrics,
)
from iolab.trial.packets.interference import judged
from iolab.trial.packets.load import LoadBench
from iolab.trial.search.types import LoadTrial

USUAL_LOSS_RATIO = 0.0001
"""Loss from which on a verdict is given: the usual goal of a search for a rate."""


def measure_latency(site: Site, measure: Latency) -> Measured:
    """Measure once.

    Raises:
        TrialFailed: the ports could not be opened, or the trial could not be run.
        AgentError: the agent is gone.
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
