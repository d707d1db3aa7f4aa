"""Compare published figures with those of a run. Pure.

Published absolute figures are not comparable across hosts, so each figure is also shown relative to the baseline level
of the same source.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from iolab.analysis.bounds import LOWER_BOUND, ratio_bound
from iolab.analysis.forwarding_types import Bound
from iolab.analysis.published_file import PublishedFigure, with_dimensions
from iolab.analysis.ratios import OTHER_METHOD
from iolab.analysis.types import Analysis
from iolab.errors import InputError, Problem
from iolab.experiment.experiment import Statistic, Summary
from iolab.experiment.factors.summaries import STATISTICS
from iolab.locale import Phrase
from iolab.plan.types import Plan
from iolab.results.metric import Method, Quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRow:
    """A published figure and the run's figure for the same cell and statistic."""

    measure: str
    """Measure name."""
    metric: Quantity
    """Metric."""
    statistic: Statistic
    """Statistic of both figures."""
    over: str
    """Factor over whose levels both statistics were computed; empty: over trials."""
    cell: Mapping[str, str]
    """Level label by factor, as in the run."""
    unit: str
    """Unit of both figures."""
    published: float | None
    """Published figure; None if only its change relative to the baseline level was published."""
    measured: float
    """The run's figure."""
    published_ratio: float | None
    """Ratio of the published figure to that of the baseline level; None if there is no such ratio."""
    measured_ratio: float | None
    """Ratio of the run's figure to the run's figure at the baseline level."""
    is_bound: bool = False
    """Whether the run's figure is only a lower bound."""
    ratio_bound: Bound | None = None
    """Kind of bound of the run's ratio if one of its sides is only a bound."""
    apart: str = ""
    """Reason code if the run's figure has no ratio (Estimate.apart)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Apart:
    """A factor whose published labels do not occur in the run."""

    factor: str
    """Factor path."""
    published: tuple[str, ...]
    """Labels in the file."""
    measured: tuple[str, ...]
    """Labels in the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedComparison:
    """Comparison of a run with published figures."""

    source: str
    """File name."""
    run: str
    """Run name."""
    rows: tuple[PublishedRow, ...]
    """Rows in the order of the file."""
    factors: tuple[str, ...]
    """Factors that occur in the rows."""
    without: tuple[PublishedFigure, ...]
    """Published figures without a counterpart in the run."""
    functional: bool = False
    """Whether the run was emulated: its figures show that the setup works, not its performance."""
    apart: tuple[Apart, ...] = ()
    """Factors in which the figures of each row differ, if no figure had an exact counterpart.

    The rows then contain only means and statistics over levels.
    """
    reference: Mapping[str, str] = field(default_factory=dict)
    """Level label by factor: each row is relative to the cell with these labels and the row's other labels."""


@dataclass(frozen=True, slots=True)
class _Own:
    """Statistics of one cell of the run."""

    measure: str
    """Measure name."""
    metric: Quantity
    """Metric."""
    unit: str
    """Unit of the figures."""
    over: str
    """Factor over whose levels the statistics were computed; empty: over trials."""
    cell: Mapping[str, str]
    """Level label by factor."""
    figures: Mapping[Statistic, float]
    """Figures by statistic."""
    bounded: bool
    """Whether the figures are only lower bounds."""
    apart: str = ""
    """Reason code if the cell has no ratio (Estimate.apart)."""
    method: Method = 1
    """Version of the method that computed the figures."""


def wanted_summaries(figures: Sequence[PublishedFigure], plan: Plan) -> tuple[Summary, ...]:
    """Return the summaries over levels that the run needs so that every published figure has a counterpart."""
    known = {factor.name for factor in plan.factors if len(factor.labels) > 1}
    overs = dict.fromkeys(figure.over for figure in figures if figure.over in known)
    return tuple(Summary(over, STATISTICS) for over in overs)


