"""Tables as text: every figure written, none laid out. Terminal, Markdown and HTML lay out the same rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iolab.analysis.types import Analysis, Effect, Estimate
from iolab.report import numbers, sentences
from iolab.report.names import Names
from iolab.report.selection import Shown, by_metric, cell_key, choose, is_baseline
from iolab.report.words import Words
from iolab.store.records import StoredRun

MARK = "†"
"""Stands beside a figure that has marked trials."""


MOST_METRICS = 24
"""Columns of a table of metrics, beyond which those per flow are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow:
    """One cell."""

    cell: Mapping[str, str]
    """Factor to label."""
    levels: tuple[str, ...]
    """Its labels, one per factor of the table; empty where a factor does not exist."""
    mean: str
    """Without unit, as are the next ones."""
    min: str
    max: str
    ci: str
    n: str
    change: str
    """Against the baseline, with its interval."""
    marked: int
    """Trials marked as outliers."""
    reference: bool
    """It is the baseline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultTable:
    """One metric of one measure over all its cells."""

    shown: Shown
    """What it was made from."""
    caption: str
    """Measure, metric and baseline."""
    unit: str
    """Of the figures; empty for plain numbers."""
    factors: tuple[str, ...]
    """Names of the columns of levels."""
    rows: tuple[ResultRow, ...]
    """In the plan's order."""
    with_ci: bool
    """Some row has an interval."""
    with_change: bool
    """Some row has a baseline."""
    notes: tuple[str, ...]
    """Marked trials, and what was left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsTable:
    """The means of all metrics of one measure."""

    caption: str
    """Names the measure."""
    heads: tuple[str, ...]
    """Factors, then metrics with units."""
    rows: tuple[tuple[str, ...], ...]
    """Per cell."""
    labels: int
    """How many of the columns are factors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Any other table."""

    caption: str
    """What it is."""
    heads: tuple[str, ...]
    """With units."""
    rows: tuple[tuple[str, ...], ...]
    """As wide as the heads."""
    labels: int
    """How many of the columns are words; the others are figures."""
    prose: bool = False
    """Its last column of words holds sentences, which may be broken into lines."""
    folded: bool = False
    """Details, which a page need not show at once."""
    notes: tuple[str, ...] = ()
    """What must be read with it."""


@dataclass(frozen=True, slots=True)
class EffectRow:
    """One effect, written."""

    measure: str
    level: str
    reference: str
    change: str
    p_value: str


@dataclass(frozen=True, slots=True)
class EffectTable:
    """The effects that fit."""

    rows: tuple[EffectRow, ...]
    """Best supported first."""
    total: int
    """How many there are."""


def columns(estimates: Sequence[Estimate], run: StoredRun) -> tuple[str, ...]:
    """The factors that a table needs, in the plan's order, then any that the plan does not know."""
    used = {factor for estimate in estimates for factor in estimate.cell}
    planned = [factor.name for factor in run.plan.factors if factor.name in used]
    return (*planned, *sorted(used.difference(planned)))


def results(shown: Shown, run: StoredRun, analysis: Analysis, names: Names) -> ResultTable:
    """Write the table of one metric."""
    words = names.words
    estimates = shown.estimates
    by = numbers.scale(shown.metric, estimates[0].unit, [estimate.mean for estimate in estimates])
    factors = columns(estimates, run)
    notes = sentences.outliers(shown, analysis, by, MARK, names)
    if shown.total > len(estimates):
        notes.append(words.table.rows_left_out.format(shown=len(estimates), total=shown.total))
    return ResultTable(
        shown=shown,
        caption=_caption(shown, run, names),
        unit=by.unit,
        factors=tuple(names.factor(factor) for factor in factors),
        rows=tuple(_row(estimate, factors, by, run, words) for estimate in estimates),
        with_ci=any(estimate.ci is not None for estimate in estimates),
        with_change=any(estimate.ratio is not None for estimate in estimates),
        notes=tuple(notes),
    )


def _caption(shown: Shown, run: StoredRun, names: Names) -> str:
    words = names.words.table
    places = {"measure": names.measure(shown.measure), "metric": names.metric(shown.metric)}
    used = {factor for estimate in shown.estimates for factor in estimate.cell}
    baseline = {factor: label for factor, label in run.plan.baseline.items() if factor in used}
    if not baseline or all(estimate.ratio is None for estimate in shown.estimates):
        return words.caption.format(**places)
    return words.caption_baseline.format(baseline=names.cell(baseline), **places)


