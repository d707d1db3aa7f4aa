"""CSV for spreadsheets (RFC 4180): a row per estimate, trial, ratio, verdict, ...; stored units, full precision."""

import csv
import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from iolab.analysis.forwarding_types import Verdict
from iolab.analysis.level_types import LevelsFigure, LevelsRatio
from iolab.analysis.types import Analysis, Estimate, Interval
from iolab.report.locale import EN, Words
from iolab.report.selection import is_baseline
from iolab.report.sentences import counted
from iolab.results import metric
from iolab.results.metric import Dimensions, Quantity, method_name
from iolab.store.records import StoredRun, TrialRecord

Rows = Literal["estimates", "trials", "levels", "level-ratios", "ratios", "limits", "drops", "in-effect"]

_ESTIMATE_HEAD = (
    "metric", *metric.names(), "unit", "n", "mean", "min", "max", "median", "ci_low", "ci_high", "ci_method",
    "is_baseline", "ratio",
    "ratio_ci_low", "ratio_ci_high", "p_value", "outliers", "mean_without_outliers", "ratio_without_outliers",
    "bounds", "limited_by", "ratio_bound", "method",
)  # fmt: skip
_LEVELS_HEAD = ("metric", "over", "levels", "statistic")
_TRIAL_HEAD = ("block", "began", "status", "reason", "warnings", "limited_by")
_LIMIT_HEAD = (
    "limit", "place", "text", "doubt", "busiest_cpu", "busiest_cpu_ratio", "idle_ratio", "limited_load_trials",
    "judged_load_trials", "offered_frames", "forwarded_frames", "dropped_frames", "unexplained_frames", "load_trials",
    "closed_load_trials",
)  # fmt: skip
_FORMULA = re.compile(r"\s*[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?")


def table(run: StoredRun, analysis: Analysis, rows: Rows = "estimates", words: Words = EN) -> str:
    """Return one kind of rows of a run, without omissions. Column titles and codes are the same in every language."""
    factors = [factor.name for factor in run.plan.factors]
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    match rows:
        case "estimates":
            writer.writerows(_estimate_rows(run, analysis, factors))
        case "trials":
            writer.writerows(_trial_rows(run, factors, words))
        case "levels":
            writer.writerows(_level_rows(analysis, factors))
        case "level-ratios":
            writer.writerows(_level_ratio_rows(analysis, factors))
        case "ratios":
            writer.writerows(_ratio_rows(analysis, factors))
        case "limits":
            writer.writerows(_limit_rows(analysis, factors, words))
        case "drops":
            writer.writerows(_drop_rows(analysis, factors, words))
        case "in-effect":
            writer.writerows(_in_effect_rows(run, factors))
    return out.getvalue()


def _ratio_rows(analysis: Analysis, factors: Sequence[str]) -> Iterable[Sequence[str]]:
    """Yield the ratios of figures with traffic both ways to figures with traffic one way."""
    yield ("measure", *map(as_field, factors), "n", "mean_ratio", "min_ratio", "max_ratio", "bound")
    for found in analysis.forwarding:
        for each in found.ratios:
            ratios = map(_number, (each.mean, each.min, each.max))
            yield (
                as_field(found.measure),
                *_levels(each.cell, factors),
                str(each.n),
                *ratios,
                each.bound or "",
            )


def _level_rows(analysis: Analysis, factors: Sequence[str]) -> Iterable[Sequence[str]]:
    """Yield the figures over the levels of a factor."""
    yield ("measure", *map(as_field, factors), *_LEVELS_HEAD, "unit", "n", "mean", "min", "max", "ci_low", "ci_high",
           "left_out_blocks", "limited_by", "method")  # fmt: skip
    for each in analysis.levels_figures:
        figures = map(_number, (each.mean, each.min, each.max))
        yield (
            *_over(each, factors),
            each.unit,
            str(len(each.values)),
            *figures,
            *_ends(each.ci),
            str(each.left_out),
            " ".join(each.limited_by),
            method_name(each.method),
        )


def _level_ratio_rows(analysis: Analysis, factors: Sequence[str]) -> Iterable[Sequence[str]]:
    """Yield the ratios of these figures between two levels of a different factor."""
    yield ("measure", *map(as_field, factors), *_LEVELS_HEAD, "factor", "above", "below", "n", "ratio", "ratio_ci_low",
           "ratio_ci_high", "bound")  # fmt: skip
    for each in analysis.levels_ratios:
        between = map(as_field, (each.between.factor, each.between.above, each.between.below))
        yield (
            *_over(each, factors),
            *between,
            str(each.n),
            _number(each.ratio),
            *_ends(each.ci),
            each.bound or "",
        )


def _over(each: LevelsFigure | LevelsRatio, factors: Sequence[str]) -> tuple[str, ...]:
    levels = as_field(" ".join(each.levels))
    return (
        as_field(each.measure), *_levels(each.cell, factors), as_field(str(each.metric)), as_field(each.over), levels,
        each.statistic,
    )  # fmt: skip