def lay_beside(
    figures: Sequence[PublishedFigure],
    source: str,
    run: str,
    plan: Plan,
    analysis: Analysis,
    *,
    functional: bool = False,
) -> PublishedComparison:
    """Match each published figure with the run's figure in every cell that has its labels.

    Factors that the run does not have are ignored and listed. If no cell matches, factors whose labels do not occur in
    the run are also ignored.

    Raises:
        InputError: no figure has a counterpart in the run, even with these factors ignored.
    """
    own = _own(analysis)
    known = {factor.name for factor in plan.factors}
    figures = [with_dimensions(figure, known) for figure in figures]
    absent = frozenset(name for figure in figures for name in figure.cell if name not in known)
    rows, without = _rows(figures, plan, own, absent)
    shown = [figure for figure in figures if figure not in without]
    apart = tuple(each for each in _apart(shown, own) if each.factor in absent)
    if not rows and _related(figures, own):
        apart = _apart(figures, own)
        means = [figure for figure in figures if figure.statistic == "mean" or figure.over]
        rows, without = _rows(means, plan, own, frozenset(each.factor for each in apart))
        shown = [figure for figure in means if figure not in without]
        apart = tuple(each for each in _apart(shown, own) if each.factor in {one.factor for one in apart})
    if not rows:
        first = figures[0]
        seen = (
            Phrase(
                "analysis.no-cell-for-figures",
                run=run, measure=first.measure, metric=first.metric,
                cell=["=".join(level) for level in dict(first.cell).items()],
            )
            if analysis.estimates
            else Phrase("analysis.run-without-figures", run=run)
        )  # fmt: skip
        doing, allowed = Phrase("analysis.comparing-with-published"), Phrase("analysis.run-of-same-names")
        raise InputError([Problem(source, doing, seen, allowed)])
    factors = tuple(dict.fromkeys(name for row in rows for name in row.cell))
    named = {name for figure in figures for name in figure.cell} - {each.factor for each in apart}
    return PublishedComparison(
        source=source,
        run=run,
        rows=tuple(rows),
        factors=factors,
        without=tuple(without),
        functional=functional,
        apart=apart,
        reference={name: label for name, label in plan.baseline.items() if name in named},
    )


def _rows(
    figures: Sequence[PublishedFigure], plan: Plan, own: Sequence[_Own], passed: frozenset[str] = frozenset()
) -> tuple[list[PublishedRow], list[PublishedFigure]]:
    """Return the rows, and the figures without a row; the labels of the factors in `passed` need not be equal."""
    rows: list[PublishedRow] = []
    without: list[PublishedFigure] = []
    for figure in figures:
        wanted = {name: label for name, label in figure.cell.items() if name not in passed}
        like = replace(figure, cell=wanted)
        # With ignored labels only means are comparable: minimum and maximum are over different trials.
        near = len(wanted) == len(figure.cell) or (wanted and (figure.statistic == "mean" or figure.over))
        alike = [each for each in own if near and _matches(each, like)]
        for each in alike:
            row = _beside(figure, each, figures, plan, own, passed)
            both = {
                name: f"{figure.cell[name]} | {each.cell.get(name, '-')}"
                for name in figure.cell
                if name in passed
            }
            rows.append(replace(row, cell={**row.cell, **both}))
        if not alike:
            without.append(figure)
    return rows, without


def _own(analysis: Analysis) -> list[_Own]:
    """Return the run's figures: statistics over trials of every cell, and summaries over levels."""
    found = [
        _Own(
            each.measure, each.metric, each.unit, "", each.cell,
            {"mean": each.mean, "min": each.min, "max": each.max, "median": each.median}, each.bounds > 0,
            each.apart, each.method,
        )
        for each in analysis.estimates
    ]  # fmt: skip
    summed: dict[tuple[str, Quantity, str, frozenset[tuple[str, str]]], dict[Statistic, float]] = {}
    for each in analysis.levels_figures:
        key = (each.measure, each.metric, each.over, frozenset(each.cell.items()))
        if key not in summed:
            summed[key] = {}
            bounded = bool(each.limited_by)
            found.append(
                _Own(
                    each.measure,
                    each.metric,
                    each.unit,
                    each.over,
                    each.cell,
                    summed[key],
                    bounded,
                    method=each.method,
                )
            )
        summed[key][each.statistic] = each.mean
    return found