def _row(
    estimate: Estimate, factors: Sequence[str], by: numbers.Scale, run: StoredRun, words: Words
) -> ResultRow:
    decimals = numbers.estimate_decimals(estimate, by)
    reference = is_baseline(estimate.cell, run.plan.baseline)
    written = numbers.change(estimate.ratio, estimate.ratio_ci, words)
    return ResultRow(
        cell=estimate.cell,
        levels=tuple(estimate.cell.get(factor, "") for factor in factors),
        mean=numbers.figure(estimate.mean, by, decimals, words),
        min=numbers.figure(estimate.min, by, decimals, words),
        max=numbers.figure(estimate.max, by, decimals, words),
        ci=numbers.interval(estimate.ci, by, decimals, words),
        n=str(estimate.n),
        change=words.table.baseline if reference else written,
        marked=len(estimate.outliers),
        reference=reference,
    )


def all_metrics(table: ResultTable, analysis: Analysis, names: Names) -> MetricsTable | None:
    """Write the means of all metrics for the cells of a table; None where there is only the one."""
    words = names.words
    packets = any(each.measure == table.shown.measure for each in analysis.forwarding)
    cells = [cell_key(row.cell) for row in table.rows]
    wanted = set(cells)
    found: dict[str, dict[frozenset[tuple[str, str]], Estimate]] = {}
    for (measure, metric), estimates in by_metric(analysis).items():
        if measure == table.shown.measure and not ("[" in metric and (packets or len(found) >= MOST_METRICS)):
            found[metric] = {key: each for each in estimates if (key := cell_key(each.cell)) in wanted}
    if len(found) < 2:
        return None
    written = [_metric_column(metric, found[metric], cells, names) for metric in found]
    heads = [head for head, _ in written]
    rows = [(*row.levels, *(column[index] for _, column in written)) for index, row in enumerate(table.rows)]
    return MetricsTable(
        caption=words.table.all_metrics.format(measure=names.measure(table.shown.measure)),
        heads=(*table.factors, *heads),
        rows=tuple(rows),
        labels=len(table.factors),
    )


def _metric_column(
    metric: str,
    estimates: Mapping[frozenset[tuple[str, str]], Estimate],
    cells: Sequence[frozenset[tuple[str, str]]],
    names: Names,
) -> tuple[str, list[str]]:
    words = names.words
    unit = next((estimate.unit for estimate in estimates.values()), "")
    by = numbers.scale(metric, unit, [estimate.mean for estimate in estimates.values()])
    texts = []
    for cell in cells:
        estimate = estimates.get(cell)
        if estimate is None:
            texts.append(words.none)
        else:
            texts.append(numbers.figure(estimate.mean, by, numbers.estimate_decimals(estimate, by), words))
    return head(names.metric(metric), by.unit, words), numbers.align(texts)


def head(name: str, unit: str, words: Words) -> str:
    """A column's head, with the unit where there is one."""
    return words.table.unit.format(name=name, unit=unit) if unit else name


def effects(analysis: Analysis, names: Names, most: int) -> EffectTable:
    """Write the effects, the best supported first."""
    order = sorted(analysis.effects, key=_support)
    return EffectTable(tuple(_effect(effect, names) for effect in order[:most]), len(order))


def _support(effect: Effect) -> tuple[float, float]:
    size = max(effect.ratio, 1 / effect.ratio) if effect.ratio > 0 else 0.0
    return (1.0 if effect.p_value is None else effect.p_value, -size)


def _effect(effect: Effect, names: Names) -> EffectRow:
    words = names.words
    levels = names.cell(effect.levels)
    return EffectRow(
        measure=names.measure(effect.measure),
        level=words.table.interaction.format(levels=levels) if len(effect.levels) > 1 else levels,
        reference=names.cell(effect.reference),
        change=numbers.change(effect.ratio, effect.ci, words),
        p_value=numbers.p_value(effect.p_value, words),
    )


def chosen(analysis: Analysis, measure: str, metric: str, most: int) -> Shown | None:
    """The cells to show of any one metric."""
    estimates = by_metric(analysis).get((measure, metric))
    return choose(measure, metric, estimates, most) if estimates else None
