"""OpenMetrics text (version 1.0): the estimates of a run as gauges, for the textfile collector of Prometheus.

Samples have no timestamps, because the textfile collector refuses them; `iolab_run_started_seconds` has the time.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from iolab.analysis.types import Analysis, Estimate
from iolab.report.sentences import counted
from iolab.results.metric import UNIT_ENDS, method_name
from iolab.store.records import StoredRun

PREFIX = "iolab_"
_FOREIGN = re.compile(r"[^a-zA-Z0-9_]+")
"""Pattern of characters that names of metrics and labels cannot have."""
_END = "# EOF\n"
Labels = Mapping[str, str]


def text(run: StoredRun, analysis: Analysis, version: str) -> str:
    """Return the estimates of a run, its number of trials by status, and its start time, as OpenMetrics text.

    A figure has the labels `run`, `measure`, `statistic`, `method`, its dimensions, and `factor_NAME` for each factor
    of its cell; `limited_by` names the limits that make the figure a lower bound.
    """
    own = {"run": run.name}
    lines = [*_family("run", "info", "", [("_info", {**own, "title": run.plan.title, "iolab": version}, 1)])]
    trials = counted(run.trials)
    statuses = sorted({trial.result.status.value for trial in trials})
    counts = [
        ("", {**own, "status": status}, sum(trial.result.status.value == status for trial in trials))
        for status in statuses
    ]
    lines += _family("trials", "gauge", "", counts)
    if run.trials:
        started = datetime.fromisoformat(run.trials[0].wall).timestamp()
        lines += _family("run_started_seconds", "gauge", "seconds", [("", own, started)])
    factors = _label_names([factor.name for factor in run.plan.factors])
    by_name: dict[str, list[tuple[str, Labels, float]]] = {}
    numbers = []
    for estimate in analysis.estimates:
        about = _about(estimate, own, factors)
        numbers.append(("", {**about, "metric": estimate.metric.name}, estimate.n))
        by_name.setdefault(_name(estimate.metric.name), []).extend(_samples(estimate, about))
    lines += _family("estimate_trials", "gauge", "", numbers)
    for name, samples in by_name.items():
        lines += _family(name, "gauge", _unit(name), samples)
    return "".join(f"{line}\n" for line in lines) + _END


def _about(estimate: Estimate, own: Labels, factors: Mapping[str, str]) -> Labels:
    levels = {factors[name]: label for name, label in estimate.cell.items() if name in factors}
    dimensions = {name: str(value) for name, value in estimate.metric.dimensions.known().items()}
    method = method_name(estimate.method)
    return {**own, "measure": estimate.measure, "method": method, **dimensions, **levels}


def _samples(estimate: Estimate, about: Labels) -> Iterator[tuple[str, Labels, float]]:
    bound = {"limited_by": ",".join(estimate.limited_by)} if estimate.limited_by else {}
    figures = {
        "mean": estimate.mean,
        "median": estimate.median,
        "min": estimate.min,
        "max": estimate.max,
    }
    if estimate.ci is not None:
        figures |= {"ci_low": estimate.ci.low, "ci_high": estimate.ci.high}
    for statistic, value in figures.items():
        yield "", {**about, "statistic": statistic, **bound}, value


def _family(name: str, kind: str, unit: str, samples: Iterable[tuple[str, Labels, float]]) -> Iterator[str]:
    yield f"# TYPE {PREFIX}{name} {kind}"
    if unit:
        yield f"# UNIT {PREFIX}{name} {unit}"
    for suffix, labels, value in samples:
        if math.isfinite(value):
            listed = ",".join(f'{key}="{_escaped(label)}"' for key, label in labels.items())
            yield f"{PREFIX}{name}{suffix}{{{listed}}} {value!r}"


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _name(text: str) -> str:
    return _FOREIGN.sub("_", text).strip("_")


def _unit(name: str) -> str:
    """Return the unit that ends a name, as OpenMetrics demands of units; empty: the name ends in no unit."""
    return next((end[1:] for end in sorted(UNIT_ENDS, key=len, reverse=True) if name.endswith(end)), "")


def _label_names(factors: Sequence[str]) -> dict[str, str]:
    """Return a label name for each factor: equal names get numbers."""
    names: dict[str, str] = {}
    for factor in factors:
        name = f"factor_{_name(factor)}"
        number = 1
        while (numbered := name if number == 1 else f"{name}_{number}") in names.values():
            number += 1
        names[factor] = numbered
    return names
