"""Tables as text, with formatted figures and without layout. Terminal, Markdown and HTML lay out the same rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iolab.analysis.findings import RATES
from iolab.analysis.types import Analysis, CellKey, Estimate, cell_key
from iolab.report import numbers, sentences
from iolab.report.against_baseline import without_baseline
from iolab.report.locale import Words
from iolab.report.names import Names
from iolab.report.selection import Shown, choose, is_baseline
from iolab.results.metric import Quantity
from iolab.store.records import StoredRun

MARK = "†"
"""Mark of a figure that includes marked trials."""


SIDE = ("loss_ratio", "unread_ratio", "sent_bps", "fairness", "rtt_mean_ns")
"""Metrics that are shown with a stream's rate because the rate alone may mislead; the most important first."""
OF_DATAGRAMS = frozenset({"sent_bps"})
"""Metrics that are shown for datagrams only, which may be lost; TCP retransmits until all data has arrived."""
LEAST_RTT_NS, RTT_TIMES = 1_000_000, 1.5
"""A table has a column of round-trip times if the longest is at least this long, and at least this many times as long
as the shortest."""
MOST_FLOWS = 8
"""Maximum number of flows in the table of flows; the CSV has all flows."""
BOTH_DIRECTIONS = frozenset({"both-ways", "dual"})
"""Values of `direction` for which a rate is the sum of both directions."""
MOST_METRICS = 24
"""Maximum number of columns in a table of metrics; if there are more, metrics per flow are omitted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow:
    """One cell."""

    cell: Mapping[str, str]
    """Factor to label."""
    levels: tuple[str, ...]
    """Labels of the cell, one per factor of the table; empty if the cell does not have the factor."""
    mean: str
    """Mean without its unit; the next fields have no unit either."""
    min: str
    max: str
    ci: str
    n: str
    change: str
    """Change against the baseline, with its interval."""
    marked: int
    """Number of trials marked as outliers."""
    reference: bool
    """Whether the cell is the baseline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultTable:
    """One metric of one measure in all its cells."""

    shown: Shown
    """Estimates in the table."""
    caption: str
    """Measure, metric and baseline."""
    unit: str
    """Unit of the figures; empty for plain numbers."""
    factors: tuple[str, ...]
    """Titles of the factor columns."""
    rows: tuple[ResultRow, ...]
    """Rows, in plan order."""
    with_ci: bool
    """Whether any row has an interval."""
    with_change: bool
    """Whether any row has a baseline."""
    side: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Additional columns with figures that qualify the rate: title, and a text per row."""
    notes: tuple[str, ...]
    """Notes on marked trials and omitted rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsTable:
    """The means of all metrics of one measure."""

    caption: str
    """Caption with the measure's name."""
    heads: tuple[str, ...]
    """Column titles: factors, then metrics with units."""
    rows: tuple[tuple[str, ...], ...]
    """Rows, one per cell."""
    labels: int
    """Number of columns that are factors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Any other table."""

    caption: str
    """Caption of the table."""
    heads: tuple[str, ...]
    """Column titles with units."""
    rows: tuple[tuple[str, ...], ...]
    """Rows, with as many columns as titles."""
    labels: int
    """Number of columns that contain words; the other columns contain figures."""
    prose: bool = False
    """Whether the last column of words contains sentences, which may be wrapped."""
    folded: bool = False
    """Whether a page folds the table as a detail."""
    notes: tuple[str, ...] = ()
    """Notes that belong to the table."""


def columns(estimates: Sequence[Estimate], run: StoredRun) -> tuple[str, ...]:
    """Return the factors of a table, in plan order, followed by factors that the plan does not have.

    Factors with the same level in the whole run are omitted; these levels are shown once above all tables.
    """
    used = {factor for estimate in estimates for factor in estimate.cell}.difference(run.plan.fixed())
    planned = [factor.name for factor in run.plan.factors if factor.name in used]
    return (*planned, *sorted(used.difference(planned)))


def results(shown: Shown, run: StoredRun, analysis: Analysis, names: Names) -> ResultTable:
    """Return the table of one metric."""
    words = names.words
    estimates = shown.estimates
    by = numbers.scale(shown.metric.name, estimates[0].unit, [estimate.mean for estimate in estimates])
    factors = columns(estimates, run)
    silent = _silent(shown, analysis)
    rows = {cell_key(each.cell): _row(each, factors, by, run, words) for each in estimates}
    rows |= {cell_key(cell): _empty_row(cell, factors, run, words) for cell in silent}
    order = [cell_key(cell) for cell in run.plan.in_order([row.cell for row in rows.values()])]
    notes = sentences.outliers(shown, analysis, by, MARK, names)
    notes += (
        [words.text("table.no_figure", count=len(silent), metric=names.metric(shown.metric))]
        if silent
        else []
    )
    notes += without_baseline(shown, run, names)
    notes += _sum_of_directions(shown, words)
    notes += [words.text("packets.bound_note")] if any(each.bounds for each in estimates) else []
    if shown.total > len(estimates):
        notes.append(words.text("table.rows_left_out", shown=len(estimates), total=shown.total))
    return ResultTable(
        shown=shown,
        caption=_caption(shown, run, names),
        unit=by.unit,
        factors=tuple(names.factor(factor) for factor in factors),
        rows=tuple(rows[key] for key in order) if silent else tuple(rows.values()),
        side=_side(shown, by, list(rows) if not silent else order, analysis, names),
        with_ci=any(estimate.ci is not None for estimate in estimates),
        with_change=any(estimate.ratio is not None or estimate.apart for estimate in estimates),
        notes=tuple(notes),
    )