def _limit_rows(analysis: Analysis, factors: Sequence[str], words: Words) -> Iterable[Sequence[str]]:
    """Yield the limits of all cells, with the frame accounting of measures that send frames.

    For measures that send frames, only cells whose samples were read are included.
    """
    yield ("measure", *map(as_field, factors), *_LIMIT_HEAD)
    for streams in analysis.streams:
        for cell in streams.cells:
            verdict = cell.verdict
            counts = ("", "", "", str(verdict.count), str(verdict.total), *[""] * 6)
            yield (as_field(streams.measure), *_levels(cell.cell, factors), *_said(verdict, words), *counts)
    for found in analysis.forwarding:
        for each in found.cells:
            verdict, sheet = each.verdict, each.balance
            busy = ("" if verdict.cpu is None else str(verdict.cpu), _number(verdict.cpu_busy_ratio))
            numbers = (
                verdict.count, verdict.total, sheet.offered_frames, sheet.forwarded_frames,
                sum(drop.frames for drop in sheet.drops), sheet.unexplained_frames, sheet.load_trials,
                sheet.closed_trials,
            )  # fmt: skip
            yield (
                as_field(found.measure), *_levels(each.cell, factors), *_said(verdict, words), *busy,
                _number(verdict.idle_ratio), *map(str, numbers),
            )  # fmt: skip


def _said(verdict: Verdict, words: Words) -> tuple[str, ...]:
    """Return the limit, its place, its evidence and the reason for doubt."""
    doubt = "" if verdict.doubt is None else words.said.say(verdict.doubt)
    return (
        verdict.limit,
        *map(as_field, (words.said.say_any(verdict.place), words.said.say_all(verdict.seen), doubt)),
    )


def _drop_rows(analysis: Analysis, factors: Sequence[str], words: Words) -> Iterable[Sequence[str]]:
    """Yield every named drop of every cell."""
    yield ("measure", *map(as_field, factors), "place", "reason", "frames")
    for found in analysis.forwarding:
        for each in found.cells:
            for drop in each.balance.drops:
                where = (
                    as_field(words.said.say(drop.place)),
                    as_field(words.said.say(drop.reason)),
                    str(drop.frames),
                )
                yield (as_field(found.measure), *_levels(each.cell, factors), *where)


def _in_effect_rows(run: StoredRun, factors: Sequence[str]) -> Iterable[Sequence[str]]:
    """Yield the settings that were read back, trial by trial."""
    yield ("measure", *map(as_field, factors), "block", "place", "setting", "value")
    for trial in counted(run.trials):
        own = (as_field(trial.measure), *_levels(trial.cell, factors), str(trial.block))
        for place, settings in trial.result.in_effect.items():
            for setting, value in settings.items():
                yield (*own, as_field(place), setting, as_field(value))


def _estimate_rows(run: StoredRun, analysis: Analysis, factors: Sequence[str]) -> Iterable[Sequence[str]]:
    yield ("measure", *map(as_field, factors), *_ESTIMATE_HEAD)
    for estimate in analysis.estimates:
        reference = is_baseline(estimate.cell, run.plan.baseline)
        yield (as_field(estimate.measure), *_levels(estimate.cell, factors), *_estimate(estimate, reference))


def _estimate(estimate: Estimate, reference: bool) -> tuple[str, ...]:
    return (
        as_field(estimate.metric.name),
        *_dimensions(estimate.metric.dimensions),
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
        str(estimate.bounds),
        " ".join(estimate.limited_by),
        estimate.ratio_bound or "",
        method_name(estimate.method),
    )


def _trial_rows(run: StoredRun, factors: Sequence[str], words: Words) -> Iterable[Sequence[str]]:
    trials = counted(run.trials)
    metrics = _metric_columns(trials)
    heads = [f"{of} [{unit}]" if unit else str(of) for of, unit in metrics.items()]
    yield ("measure", *map(as_field, factors), *_TRIAL_HEAD, *map(as_field, heads))
    for trial in trials:
        result = trial.result
        codes = " ".join(warning.code for warning in result.warnings)
        known = {metric.quantity: metric.value for metric in result.metrics}
        values = (_number(known.get(of)) for of in metrics)
        limited = dict.fromkeys(result.metrics.limits.values())
        levels = _levels(trial.cell, factors)
        state = (
            str(trial.block),
            trial.wall,
            result.status.value,
            as_field(words.said.say_any(result.reason)),
            as_field(codes),
            " ".join(limited),
        )
        yield (as_field(trial.measure), *levels, *state, *values)


def _metric_columns(trials: Iterable[TrialRecord]) -> dict[Quantity, str]:
    """Return all metrics with their units, in order of first appearance."""
    columns: dict[Quantity, str] = {}
    for trial in trials:
        heads = trial.result.metrics.heads
        columns |= {
            of: unit for of, unit in zip(heads.quantities, heads.units, strict=True) if of not in columns
        }
    return columns


def _dimensions(of: Dimensions) -> list[str]:
    known = of.known()
    return [as_field(str(known.get(name, ""))) for name in metric.names()]


def _levels(cell: Mapping[str, str], factors: Sequence[str]) -> list[str]:
    return [as_field(cell.get(factor, "")) for factor in factors]


def _ends(interval: Interval | None) -> tuple[str, str]:
    return ("", "") if interval is None else (_number(interval.low), _number(interval.high))


def _number(value: float | None) -> str:
    return "" if value is None or not math.isfinite(value) else repr(float(value)).removesuffix(".0")


def is_number(text: str) -> bool:
    """Whether a field is a number."""
    return _NUMBER.fullmatch(text) is not None


def as_field(text: str) -> str:
    """Return a text that a spreadsheet does not run as a formula: an apostrophe is prepended (OWASP, CSV injection)."""
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text
