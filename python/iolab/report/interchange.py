"""`iolab show RUN --json`: a documented, versioned format for programs (docs/reference/show-json.md)."""

import json
from collections.abc import Mapping

from iolab.analysis.level_types import LevelsFigure, LevelsRatio
from iolab.analysis.types import Analysis, Estimate
from iolab.report import interchange_packets
from iolab.report.interchange_conclusions import conclusions, ends
from iolab.report.interchange_packets import finite, quantity
from iolab.report.locale import EN, Words
from iolab.report.sentences import counted
from iolab.report.stated import stated, warned
from iolab.results.metric import Metrics
from iolab.store.records import StoredRun, TrialRecord

SHOW_SCHEMA = 2
"""Version of the format: additions keep it, changes and removals raise it."""


def show_json(run: StoredRun, analysis: Analysis, words: Words = EN) -> str:
    """Render a run and its estimates as JSON; values are in stored units, absent figures are null."""
    document: Mapping[str, object] = {
        "schema": SHOW_SCHEMA,
        "run": run.name,
        "status": run.status.value,
        "notes": [warned(note, words) for note in run.notes],
        "joined_late": run.joined_late,
        "trials": [_trial(trial, words) for trial in counted(run.trials)],
        "estimates": [_estimate(estimate) for estimate in analysis.estimates],
        **conclusions(analysis),
        "warnings": [warned(note, words) for note in analysis.notes],
        "levels": [_levels_figure(each) for each in analysis.levels_figures],
        "levels_ratios": [_levels_ratio(each) for each in analysis.levels_ratios],
        "paths": [
            {
                "measure": measure,
                "rate_bps": path.rate_bps,
                "rtt_ns": path.rtt_ns,
                "round_trip_bytes": path.round_trip_bytes,
                "one_way_bytes": path.one_way_bytes,
            }
            for measure, path in analysis.paths.items()
        ],
        "streams": [interchange_packets.streams(found, words) for found in analysis.streams],
        "forwarding": [interchange_packets.measure(found, analysis, words) for found in analysis.forwarding],
    }
    return json.dumps(document, ensure_ascii=False, allow_nan=False)


def _trial(trial: TrialRecord, words: Words) -> Mapping[str, object]:
    verdict = trial.result.verdict
    return {
        "key": trial.key,
        "cell": dict(trial.cell),
        "block": trial.block,
        "measure": trial.measure,
        "status": trial.result.status.value,
        "reason": stated(trial.result.reason, words) if trial.result.reason else None,
        "kind": trial.kind,
        "direction": trial.direction,
        "warnings": [warned(warning, words) for warning in trial.result.warnings],
        "verdict": None if verdict is None else interchange_packets.trial_verdict(verdict, words),
        "metrics": _metrics(trial.result.metrics),
        "in_effect": {place: dict(settings) for place, settings in trial.result.in_effect.items()},
    }


def _metrics(metrics: Metrics) -> list[Mapping[str, object]]:
    """Write the metrics of a trial without making an object of each: a run has millions."""
    heads, limits = metrics.heads, metrics.limits
    return [
        {
            "name": of.name,
            "dimensions": of.dimensions.known(),
            "unit": unit,
            "value": finite(value),
            "limited_by": limits.get(at, ""),
            "better": better,
            "method": method,
        }
        for at, (of, unit, better, method, value) in enumerate(
            zip(heads.quantities, heads.units, heads.better, heads.methods, metrics.values, strict=True)
        )
    ]


def _estimate(estimate: Estimate) -> Mapping[str, object]:
    return {
        "cell": dict(estimate.cell),
        "measure": estimate.measure,
        **quantity(estimate.metric),
        "direction": estimate.direction,
        "unit": estimate.unit,
        "better": estimate.better,
        "method": estimate.method,
        "n": estimate.n,
        "mean": finite(estimate.mean),
        "min": finite(estimate.min),
        "max": finite(estimate.max),
        "median": finite(estimate.median),
        "ci": ends(estimate.ci),
        "ratio": finite(estimate.ratio),
        "ratio_ci": ends(estimate.ratio_ci),
        "bounds": estimate.bounds,
        "limited_by": list(estimate.limited_by),
        "ratio_bound": estimate.ratio_bound,
    }


def _levels_figure(each: LevelsFigure) -> Mapping[str, object]:
    return {
        "measure": each.measure,
        **quantity(each.metric),
        "unit": each.unit,
        "method": each.method,
        "over": each.over,
        "levels": list(each.levels),
        "cell": dict(each.cell),
        "statistic": each.statistic,
        "values": [finite(value) for value in each.values],
        "left_out": each.left_out,
        "mean": finite(each.mean),
        "min": finite(each.min),
        "max": finite(each.max),
        "ci": ends(each.ci),
        "limited_by": list(each.limited_by),
    }


def _levels_ratio(each: LevelsRatio) -> Mapping[str, object]:
    return {
        "measure": each.measure,
        **quantity(each.metric),
        "over": each.over,
        "levels": list(each.levels),
        "cell": dict(each.cell),
        "statistic": each.statistic,
        "factor": each.between.factor,
        "above": each.between.above,
        "below": each.between.below,
        "n": each.n,
        "ratio": finite(each.ratio),
        "ci": ends(each.ci),
        "bound": each.bound,
    }
