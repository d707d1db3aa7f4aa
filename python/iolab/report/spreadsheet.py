"""CSV for spreadsheets (RFC 4180): one row per estimate, or one row per trial; stored units, full precision."""

import csv
import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from iolab.analysis.types import Analysis, Estimate, Interval
from iolab.report.selection import is_baseline
from iolab.report.sentences import counted
from iolab.store.records import StoredRun, TrialRecord

Rows = Literal["estimates", "trials"]

_ESTIMATE_HEAD = (
    "metric", "unit", "n", "mean", "min", "max", "median", "ci_low", "ci_high", "ci_method", "is_baseline", "ratio",
    "ratio_ci_low", "ratio_ci_high", "p_value", "outliers", "mean_without_outliers", "ratio_without_outliers",
)  # fmt: skip
_TRIAL_HEAD = ("block", "began", "status", "reason", "warnings")
_FORMULA = re.compile(r"\s*[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?")


def table(run: StoredRun, analysis: Analysis, rows: Rows = "estimates") -> str:
    """Render all estimates or all trials of a run; nothing is left out."""
    factors = [factor.name for factor in run.plan.factors]
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerows(
        _trial_rows(run, factors) if rows == "trials" else _estimate_rows(run, analysis, factors)
    )
    return out.getvalue()


def _estimate_rows(run: StoredRun, analysis: Analysis, factors: Sequence[str]) -> Iterable[Sequence[str]]:
    yield ("measure", *map(_safe, factors), *_ESTIMATE_HEAD)
    for estimate in analysis.estimates:
        reference = is_baseline(estimate.cell, run.plan.baseline)
        yield (_safe(estimate.measure), *_levels(estimate.cell, factors), *_estimate(estimate, reference))


def _estimate(estimate: Estimate, reference: bool) -> tuple[str, ...]:
    return (
        _safe(estimate.metric),
        estimate.unit,
        str(estimate.n),
        *map(_number, (estimate.mean, estimate.min, estimate.max, estimate.median)),
        *_ends(estimate.ci),
        estimate.ci.method if estimate.ci else "",
        "yes" if reference else "no",
        _number(estimate.ratio),
        *_ends(estimate.ratio_ci),
        _number(estimate.p_value),
        str(len(estimate.outliers)),
        _number(estimate.mean_without),
        _number(estimate.ratio_without),
    )


def _trial_rows(run: StoredRun, factors: Sequence[str]) -> Iterable[Sequence[str]]:
    trials = counted(run.trials)
    metrics = _metric_columns(trials)
    heads = [f"{name} [{unit}]" if unit else name for name, unit in metrics.items()]
    yield ("measure", *map(_safe, factors), *_TRIAL_HEAD, *map(_safe, heads))
    for trial in trials:
        result = trial.result
        codes = " ".join(warning.code for warning in result.warnings)
        values = (_number(result.metrics[name].value) if name in result.metrics else "" for name in metrics)
        levels = _levels(trial.cell, factors)
        state = (str(trial.block), trial.wall, result.status.value, _safe(result.reason or ""), _safe(codes))
        yield (_safe(trial.measure), *levels, *state, *values)


def _metric_columns(trials: Iterable[TrialRecord]) -> dict[str, str]:
    """Every metric that occurs, with its unit, in order of first appearance."""
    columns: dict[str, str] = {}
    for trial in trials:
        for name, metric in trial.result.metrics.items():
            columns.setdefault(name, metric.unit)
    return columns


def _levels(cell: Mapping[str, str], factors: Sequence[str]) -> list[str]:
    return [_safe(cell.get(factor, "")) for factor in factors]


def _ends(interval: Interval | None) -> tuple[str, str]:
    return ("", "") if interval is None else (_number(interval.low), _number(interval.high))


def _number(value: float | None) -> str:
    return "" if value is None or not math.isfinite(value) else repr(float(value)).removesuffix(".0")


def _safe(text: str) -> str:
    """Keep a spreadsheet from running a text as a formula (OWASP, CSV injection): such a text gets an apostrophe."""
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text
