"""Results and charts on the page, one part per measure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iolab.analysis.forwarding import line_limits
from iolab.analysis.forwarding_types import Forwarding, PacketKind
from iolab.analysis.path_product import path_product
from iolab.analysis.types import Analysis, Estimate
from iolab.experiment.experiment import Experiment
from iolab.report import charts, curves, lines, numbers, packets, panels, tables
from iolab.report.levels import level_grids
from iolab.report.lines import Sweep, sweep_of
from iolab.report.locale import Words
from iolab.report.names import Names
from iolab.report.phases import phase_grids, profile_grids, watch_grids
from iolab.report.selection import Shown, choose, leading, side_metrics
from iolab.results.metric import Quantity
from iolab.store.records import StoredRun, TrialRecord

MOST_ROWS = 400
"""Maximum number of cells in all result tables together."""
MOST_CHARTED = 96
"""Maximum number of cells in the bar charts of one metric, which have a row per cell."""
MOST_SWEPT = 480
"""Maximum number of cells in the line charts of one metric."""
MOST_OTHERS = 12
"""Maximum number of additional metrics that get charts."""
WINDOW = ".window"
"""Suffix of the path of a factor whose levels are windows."""
SIDE_SHARE = 4
"""Number by which the cell limit is divided for charts of additional metrics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One measure on the page."""

    measure: str
    """Display name of the measure."""
    key: str
    """ID of the measure's charts on the page."""
    head: str
    """Title of the column of means."""
    table: tables.ResultTable
    """Table of the leading metric."""
    rows: tuple[Mapping[str, object], ...]
    """Rows of the table, with aligned decimal points."""
    metrics: tables.MetricsTable | None
    """Means of all metrics."""
    grids: tuple[tables.Grid, ...]
    """Additional tables: of frames, or of flows."""
    charts: tuple[panels.Chart, ...]
    """Charts that are shown first."""
    others: tuple[panels.Chart, ...]
    """Charts of the other metrics."""
    curves: tuple[tuple[str, tuple[panels.Chart, ...]], ...]
    """Load curves per cell."""
    curves_folded: bool
    """Whether load curves are folded, because the measure also has a search."""
    curves_left_out: str
    """Note with the number of cells without drawn curves; empty if all are drawn."""


@dataclass(frozen=True, slots=True)
class _Drawn:
    """A metric to be drawn."""

    shown: Shown
    """Cells of the metric."""
    sweep: Sweep | None
    """The factor on the axis; None: the chart has a row per cell."""


def results(
    run: StoredRun, analysis: Analysis, experiment: Experiment, trials: Sequence[TrialRecord], named: Names
) -> list[Result]:
    """Return the tables and charts of every measure."""
    groups = analysis.estimates.by_metric
    shown = leading(analysis, run.plan.measures, MOST_ROWS)
    plans = [_planned(each, groups, run, analysis) for each in shown]
    every = [drawn.shown for first, others in plans for drawn in (*first, *others)]
    found = panels.trials_by_cell(trials, every)
    return [
        _result(f"chart-{index + 1}", shown[index], plans[index], run, analysis, experiment, found, named)
        for index in range(len(shown))
    ]


def _planned(
    shown: Shown,
    groups: Mapping[tuple[str, Quantity], Sequence[Estimate]],
    run: StoredRun,
    analysis: Analysis,
) -> tuple[list[_Drawn], list[_Drawn]]:
    """Return the metrics to show first, and those to fold."""
    own = {metric: estimates for (measure, metric), estimates in groups.items() if measure == shown.measure}
    first, others = side_metrics(list(own), shown.metric, _packets(shown.measure, analysis) is not None)
    return (
        [_drawn(own[metric], run, 1) for metric in first],
        [_drawn(own[metric], run, SIDE_SHARE) for metric in others[:MOST_OTHERS]],
    )


def _packets(measure: str, analysis: Analysis) -> Forwarding | None:
    return next((each for each in analysis.forwarding if each.measure == measure), None)


