"""The part of `iolab show RUN --json` about limits, and measures that send frames (docs/reference/show-json.md)."""

import math
from collections.abc import Iterable, Mapping

from iolab.analysis.forwarding_types import (
    BalanceSheet,
    CellTruth,
    Curve,
    DirectionRatio,
    Forwarding,
    SharedCpu,
    StreamLimits,
    UsedPath,
    Verdict,
)
from iolab.analysis.types import Analysis, CellKey, Estimate, cell_key
from iolab.report.locale import Words
from iolab.report.stated import stated, stated_all
from iolab.results.dimensions import Quantity
from iolab.results.verdict import Verdict as TrialVerdict

Document = Mapping[str, object]
"""Plain JSON data, on its way out."""
RATES = (
    "forwarded_fps", "forwarded_strict_fps", "lower_fps", "upper_fps", "ci_low_fps", "ci_high_fps", "rate_fps",
    "forwarded_bps_l1", "forwarded_bps_l2", "loss_ratio",
)  # fmt: skip
"""Metrics of a whole cell whose means stand here together."""


def measure(found: Forwarding, analysis: Analysis, words: Words) -> Document:
    """Render everything that is known of one measure, cell by cell."""
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
        "ratios": [_ratio(each) for each in found.ratios],
        "paths": [_path(each, words) for each in found.paths],
        "shared": [_shared(each, words) for each in found.shared],
        "samples_read": found.samples_read,
        "samples_total": found.samples_total,
    }


def finite(value: float | None) -> float | None:
    """JSON has no infinity and no NaN."""
    return value if value is not None and math.isfinite(value) else None


def quantity(of: Quantity) -> Document:
    """Render what a figure is of: a name, and the dimensions that apply."""
    return {"metric": of.name, "dimensions": of.dimensions.known()}


def _cell(
    metrics: Mapping[str, Estimate], truth: CellTruth | None, curves: Iterable[Curve], words: Words
) -> Document:
    return {
        "cell": dict(next(iter(metrics.values())).cell),
        "rates": {metric: finite(metrics[metric].mean) for metric in RATES if metric in metrics},
        "limited_by": list(
            dict.fromkeys(
                code for metric in RATES if metric in metrics for code in metrics[metric].limited_by
            )
        ),
        "loads": _loads(curves),
        "verdict": None if truth is None else _verdict(truth.verdict, words),
        "balance": None if truth is None else _balance(truth.balance, words),
    }


def _loads(curves: Iterable[Curve]) -> list[Document]:
    """Everything that was measured at shares of the rate, by rising load."""
    found: dict[float, list[Document]] = {}
    for curve in curves:
        for point in curve.points:
            found.setdefault(point.load_ratio, []).append(
                {**quantity(curve.metric), "unit": curve.unit, "median": finite(point.median)}
            )
    return [{"load_ratio": load_ratio, "metrics": found[load_ratio]} for load_ratio in sorted(found)]


def _ratio(each: DirectionRatio) -> Document:
    return {
        "cell": dict(each.cell),
        "n": each.n,
        "mean": finite(each.mean),
        "min": finite(each.min),
        "max": finite(each.max),
        "bound": each.bound,
    }


def streams(found: StreamLimits, words: Words) -> Document:
    """Render what limited the streams of a measure, cell by cell."""
    cells = [{"cell": dict(each.cell), "verdict": _verdict(each.verdict, words)} for each in found.cells]
    return {"measure": found.measure, "cells": cells}


def trial_verdict(verdict: TrialVerdict | Verdict, words: Words) -> Document:
    """Render what limited a trial, and what shows it."""
    return {
        "limit": str(verdict.limit),
        "place": None if verdict.place is None else stated(verdict.place, words),
        "seen": stated_all(verdict.seen, words),
        "text": words.said.say_all(verdict.seen),
        "doubt": None if verdict.doubt is None else stated(verdict.doubt, words),
    }


def _verdict(verdict: Verdict, words: Words) -> Document:
    return {
        **trial_verdict(verdict, words),
        "doubtful": verdict.doubtful,
        "count": verdict.count,
        "total": verdict.total,
        "cpu": verdict.cpu,
        "cpu_busy_ratio": verdict.cpu_busy_ratio,
        "idle_ratio": verdict.idle_ratio,
    }


def _balance(sheet: BalanceSheet, words: Words) -> Document:
    return {
        "offered_frames": sheet.offered_frames,
        "forwarded_frames": sheet.forwarded_frames,
        "drops": [
            {"place": stated(each.place, words), "reason": stated(each.reason, words), "frames": each.frames}
            for each in sheet.drops
        ],
        "unexplained_frames": sheet.unexplained_frames,
        "load_trials": sheet.load_trials,
        "closed_trials": sheet.closed_trials,
    }


def _path(each: UsedPath, words: Words) -> Document:
    return {
        "port": each.port,
        "path": each.path,
        "reasons": stated_all(each.reasons, words),
        "count": each.count,
    }


def _shared(each: SharedCpu, words: Words) -> Document:
    return {**stated(each.seen, words), "count": each.count}
