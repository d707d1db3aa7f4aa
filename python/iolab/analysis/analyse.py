"""Analyse the trials of a run: estimates, effects, findings, outliers and limits."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from itertools import chain

import numpy as np

from iolab.analysis.bounds import left_out, measured
from iolab.analysis.cell_means import Pairs, cell_means, comparisons
from iolab.analysis.effects import (
    Model,
    dropped_note,
    effects_of,
    main_differences,
    model_of,
)
from iolab.analysis.estimates import estimate
from iolab.analysis.findings import detectable_changes, findings_of
from iolab.analysis.forwarding import Reader, forwarding_of
from iolab.analysis.forwarding_types import CellLimit, StreamLimits, Verdict
from iolab.analysis.neighbours import Ints, Resemblance, order_of, resemblance, resemblance_note
from iolab.analysis.onset import onsets
from iolab.analysis.outliers import describe, rare_note, stand
from iolab.analysis.over_levels import over_levels
from iolab.analysis.ratios import ABSENT, baseline_cells, by_other_method, unlike
from iolab.analysis.table import Column, Table, tabulate
from iolab.analysis.types import Analysis, CellEstimates, Estimates, Outlier
from iolab.messages.warnings import TrialWarning
from iolab.plan.types import Plan
from iolab.registry.registry import measure_kinds
from iolab.results.metric import Quantity
from iolab.results.packets import PacketTrial
from iolab.results.trial import Status
from iolab.results.verdict import Verdict as TrialVerdict
from iolab.store.records import TrialRecord


def _no_samples(_: str) -> PacketTrial | None:
    return None


def analyse(trials: Sequence[TrialRecord], plan: Plan, samples: Reader = _no_samples) -> Analysis:
    """Analyse the valid trials: the last record of each key, if its status is ok and the plan has a step with this key.

    `samples` returns the raw samples of a trial by its key; without `samples`, the analysis has no verdicts and no
    balance sheets.
    """
    tables, notes = tabulate(trials, plan)
    by_metric: dict[tuple[str, Quantity], CellEstimates] = {}
    outliers: list[Outlier] = []
    orders = {table.measure: cache(partial(order_of, table, plan)) for table in tables}
    for table in tables:
        own, marked = _estimate_all(table, plan, orders[table.measure])
        by_metric |= {(table.measure, metric): found for metric, found in own.items()}
        outliers += marked
    estimates = Estimates(by_metric)
    kinds = kinds_of(trials)
    leading = {
        table.measure: leading_metric(table.columns, kinds.get(table.measure, ""))
        for table in tables
        if table.columns
    }
    models, more = _models(tables, plan, leading)
    effects = [effect for model in models for effect in effects_of(model, main_differences(model))]
    compared = {model.table.measure: _compared(model, plan) for model in models}
    detectable = detectable_changes(compared)
    for table in tables:
        if table.measure in leading:
            more += _doubts(table, table.columns[leading[table.measure]], orders[table.measure]())
    forwarding, unread = forwarding_of(trials, plan, estimates, samples)
    summed = [
        over_levels(table, leading[table.measure], plan.summaries)
        for table in tables
        if table.measure in leading
    ]
    return Analysis(
        estimates=estimates,
        leading=leading,
        effects=tuple(effects),
        findings=findings_of(compared, detectable),
        outliers=tuple(outliers),
        detectable=detectable,
        spread=_spreads(tables, leading),
        notes=(*notes, *more, *unread),
        forwarding=forwarding,
        streams=stream_limits(trials, plan),
        onsets=tuple(onset for table in tables for onset in onsets(table)),
        levels_figures=tuple(figure for figures, _, _ in summed for figure in figures),
        levels_ratios=tuple(ratio for _, ratios, _ in summed for ratio in ratios),
        levels_left_out=tuple(one for _, _, left_out in summed for one in left_out),
    )


def _doubts(table: Table, column: Column, order: Ints) -> list[TrialWarning]:
    """Return warnings about autocorrelated trials and rare outliers, which confidence intervals of means do not
    show."""
    notes = (
        resemblance_note(table, column, order),
        rare_note(table, column, stand(column.values, column.unit)),
    )
    return [note for note in notes if note is not None]


def _comparable(table: Table, metric: Quantity, plan: Plan) -> Column:
    """Return the column that effects and findings use: without lower bounds, incomparable cells and older method
    versions."""
    column = table.columns[metric]
    apart = {*table.apart, *unlike(table, baseline_cells(table, plan.baseline)), *column.older}
    return measured(column, apart)


def _compared(model: Model, plan: Plan) -> list[Pairs]:
    column = _comparable(model.table, model.metric, plan)
    return comparisons(cell_means(model, np.log(column.values), model.table.plots[column.rows]))


def _models(
    tables: Sequence[Table], plan: Plan, leading: Mapping[str, Quantity]
) -> tuple[list[Model], list[TrialWarning]]:
    """Return a model for each measure that can be fitted, and a warning for each measure that cannot."""
    models, notes = [], []
    for table in tables:
        if table.measure not in leading:
            continue
        column = table.columns[leading[table.measure]]
        notes += left_out(table, column)
        known = _comparable(table, leading[table.measure], plan)
        found = model_of(table, known, plan) if len(known.rows) else None
        if isinstance(found, TrialWarning):
            notes.append(found)
        elif found is not None:
            models.append(found)
            note = dropped_note(found)
            notes += [note] if note is not None else []
    return models, notes


def _spreads(tables: Sequence[Table], leading: Mapping[str, Quantity]) -> dict[str, float]:
    """Return the median over cells of the coefficient of variation between blocks, per measure."""
    spreads = {}
    for table in tables:
        if table.measure in leading:
            spread = coefficient_of_variation(measured(table.columns[leading[table.measure]]))
            if spread is not None:
                spreads[table.measure] = spread
    return spreads


def coefficient_of_variation(column: Column) -> float | None:
    """Return the median over cells of standard deviation / mean [ratio]; None if no cell has two trials and a non-zero
    mean."""
    count = (~np.isnan(column.values)).sum(axis=1)
    values = column.values[count >= 2]
    mean = np.nanmean(values, axis=1)
    deviation = np.nanstd(values, axis=1, ddof=1)
    usable = mean != 0
    return float(np.median(deviation[usable] / np.abs(mean[usable]))) if usable.any() else None


def kinds_of(trials: Iterable[TrialRecord]) -> dict[str, str]:
    """Return the kind of each measure; if a factor varies the kind, the kind of the last trial."""
    return {trial.measure: trial.kind for trial in trials}


def leading_metric(metrics: Iterable[Quantity], kind: str) -> Quantity:
    """Return the metric that summarises a measure: the one that the measure's kind declares, else the first recorded
    metric.

    The measure's kind may come from a package that is not installed; then the leading metrics of all known kinds are
    tried.
    """
    known, rows = tuple(metrics), measure_kinds()
    wanted = [rows[kind]] if kind in rows else list(rows.values())
    whole = (one for row in wanted for one in map(Quantity, row.leading) if one in known)
    of_parts = (
        one
        for row in wanted
        for part in row.leading_parts
        for one in known
        if one.name in row.leading and one.dimensions.part == part
    )
    return next(chain(whole, of_parts), known[0])


def _estimate_all(
    table: Table, plan: Plan, order: Callable[[], Ints]
) -> tuple[dict[Quantity, CellEstimates], list[Outlier]]:
    baseline = baseline_cells(table, plan.baseline)
    other_kind = unlike(table, baseline)
    baseline[list(other_kind)] = ABSENT
    apart = {**other_kind, **table.apart}
    standings = {name: stand(column.values, column.unit) for name, column in table.columns.items()}
    estimates: dict[Quantity, CellEstimates] = {}
    outliers: list[Outlier] = []
    for name, column in table.columns.items():
        alike = partial(_alike, order, column)
        own, why = baseline, apart
        if other_method := by_other_method(column, baseline):
            own, why = baseline.copy(), {**other_method, **apart}
            own[list(other_method)] = ABSENT
        estimates[name] = estimate(table, column, own, standings[name], alike, why)
        outliers += describe(table, column, standings[name], standings)
    return estimates, outliers


def _alike(order: Callable[[], Ints], column: Column) -> Resemblance:
    return resemblance(order(), column)


def stream_limits(trials: Sequence[TrialRecord], plan: Plan) -> tuple[StreamLimits, ...]:
    """Return the most common limit of every cell whose trials have a verdict, by measure."""
    last = {trial.key: trial for trial in trials if trial.result.status is Status.OK}
    found: dict[str, dict[frozenset[tuple[str, str]], list[TrialRecord]]] = {}
    for trial in last.values():
        if trial.result.verdict is not None:
            cells = found.setdefault(trial.measure, {})
            cells.setdefault(frozenset(trial.cell.items()), []).append(trial)
    return tuple(
        StreamLimits(
            measure,
            tuple(
                CellLimit(cell, commonest([one.result.verdict for one in own if one.result.verdict]))
                for cell in plan.in_order([own[0].cell for own in cells.values()])
                for own in (cells[frozenset(cell.items())],)
            ),
        )
        for measure, cells in found.items()
    )


def commonest(verdicts: Sequence[TrialVerdict]) -> Verdict:
    """Return the most common limit among the trials of a cell, with the evidence from one of them, preferably from a
    trial without a caveat."""
    (limit, place), count = Counter((one.limit, one.place) for one in verdicts).most_common(1)[0]
    alike = [one for one in verdicts if (one.limit, one.place) == (limit, place)]
    stands = min(alike, key=lambda one: one.doubt is not None)
    return Verdict(
        limit=limit,
        place=place,
        seen=stands.seen,
        doubt=stands.doubt,
        count=count,
        total=len(verdicts),
        cpu=None,
        cpu_busy_ratio=0.0,
        idle_ratio=0.0,
    )