def _drawn(estimates: Sequence[Estimate], run: StoredRun, share: int) -> _Drawn:
    sweep = sweep_of(estimates, run)
    if sweep is not None:
        return _Drawn(lines.choose(estimates, sweep, run, MOST_SWEPT // share), sweep)
    first = estimates[0]
    return _Drawn(choose(first.measure, first.metric, estimates, MOST_CHARTED // share), None)


def _result(
    key: str,
    shown: Shown,
    planned: tuple[Sequence[_Drawn], Sequence[_Drawn]],
    run: StoredRun,
    analysis: Analysis,
    experiment: Experiment,
    trials: panels.Trials,
    named: Names,
) -> Result:
    words = named.words
    table = tables.results(shown, run, analysis, named)
    found = _packets(shown.measure, analysis)
    drawn = [
        tuple(_chart(each, run, experiment, trials, named) for each in part) for part in planned
    ]  # fmt: skip
    return Result(
        measure=named.measure(shown.measure),
        key=key,
        head=tables.head(words.text("table.mean"), table.unit, words),
        table=table,
        rows=_aligned(table, words),
        metrics=tables.all_metrics(table, analysis, named),
        grids=_grids(shown, found, run, analysis, named),
        charts=drawn[0],
        others=drawn[1],
        curves=curves.charts(found, named) if found else (),
        curves_folded=found is not None and found.kind is not PacketKind.LOAD_CURVE,
        curves_left_out=_curves_left_out(found, words) if found else "",
    )


def _grids(
    shown: Shown, found: Forwarding | None, run: StoredRun, analysis: Analysis, named: Names
) -> tuple[tables.Grid, ...]:
    summed = [
        *watch_grids(shown.measure, run, analysis, named, MOST_ROWS),
        *profile_grids(shown, run, analysis, named, MOST_ROWS),
        *level_grids(shown.measure, run, analysis, named, MOST_ROWS),
    ]
    if found is not None:
        return (*summed, *packets.result_grids(found, run, analysis, named, MOST_ROWS))
    flows = tables.flows(shown, run, analysis, named, MOST_ROWS)
    by_phase = phase_grids(shown, run, analysis, named, MOST_ROWS)
    return (*by_phase, *summed, *(() if flows is None else (flows,)))


def _chart(
    drawn: _Drawn, run: StoredRun, experiment: Experiment, trials: panels.Trials, named: Names
) -> panels.Chart:
    if drawn.sweep is None:
        return charts.chart(drawn.shown, run, trials, named)
    limits = line_limits(drawn.shown.estimates, experiment)
    marks = _marks(drawn, experiment, named) if drawn.sweep.factor.endswith(WINDOW) else ()
    return lines.chart(drawn.shown, drawn.sweep, run, trials, named, limits, marks)


def _marks(drawn: _Drawn, experiment: Experiment, named: Names) -> lines.Marks:
    """Return the path's bandwidth-delay products if windows are swept: one with the one-way delay and one with the
    RTT."""
    product = path_product(drawn.shown.measure, [each.cell for each in drawn.shown.estimates], experiment)
    if product is None:
        return ()
    words, by = named.words, numbers.Scale(1e-6, "MB")
    return tuple(
        (amount, text.format(value=numbers.quantity(amount, by, 1, named.words)))
        for amount, text in (
            (product.one_way_bytes, words.text("charts.product_one_way")),
            (product.round_trip_bytes, words.text("charts.product_round_trip")),
        )
    )


def _curves_left_out(found: Forwarding, words: Words) -> str:
    total = curves.cell_count(found)
    if total <= curves.MOST_CELLS:
        return ""
    return words.text("packets.cells_left_out", shown=curves.MOST_CELLS, total=total)


def _aligned(table: tables.ResultTable, words: Words) -> tuple[Mapping[str, object], ...]:
    columns = {
        name: numbers.align([getattr(row, name) for row in table.rows]) for name in ("mean", "min", "max")
    }
    return tuple(
        {
            "levels": row.levels,
            "reference": row.reference,
            "marked": row.marked,
            "marked_text": words.text("table.marked", count=row.marked),
            "ci": row.ci,
            "side": [column[index] for _, column in table.side],
            "n": row.n,
            "change": row.change,
            **{name: column[index] for name, column in columns.items()},
        }
        for index, row in enumerate(table.rows)
    )
