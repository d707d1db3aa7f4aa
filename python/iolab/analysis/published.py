"""Published figures next to those of a run. Pure.

Old figures are no yardstick for new hosts, so each is also given relative to its own reference: the baseline's level.
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
from iolab.plan.types import Plan
from iolab.results.metric import Method, Quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRow:
    """A published figure and the run's own of the same cell and statistic."""

    measure: str
    """Name of the measure."""
    metric: Quantity
    """What it is of."""
    statistic: Statistic
    """Of both."""
    over: str
    """The factor over whose levels both were taken; empty: over trials."""
    cell: Mapping[str, str]
    """Factor to label, as the run has it."""
    unit: str
    """Of both figures."""
    published: float | None
    """The published figure; None: only its change against the baseline's level was published."""
    measured: float
    """The run's."""
    published_ratio: float | None
    """Published figure over the published one of the baseline's level; None: there is none."""
    measured_ratio: float | None
    """The run's figure over its own of the baseline's level."""
    is_bound: bool = False
    """Whether the run's figure is only a lower bound."""
    ratio_bound: Bound | None = None
    """What the run's ratio is, where one of its sides is only a bound."""
    apart: str = ""
    """Why the run's figure has no ratio (Estimate.apart)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Apart:
    """A factor of whose published labels the run has none."""

    factor: str
    """Its path."""
    published: tuple[str, ...]
    """The file's labels."""
    measured: tuple[str, ...]
    """The run's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedComparison:
    """A run beside published figures."""

    source: str
    """The file's name."""
    run: str
    """The run's name."""
    rows: tuple[PublishedRow, ...]
    """In the order of the file."""
    factors: tuple[str, ...]
    """Factors of the rows."""
    without: tuple[PublishedFigure, ...]
    """Published figures that the run has no counterpart of."""
    functional: bool = False
    """The run was emulated: its figures say that it works, not how fast."""
    apart: tuple[Apart, ...] = ()
    """Where no figure had a counterpart: in what else the figures in each row differ. Then rows have means, and
    what was taken over levels."""
    reference: Mapping[str, str] = field(default_factory=dict)
    """Factor to label of the cells that the rows are relative to; a row keeps its other labels."""


@dataclass(frozen=True, slots=True)
class _Own:
    """Figures of one cell of the run."""

    measure: str
    """Name of the measure."""
    metric: Quantity
    """What it is of."""
    unit: str
    """Of the figures."""
    over: str
    """The factor over whose levels they were taken; empty: over trials."""
    cell: Mapping[str, str]
    """Factor to label."""
    figures: Mapping[Statistic, float]
    """By statistic."""
    bounded: bool
    """Whether they are only lower bounds."""
    apart: str = ""
    """Why it has no ratio (Estimate.apart)."""
    method: Method = 1
    """Version of the method behind the figures."""


def wanted_summaries(figures: Sequence[PublishedFigure], plan: Plan) -> tuple[Summary, ...]:
    """Return what a run must sum up over levels so that every figure has its counterpart."""
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
    """Find for each published figure the run's own of every cell that has its labels.

    Factors that the run does not have are passed over, and listed. Where there is no such cell at all, so are factors
    of whose labels the run has none.

    Raises:
        InputError: the run has a counterpart of none of them even so.
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
            f"no cell of {run} for any figure, the first being {first.measure} {first.metric} of {dict(first.cell)}"
            if analysis.estimates
            else f"no figures in {run}: no trial of it has ended well"
        )
        allowed = "a run with measures, metrics, factors and labels of the same names"
        raise InputError([Problem(source, "laying published figures beside a run", seen, allowed)])
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
    """Return the rows, and the figures that have none; labels of the factors that are `passed` need not be equal."""
    rows: list[PublishedRow] = []
    without: list[PublishedFigure] = []
    for figure in figures:
        wanted = {name: label for name, label in figure.cell.items() if name not in passed}
        like = replace(figure, cell=wanted)
        # Labels that are passed over say what a mean is of; least and largest are of other trials than the run's.
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
    """Return what the run has: of every cell over its trials, and what was summed up over levels."""
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
    """Tell whether run and figures vary anything in common; what does not has nothing to be laid beside."""
    published = {name for figure in figures for name in figure.cell}
    return any(not published.isdisjoint(each.cell) for each in own)


def _apart(figures: Sequence[PublishedFigure], own: Sequence[_Own]) -> tuple[Apart, ...]:
    """Return the factors of whose published labels the run has none."""
    found: list[Apart] = []
    for factor in dict.fromkeys(name for figure in figures for name in figure.cell):
        published = dict.fromkeys(figure.cell[factor] for figure in figures if factor in figure.cell)
        measured = dict.fromkeys(each.cell[factor] for each in own if factor in each.cell)
        if not set(published) & set(measured):
            found.append(Apart(factor=factor, published=tuple(published), measured=tuple(measured)))
    return tuple(found)


def _matches(own: _Own, figure: PublishedFigure) -> bool:
    """Tell whether figures are of the published one's cell; factors that the file does not name are free."""
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