def _related(figures: Sequence[PublishedFigure], own: Sequence[_Own]) -> bool:
    """Whether the run and the figures have a factor in common."""
    published = {name for figure in figures for name in figure.cell}
    return any(not published.isdisjoint(each.cell) for each in own)


def _apart(figures: Sequence[PublishedFigure], own: Sequence[_Own]) -> tuple[Apart, ...]:
    """Return the factors whose published labels do not occur in the run."""
    found: list[Apart] = []
    for factor in dict.fromkeys(name for figure in figures for name in figure.cell):
        published = dict.fromkeys(figure.cell[factor] for figure in figures if factor in figure.cell)
        measured = dict.fromkeys(each.cell[factor] for each in own if factor in each.cell)
        if not set(published) & set(measured):
            found.append(Apart(factor=factor, published=tuple(published), measured=tuple(measured)))
    return tuple(found)


def _matches(own: _Own, figure: PublishedFigure) -> bool:
    """Whether a run's figure belongs to the cell of a published figure; factors that the file does not have are not
    compared."""
    return (
        (own.measure, own.metric, own.over) == (figure.measure, figure.metric, figure.over)
        and own.unit == (figure.unit or own.unit)
        and figure.statistic in own.figures
        and all(own.cell.get(name) == label for name, label in figure.cell.items())
    )


def _beside(
    figure: PublishedFigure,
    each: _Own,
    figures: Sequence[PublishedFigure],
    plan: Plan,
    own: Sequence[_Own],
    passed: frozenset[str],
) -> PublishedRow:
    reference = {
        name: label for name, label in plan.baseline.items() if name in figure.cell and name not in passed
    }
    published_at = next(_values(figures, figure, {**figure.cell, **reference}), None) if reference else None
    change = figure.value if figure.unit is None else _ratio(figure.value, published_at)
    own_at = {**each.cell, **reference}
    at = next(
        (
            other
            for other in own
            if (other.measure, other.metric, other.over) == (each.measure, each.metric, each.over)
            and other.cell == own_at
        ),
        None,
    )
    measured = each.figures[figure.statistic]
    known = at is not None and bool(reference) and not (at.bounded and each.bounded and at is not each)
    apart = each.apart or (at.apart if at is not None and known else "")
    if at is not None and known and at.method != each.method:
        apart = OTHER_METHOD
    known = known and not apart
    bounded = at is not None and at is not each and (at.bounded or each.bounded)
    known = known and not bounded
    ratio = _ratio(measured, at.figures.get(figure.statistic)) if at is not None and known else None
    bound = ratio_bound(each.bounded, at.bounded) if at is not None and at is not each else None
    return PublishedRow(
        measure=figure.measure,
        metric=figure.metric,
        statistic=figure.statistic,
        over=figure.over,
        cell=each.cell,
        unit=each.unit,
        published=None if figure.unit is None else figure.value,
        measured=measured,
        published_ratio=change,
        measured_ratio=ratio,
        is_bound=each.bounded,
        ratio_bound=bound,
        apart=apart or (LOWER_BOUND if bounded else ""),
    )


def _values(
    figures: Sequence[PublishedFigure], like: PublishedFigure, cell: Mapping[str, str]
) -> Iterator[float]:
    wanted = (like.measure, like.metric, like.statistic, like.over)
    for other in figures:
        if (other.measure, other.metric, other.statistic, other.over) == wanted and other.cell == cell:
            yield other.value


def _ratio(value: float, reference: float | None) -> float | None:
    return value / reference if reference else None
