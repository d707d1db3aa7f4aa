"""One-way latency of every frame at a given rate."""

from iolab.experiment.measures import Latency
from iolab.lab.packets.frames import fps_of
from iolab.record.metric import Metric
from iolab.trial.load import LoadBench
from iolab.trial.measured import Measured
from iolab.trial.packet_figures import (
    balance_metrics,
    common_warnings,
    latency_metrics,
    raw_samples,
    use_metrics,
)
from iolab.trial.search.types import LoadTrial
from iolab.trial.site import Site

USUAL_LOSS_RATIO = 0.0001
"""Loss from which on a verdict is given: the usual goal of a search for a rate."""


def measure_latency(site: Site, measure: Latency) -> Measured:
    """Measure once.

    Raises:
        TrialFailed: the ports could not be opened, or the trial could not be run.
        AgentError: the agent is gone.
    """
    fps = fps_of(measure.rate, measure, "rate")
    with LoadBench(site, measure, USUAL_LOSS_RATIO) as bench:
        record = bench.run(LoadTrial(intended_fps=fps, duration_ns=measure.duration), "latency")
        metrics = {
            **latency_metrics([record]),
            "offered_fps": Metric(record.offered_fps, "pps"),
            "forwarded_fps": Metric(record.forwarded_fps, "pps"),
            "loss_ratio": Metric(record.result.loss_ratio, "ratio"),
            "reordered_frames": Metric(float(record.disorder[0]), "count"),
            "duplicate_frames": Metric(float(record.disorder[1]), "count"),
            **balance_metrics([record]),
            **use_metrics([record]),
        }
        if record.latency is not None:
            metrics["latency_min_ns"] = Metric(float(record.latency.min), "ns")
            metrics["latency_mean_ns"] = Metric(record.latency.mean, "ns")
        return Measured(
            metrics=metrics,
            warnings=common_warnings(bench, [record]),
            measured_ns=record.result.duration_ns,
            commands=(),
            raw=raw_samples(bench, [record], rate_fps=fps * len(bench.directions)),
        )