def _silent(shown: Shown, analysis: Analysis) -> list[Mapping[str, str]]:
    """Return the cells that have successful trials and other figures, but not this figure.

    The result is empty if the table does not show all cells.
    """
    if shown.total > len(shown.estimates):
        return []
    known = {cell_key(each.cell) for each in shown.estimates}
    metrics = analysis.estimates.of_measure(shown.measure).values()
    others = {cell_key(cell): cell for metric in metrics for cell in metric.cells}
    return [cell for key, cell in others.items() if key not in known]


def _empty_row(cell: Mapping[str, str], factors: Sequence[str], run: StoredRun, words: Words) -> ResultRow:
    none = words.text("none")
    return ResultRow(
        cell=cell, levels=tuple(cell.get(factor, "") for factor in factors), mean=none, min=none, max=none, ci=none,
        n="0", change=none, marked=0, reference=is_baseline(cell, run.plan.baseline),
    )  # fmt: skip


def _sum_of_directions(shown: Shown, words: Words) -> list[str]:
    """Return a note that a rate is the sum of two directions."""
    both = any(each.direction in BOTH_DIRECTIONS for each in shown.estimates)
    return [words.text("table.both_ways_sum")] if both and shown.metric.name.endswith(RATES) else []


def _side(
    shown: Shown, by: numbers.Scale, cells: Sequence[CellKey], analysis: Analysis, names: Names
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the figures that are shown with the rate; all rates among them are in the unit of that rate."""
    found = _limits(shown, cells, names)
    if any(each.measure == shown.measure for each in analysis.forwarding):
        return tuple(found)
    groups = analysis.estimates.of_measure(shown.measure)
    datagrams = Quantity("loss_ratio") in groups
    for metric in SIDE:
        every = groups.get(Quantity(metric))
        own = every.of_cells(set(cells)) if every else {}
        if metric == "rtt_mean_ns" and not _tells(list(own.values())):
            continue
        if own and Quantity(metric) != shown.metric and (datagrams or metric not in OF_DATAGRAMS):
            alike = all(each.unit == shown.estimates[0].unit for each in own.values())
            name, texts = _metric_column(Quantity(metric), own, cells, names, by if alike else None)
            found.append((name, tuple(texts)))
    return tuple(found)


def _tells(times: Sequence[Estimate]) -> bool:
    """Whether the round-trip times indicate a filled queue, which the rates do not show."""
    means = [each.mean for each in times]
    return bool(means) and max(means) >= max(LEAST_RTT_NS, RTT_TIMES * min(means))


def _limits(shown: Shown, cells: Sequence[CellKey], names: Names) -> list[tuple[str, tuple[str, ...]]]:
    """Return the limits of the instrument per cell, if any figure is a lower bound."""
    own = {cell_key(each.cell): each for each in shown.estimates}
    if not any(each.bounds for each in own.values()):
        return []
    texts = [
        limits(own[cell].limited_by, names.words) if cell in own else names.words.text("none")
        for cell in cells
    ]
    return [(names.words.text("packets.limited_by"), tuple(texts))]


def limits(codes: Sequence[str], words: Words) -> str:
    """Return the instrument's limits as text."""
    return words.listed(words.name("packets.limit_names", code) for code in codes) or words.text("none")


def _of_flow(metric: Quantity, whole: Quantity) -> bool:
    """Whether a metric is the per-flow version of the given metric of the whole trial."""
    return metric.name == whole.name and metric.dimensions.flow is not None


def flows(shown: Shown, run: StoredRun, analysis: Analysis, names: Names, most: int) -> Grid | None:
    """Return the rates of individual flows for the cells with several flows; None if no cell has several flows."""
    if any(each.measure == shown.measure for each in analysis.forwarding):
        return None
    words = names.words
    found = {
        metric: {cell_key(each.cell): each for each in estimates}
        for metric, estimates in analysis.estimates.of_measure(shown.measure).items()
        if _of_flow(metric, shown.metric)
    }
    if not found:
        return None
    every = [each for own in found.values() for each in own.values()]
    cells = run.plan.in_order({cell_key(each.cell): each.cell for each in every}.values())
    by = numbers.scale(shown.metric.name, every[0].unit, [each.mean for each in every])
    factors = columns(every, run)
    kept = list(found.items())[:MOST_FLOWS]
    texts = [_means(own, [cell_key(cell) for cell in cells[:most]], by, words) for _, own in kept]
    text = words.text("table.flows_left_out", shown=len(kept), total=len(found))
    return Grid(
        caption=words.text(
            "table.flows",
            measure=names.measure(shown.measure),
            metric=head(names.metric(shown.metric), by.unit, words),
        ),
        heads=(*map(names.factor, factors), *(names.component(metric.dimensions) for metric, _ in kept)),
        rows=tuple(
            (*(cell.get(factor, "") for factor in factors), *(column[index] for column in texts))
            for index, cell in enumerate(cells[:most])
        ),
        labels=len(factors),
        notes=(text,) if len(kept) < len(found) else (),
    )


def _caption(shown: Shown, run: StoredRun, names: Names) -> str:
    words = names.words
    metric = numbers.directed(names.metric(shown.metric), shown.estimates[0].better, names.words)
    places = {"measure": names.measure(shown.measure), "metric": metric}
    used = {factor for estimate in shown.estimates for factor in estimate.cell}
    baseline = {factor: label for factor, label in run.plan.baseline.items() if factor in used}
    if not names.cell(baseline) or all(estimate.ratio is None for estimate in shown.estimates):
        return words.text("table.caption", **places)
    return words.text("table.caption_baseline", baseline=names.cell(baseline), **places)


def _row(
    estimate: Estimate, factors: Sequence[str], by: numbers.Scale, run: StoredRun, words: Words
) -> ResultRow:
    decimals = numbers.estimate_decimals(estimate, by)
    reference = is_baseline(estimate.cell, run.plan.baseline)
    written = numbers.judged_estimate(estimate, words)
    least, most = (
        numbers.figure(value, by, numbers.trial_decimals(value, by, decimals), words)
        for value in (estimate.min, estimate.max)
    )
    written = words.name("table.incomparable_names", estimate.apart) or written
    return ResultRow(
        cell=estimate.cell,
        levels=tuple(estimate.cell.get(factor, "") for factor in factors),
        mean=numbers.mean(estimate, by, words),
        min=numbers.at_least(least, estimate.least_is_bound, words),
        max=numbers.at_least(most, estimate.bounds > 0, words),
        ci=numbers.interval(estimate.ci, by, words),
        n=str(estimate.n),
        change=words.text("table.baseline") if reference and not estimate.apart else written,
        marked=len(estimate.outliers),
        reference=reference,
    )


def all_metrics(table: ResultTable, analysis: Analysis, names: Names) -> MetricsTable | None:
    """Return the means of all metrics for the cells of a table; None if there is only one metric."""
    words = names.words
    packets = any(each.measure == table.shown.measure for each in analysis.forwarding)
    cells = [cell_key(row.cell) for row in table.rows]
    wanted = set(cells)
    found: dict[Quantity, dict[CellKey, Estimate]] = {}
    for metric, estimates in analysis.estimates.of_measure(table.shown.measure).items():
        if metric.dimensions.whole or not (packets or len(found) >= MOST_METRICS):
            found[metric] = estimates.of_cells(wanted)
    if len(found) < 2:
        return None
    written = [_metric_column(metric, found[metric], cells, names) for metric in found]
    heads = [head for head, _ in written]
    rows = [(*row.levels, *(column[index] for _, column in written)) for index, row in enumerate(table.rows)]
    return MetricsTable(
        caption=words.text("table.all_metrics", measure=names.measure(table.shown.measure)),
        heads=(*table.factors, *heads),
        rows=tuple(rows),
        labels=len(table.factors),
    )


def _metric_column(
    metric: Quantity,
    estimates: Mapping[CellKey, Estimate],
    cells: Sequence[CellKey],
    names: Names,
    by: numbers.Scale | None = None,
) -> tuple[str, list[str]]:
    """Return title and figures of a metric, in the given unit or in the metric's own unit."""
    unit = next((estimate.unit for estimate in estimates.values()), "")
    by = by or numbers.scale(metric.name, unit, [estimate.mean for estimate in estimates.values()])
    return head(names.metric(metric), by.unit, names.words), _means(estimates, cells, by, names.words)


def _means(
    estimates: Mapping[CellKey, Estimate], cells: Sequence[CellKey], by: numbers.Scale, words: Words
) -> list[str]:
    """Return one figure per cell, with aligned decimal points."""
    texts = []
    for cell in cells:
        estimate = estimates.get(cell)
        if estimate is None:
            texts.append(words.text("none"))
        else:
            texts.append(numbers.mean(estimate, by, words))
    return numbers.align(texts)


def head(name: str, unit: str, words: Words) -> str:
    """Return a column title, with the unit if there is one."""
    return words.text("table.unit", name=name, unit=unit) if unit else name


def chosen(analysis: Analysis, measure: str, metric: Quantity, most: int) -> Shown | None:
    """Return the cells to show for a metric; None if the metric has no estimates."""
    estimates = analysis.estimates.by_metric.get((measure, metric))
    return choose(measure, metric, estimates, most) if estimates else None
