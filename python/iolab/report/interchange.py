"""The versioned JSON formats of `iolab show RUN --json` and `iolab compare --json` (docs/reference/show-json.md)."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence

from iolab.analysis.comparison import CellComparison, Comparison
from iolab.analysis.forwarding_types import (
    BalanceSheet,
    CellTruth,
    Curve,
    Forwarding,
    StreamLimits,
    UsedPath,
    Verdict,
)
from iolab.analysis.level_types import LevelsRatio
from iolab.analysis.types import Analysis, CellKey, Estimate, Finding, Interval, cell_key
from iolab.report import expectations
from iolab.report.locale import EN, Words
from iolab.report.sentences import counted
from iolab.report.stated import stated, stated_all, warned
from iolab.results.metric import Metrics, Quantity
from iolab.results.verdict import Verdict as TrialVerdict
from iolab.store.records import StoredRun, TrialRecord

SHOW_SCHEMA = 2
"""Version of `show --json`: changed or removed keys increment it, new keys do not."""
COMPARISON_SCHEMA = 1
"""Version of `compare --json`."""
Document = Mapping[str, object]
"""Plain JSON data for output."""
RATES = (
    "forwarded_fps", "forwarded_strict_fps", "lower_fps", "upper_fps", "ci_low_fps", "ci_high_fps", "rate_fps",
    "forwarded_bps_l1", "forwarded_bps_l2", "loss_ratio",
)  # fmt: skip
"""Metrics of a whole cell; one JSON object contains their means."""
LEVELS_FIGURE = (
    "measure", "metric", "unit", "method", "over", "levels", "cell", "statistic", "values", "left_out", "mean", "min",
    "max", "ci", "limited_by",
)  # fmt: skip
"""Fields of each type in the document, in this order; a metric becomes two fields."""
FINDING = (
    "measure", "metric", "factor", "level", "reference", "conditions", "ratio", "ci", "shown", "each_direction",
    "better",
)  # fmt: skip
EFFECT = ("measure", "metric", "levels", "reference", "ratio", "ci", "p_value", "better")
ONSET = ("measure", "factor", "conditions", "level", "largest", "loss", "loss_at_largest")
PATH = ("rate_bps", "rtt_ns", "round_trip_bytes", "one_way_bytes")
DIRECTION_RATIO = ("cell", "n", "mean", "min", "max", "bound")
VERDICT = ("doubtful", "count", "total", "cpu", "cpu_busy_ratio", "idle_ratio")
OVERALL = ("measure", "metric", "cells", "ratio", "ci", "p_value", "better")
LONE = ("measure", "cell")
_AS_IT_IS = frozenset({str, int, bool, type(None)})


def show_json(run: StoredRun, analysis: Analysis, words: Words = EN) -> str:
    """Return a run and its estimates as JSON; values are in stored units, missing figures are null."""
    document: Document = {
        "schema": SHOW_SCHEMA,
        "run": run.name,
        "status": run.status.value,
        "notes": [warned(note, words) for note in run.notes],
        "joined_late": run.joined_late,
        "trials": [_trial(trial, words) for trial in counted(run.trials)],
        "estimates": [_estimate(each) for each in analysis.estimates],
        "findings": [_finding(each) for each in analysis.findings],
        "effects": _each(analysis.effects, EFFECT),
        "onsets": _each(analysis.onsets, ONSET),
        "warnings": [warned(note, words) for note in analysis.notes],
        "levels": _each(analysis.levels_figures, LEVELS_FIGURE),
        "levels_ratios": [_levels_ratio(each) for each in analysis.levels_ratios],
        "paths": [{"measure": measure, **_picked(path, PATH)} for measure, path in analysis.paths.items()],
        "streams": [_streams(found, words) for found in analysis.streams],
        "forwarding": [_forwarding(found, analysis, words) for found in analysis.forwarding],
        "expectations": expectations.document(analysis.expectations),
    }
    return json.dumps(document, ensure_ascii=False, allow_nan=False)


def comparison_json(compared: Comparison, words: Words = EN) -> str:
    """Return the comparison of two runs as JSON; ratios are those of run b to run a."""
    document: Document = {
        "schema": COMPARISON_SCHEMA,
        "run_a": compared.run_a,
        "run_b": compared.run_b,
        "leading": {measure: _quantity(metric) for measure, metric in compared.leading.items()},
        "cells": [_compared(each) for each in compared.cells],
        "overall": _each(compared.overall, OVERALL),
        "only_a": _each(compared.only_a, LONE),
        "only_b": _each(compared.only_b, LONE),
        "warnings": [warned(each, words) for each in compared.warnings],
    }
    return json.dumps(document, ensure_ascii=False, allow_nan=False)


def _each(found: Iterable[object], names: Sequence[str]) -> list[Document]:
    return [_picked(each, names) for each in found]


def _picked(found: object, names: Sequence[str]) -> dict[str, object]:
    """Return the named fields of a value as plain JSON data."""
    document: dict[str, object] = {}
    for name in names:
        value = getattr(found, name)
        if type(value) in _AS_IT_IS:
            document[name] = value
        elif isinstance(value, Quantity):
            document |= _quantity(value)
        else:
            document[name] = _plain(value)
    return document


def _plain(value: object) -> object:
    match value:
        case float():
            return _finite(value)
        case Interval():
            return _ends(value)
        case Mapping():
            return dict(value)
        case list() | tuple():
            return [_plain(each) for each in value]
        case _:
            return value


def _finite(value: float | None) -> float | None:
    """Return a finite number, or None for infinity and NaN, which JSON does not have."""
    return value if value is not None and math.isfinite(value) else None


def _ends(interval: Interval | None) -> list[float | None] | None:
    return None if interval is None else [_finite(interval.low), _finite(interval.high)]


def _quantity(of: Quantity) -> Document:
    """Return a quantity as its name and its dimensions."""
    return {"metric": of.name, "dimensions": of.dimensions.known()}


def _trial(trial: TrialRecord, words: Words) -> Document:
    result = trial.result
    return {
        **_picked(trial, ("key", "cell", "block", "measure")),
        "status": result.status.value,
        "reason": stated(result.reason, words) if result.reason else None,
        **_picked(trial, ("kind", "direction")),
        "warnings": [warned(warning, words) for warning in result.warnings],
        "verdict": None if result.verdict is None else _trial_verdict(result.verdict, words),
        "metrics": _metrics(result.metrics),
        "in_effect": {place: dict(settings) for place, settings in result.in_effect.items()},
    }


def _metrics(metrics: Metrics) -> list[Document]:
    """Return the metrics of a trial without creating an object per metric: a run has millions of metrics."""
    heads, limits = metrics.heads, metrics.limits
    return [
        {
            "name": of.name,
            "dimensions": of.dimensions.known(),
            "unit": unit,
            "value": _finite(value),
            "limited_by": limits.get(at, ""),
            "better": better,
            "method": method,
        }
        for at, (of, unit, better, method, value) in enumerate(
            zip(heads.quantities, heads.units, heads.better, heads.methods, metrics.values, strict=True)
        )
    ]


def _estimate(each: Estimate) -> Document:
    """Return an estimate, key by key: a run has thousands of estimates, and a loop over field names takes twice as
    long."""
    return {
        "cell": dict(each.cell),
        "measure": each.measure,
        "metric": each.metric.name,
        "dimensions": each.metric.dimensions.known(),
        "direction": each.direction,
        "unit": each.unit,
        "better": each.better,
        "method": each.method,
        "n": each.n,
        "mean": _finite(each.mean),
        "min": _finite(each.min),
        "max": _finite(each.max),
        "median": _finite(each.median),
        "ci": _ends(each.ci),
        "ratio": _finite(each.ratio),
        "ratio_ci": _ends(each.ratio_ci),
        "bounds": each.bounds,
        "limited_by": list(each.limited_by),
        "ratio_bound": each.ratio_bound,
    }


def _finding(each: Finding) -> Document:
    """Return a finding; numpy's booleans are converted to Python's."""
    said = {"shown": bool(each.shown), "each_direction": bool(each.each_direction)}
    return {**_picked(each, FINDING), **said}


def _levels_ratio(each: LevelsRatio) -> Document:
    return {
        **_picked(each, ("measure", "metric", "over", "levels", "cell", "statistic")),
        **_picked(each.between, ("factor", "above", "below")),
        **_picked(each, ("n", "ratio", "ci", "bound")),
    }


def _compared(each: CellComparison) -> Document:
    return {
        **_picked(each, ("cell", "measure", "metric", "unit")),
        "n": [each.n_a, each.n_b],
        "mean": [_finite(each.mean_a), _finite(each.mean_b)],
        "limited_by": [list(each.limited_a), list(each.limited_b)],
        "method": [each.method_a, each.method_b],
        **_picked(each, ("ratio_bound", "ratio", "ci", "p_value", "better")),
    }


def _forwarding(found: Forwarding, analysis: Analysis, words: Words) -> Document:
    """Return all forwarding results of a measure, cell by cell."""
    own: dict[CellKey, dict[str, Estimate]] = {}
    for metric, estimates in analysis.estimates.of_measure(found.measure).items():
        for estimate in estimates if metric.dimensions.whole else ():
            own.setdefault(cell_key(estimate.cell), {})[metric.name] = estimate
    truths = {cell_key(each.cell): each for each in found.cells}
    curves: dict[CellKey, list[Curve]] = {}
    for curve in found.curves:
        curves.setdefault(cell_key(curve.cell), []).append(curve)
    return {
        "measure": found.measure,
        "kind": found.kind.value,
        "cells": [
            _cell(metrics, truths.get(key), curves.get(key, ()), words) for key, metrics in own.items()
        ],
        "ratios": _each(found.ratios, DIRECTION_RATIO),
        "paths": [_path(each, words) for each in found.paths],
        "shared": [{**stated(each.seen, words), "count": each.count} for each in found.shared],
        "samples_read": found.samples_read,
        "samples_total": found.samples_total,
    }


def _cell(
    metrics: Mapping[str, Estimate], truth: CellTruth | None, curves: Iterable[Curve], words: Words
) -> Document:
    known = {metric: metrics[metric] for metric in RATES if metric in metrics}
    return {
        "cell": dict(next(iter(metrics.values())).cell),
        "rates": {metric: _finite(each.mean) for metric, each in known.items()},
        "limited_by": list(dict.fromkeys(code for each in known.values() for code in each.limited_by)),
        "loads": _loads(curves),
        "verdict": None if truth is None else _verdict(truth.verdict, words),
        "balance": None if truth is None else _balance(truth.balance, words),
    }


def _loads(curves: Iterable[Curve]) -> list[Document]:
    """Return all results at load ratios, in ascending order of the load."""
    found: dict[float, list[Document]] = {}
    for curve in curves:
        for point in curve.points:
            found.setdefault(point.load_ratio, []).append(
                {**_quantity(curve.metric), "unit": curve.unit, "median": _finite(point.median)}
            )
    return [{"load_ratio": load_ratio, "metrics": found[load_ratio]} for load_ratio in sorted(found)]


def _streams(found: StreamLimits, words: Words) -> Document:
    """Return the limits of a measure's streams, cell by cell."""
    cells = [{"cell": dict(each.cell), "verdict": _verdict(each.verdict, words)} for each in found.cells]
    return {"measure": found.measure, "cells": cells}


def _trial_verdict(verdict: TrialVerdict | Verdict, words: Words) -> Document:
    """Return the limit of a trial and its evidence."""
    return {
        "limit": str(verdict.limit),
        "place": None if verdict.place is None else stated(verdict.place, words),
        "seen": stated_all(verdict.seen, words),
        "text": words.said.say_all(verdict.seen),
        "doubt": None if verdict.doubt is None else stated(verdict.doubt, words),
    }


def _verdict(verdict: Verdict, words: Words) -> Document:
    return {**_trial_verdict(verdict, words), **_picked(verdict, VERDICT)}


def _balance(sheet: BalanceSheet, words: Words) -> Document:
    return {
        **_picked(sheet, ("offered_frames", "forwarded_frames")),
        "drops": [
            {"place": stated(each.place, words), "reason": stated(each.reason, words), "frames": each.frames}
            for each in sheet.drops
        ],
        **_picked(sheet, ("unexplained_frames", "load_trials", "closed_trials")),
    }


def _path(each: UsedPath, words: Words) -> Document:
    return {
        "port": each.port,
        "path": each.path,
        "reasons": stated_all(each.reasons, words),
        "count": each.count,
    }
