"""Estimate the effect of each factor on a measure's leading metric with a linear model of its logarithm.

Model: log(metric) = block + factors + two-factor interactions + residual. The block mean is subtracted from both sides
(Frisch & Waugh 1933, Lovell 1963), so drift between blocks does not count as an effect.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc, nctdtrinc, stdtr, stdtrit

from iolab.analysis.intervals import holm
from iolab.analysis.linear_model import (
    ROWS_AT_ONCE,
    Codes,
    Contrast,
    Design,
    Fit,
    Term,
    contrast,
    design_of,
    fit,
    matched_difference,
)
from iolab.analysis.ratios import ABSENT
from iolab.analysis.table import Column, Table
from iolab.analysis.types import Effect, Interval
from iolab.messages.notes import EffectsAliased, EffectsNotFitted, NotPositive, TooManyLevels
from iolab.messages.warnings import TrialWarning
from iolab.plan.types import Plan
from iolab.results.metric import Quantity

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

METHOD = "t on logs, pooled over cells"
POOLING_P = 0.25
"""Maximum p-value of the F test at which plots are treated as separate units (Bozivich, Bancroft & Hartley 1956)."""
POWER_RATIO = 0.8
LEVEL_RATIO = 0.95

LEAST_FREEDOM = 4
"""Minimum residual degrees of freedom in a single block; below it the residual reflects mostly higher interactions,
not chance."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A residual variance and its degrees of freedom."""

    variance: float
    """Variance of log(metric)."""
    freedom: float
    """Degrees of freedom."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """The fitted model of one measure."""

    table: Table
    """The measure's trials."""
    metric: Quantity
    """The leading metric."""
    levels: Ints
    """Level indices of the cells that have the metric; shape (cell, factor)."""
    design: Design
    """Meaning of the model's columns."""
    fit: Fit
    """Coefficients and their errors."""
    spread: Spread
    """Spread between trials of one plot."""
    plot_spread: Spread | None
    """Spread between plots, against which effects of grouped factors are tested; None if it does not exceed
    `spread`."""
    plot_trials: float
    """Mean number of trials in a plot."""
    grouped: frozenset[int]
    """Indices of the factors that change only between plots."""

    def main_levels(self) -> list[tuple[int, int]]:
        """Return every (factor, level) pair that is compared with the factor's reference level."""
        terms = self.design.terms
        return [(term.factors[0], term.levels[0]) for term in terms if len(term.factors) == 1]


@dataclass(frozen=True, slots=True)
class Difference:
    """An effect on the logarithm of the metric."""

    value: float
    """Natural logarithm of the ratio."""
    error: float
    """Standard error of `value`."""
    freedom: float
    """Degrees of freedom of the error; below 1 the error is unknown."""

    @property
    def p_value(self) -> float:
        """Return the two-sided, uncorrected p-value of ratio = 1; NaN if the error is unknown."""
        if not self.freedom >= 1:
            return float("nan")
        if self.error == 0.0:
            return 1.0 if abs(self.value) < np.finfo(float).eps else 0.0
        return float(2.0 * stdtr(self.freedom, -abs(self.value) / self.error))

    @property
    def ratio(self) -> float:
        """Return the effect as a ratio."""
        return float(np.exp(self.value))

    @property
    def interval(self) -> Interval | None:
        """Return the 95 % confidence interval of the ratio; None if the error is unknown."""
        if not self.freedom >= 1:
            return None
        half = float(stdtrit(self.freedom, 0.5 + LEVEL_RATIO / 2)) * self.error
        return Interval(float(np.exp(self.value - half)), float(np.exp(self.value + half)), METHOD)


def model_of(table: Table, column: Column, plan: Plan) -> Model | TrialWarning | None:
    """Fit the model of a measure; return a warning if it cannot be fitted, None if no factor varies."""
    levels = table.levels[column.rows]
    baseline = {
        index: labels.index(plan.baseline[name])
        for index, (name, labels) in enumerate(zip(table.factors, table.labels, strict=True))
        if plan.baseline.get(name) in labels
    }
    design = design_of(levels, baseline)
    if design is None:
        return EffectsNotFitted(measure=table.measure, why=TooManyLevels())
    if not design.terms:
        return None
    if not (column.values[~np.isnan(column.values)] > 0).all():
        return EffectsNotFitted(measure=table.measure, why=NotPositive(metric=str(column.metric)))
    logs = np.log(column.values)
    model = _fit_within_blocks(design.matrix, logs)
    grouped = frozenset(table.factors.index(name) for name in plan.grouping if name in table.factors)
    spread, plot_spread, size = _strata(design, model, logs, table.plots[column.rows], grouped)
    return Model(
        table=table,
        metric=column.metric,
        levels=levels,
        design=design,
        fit=model,
        spread=spread,
        plot_spread=plot_spread,
        plot_trials=size,
        grouped=grouped,
    )


def _fit_within_blocks(matrix: Codes, logs: Floats) -> Fit:
    """Fit the design and the logarithms after subtracting each block's mean.

    Blocks with the same cells share a design. The weighted mean of such blocks represents them (the normal equations
    are equal), and their spread around the mean is added to the residual. Ten complete blocks therefore cost as little
    as one.
    """
    there = ~np.isnan(logs)
    patterns, kind = np.unique(there, axis=1, return_inverse=True)
    parts, scatter, rows = [], 0.0, 0
    for index in range(patterns.shape[1]):
        cells = np.flatnonzero(patterns[:, index])
        if len(cells):
            own = logs[np.ix_(cells, np.flatnonzero(kind.reshape(-1) == index))]
            own = own - own.mean(axis=0)
            mean, weight = own.mean(axis=1), np.sqrt(own.shape[1])
            parts.append((cells, mean, float(weight)))
            scatter += float(((own - mean[:, None]) ** 2).sum())
            rows += len(cells)
    absorbed = int(there.any(axis=0).sum())
    model = fit(_rows(matrix, parts), matrix.shape[1])
    freedom = model.freedom + int(there.sum()) - rows - absorbed
    if logs.shape[1] == 1 and freedom < LEAST_FREEDOM:
        freedom = (
            0  # a single block has no repetitions, so its residual contains only a few higher interactions
        )
    return replace(model, squares=model.squares + scatter, freedom=freedom)


def _rows(matrix: Codes, parts: Sequence[tuple[Ints, Floats, float]]) -> Iterator[tuple[Floats, Floats]]:
    """Yield the weighted design and response of each group of blocks, from its cells and cell means.

    Rows are yielded in chunks of ROWS_AT_ONCE, because the matrix of a million trials would take a gigabyte.
    """
    for cells, means, weight in parts:
        own = matrix[cells]
        center = own.mean(axis=0)
        for begin in range(0, len(cells), ROWS_AT_ONCE):
            some = slice(begin, begin + ROWS_AT_ONCE)
            yield (own[some] - center) * weight, means[some] * weight


def _fitted(matrix: Codes, coefficients: Floats) -> Floats:
    """Return the fitted value of every cell, computed in chunks of ROWS_AT_ONCE rows."""
    begins = range(0, len(matrix), ROWS_AT_ONCE)
    return np.concatenate([matrix[begin : begin + ROWS_AT_ONCE] @ coefficients for begin in begins])


def _strata(
    design: Design, model: Fit, logs: Floats, plots: Ints, grouped: frozenset[int]
) -> tuple[Spread, Spread | None, float]:
    """Split the residual of the fitted model into spread within plots and spread between plots."""
    there = ~np.isnan(logs)
    rest = logs - _fitted(design.matrix, model.coefficients)[:, None]
    rest = np.where(there, rest - np.nansum(rest, axis=0) / np.maximum(there.sum(axis=0), 1), 0.0)
    whole = sum(set(design.terms[column].factors) <= grouped for column in model.kept.tolist())
    pooled = Spread(model.variance, model.freedom)
    return split(rest, there, pooled, plots, whole) if grouped else (pooled, None, 1.0)


def split(
    rest: Floats, there: NDArray[np.bool_], pooled: Spread, plots: Ints, whole: int
) -> tuple[Spread, Spread | None, float]:
    """Split a residual into variance between plots and variance within plots (Cochran & Cox 1957, ch. 7).

    `whole` is the number of degrees of freedom of effects that change only between plots. The spread between plots and
    the mean plot size are returned only if plots differ more than the spread of their trials explains.
    """
    if pooled.freedom < 1:
        return pooled, None, 1.0
    unit = np.unique((np.arange(there.shape[1]) * (plots.max() + 1) + plots)[there], return_inverse=True)[
        1
    ].reshape(-1)
    size = np.bincount(unit)
    between = float((np.bincount(unit, weights=rest[there]) ** 2 / size).sum())
    freedom = len(size) - int(there.any(axis=0).sum()) - whole
    inner = pooled.freedom - freedom
    if freedom < 1 or inner < 1:
        return pooled, None, 1.0
    plot = Spread(between / freedom, freedom)
    trial = Spread(max(pooled.variance * pooled.freedom - between, 0.0) / inner, inner)
    if (
        plot.variance <= trial.variance
        or fdtrc(freedom, inner, plot.variance / max(trial.variance, 1e-300)) > POOLING_P
    ):
        return pooled, None, 1.0
    return trial, plot, float(size.mean())


def difference(model: Model, factor: int, level: int) -> Difference | None:
    """Return the difference between a level and its factor's reference over all other factors; None if not
    estimable."""
    weights = matched_difference(model.design, model.levels, factor, level)
    found = None if weights is None else contrast(model.fit, weights)
    plots = model.plot_spread if factor in model.grouped else None
    return None if found is None else _difference(found, plots or model.spread)


def compared_only_at(model: Model, factor: int, level: int, cells: Ints) -> dict[int, int]:
    """Return the factors, by index, of which a comparison covers one level, although the measure has more levels.

    Their other cells have no figure, or none that may be compared; the comparison says nothing about them.

    Args:
        model: the fitted model
        factor: index of the compared factor
        level: level that is compared with the factor's reference
        cells: indices of the compared cells at this level, in `model.levels`
    """
    sides = (level, model.design.references[factor])
    planned = model.table.levels[np.isin(model.table.levels[:, factor], sides)]
    found = {}
    for other in range(planned.shape[1]):
        own, every = np.unique(model.levels[cells, other]), np.unique(planned[:, other])
        if other != factor and len(own) == 1 and own[0] != ABSENT and (every != ABSENT).sum() > 1:
            found[other] = int(own[0])
    return found


def _difference(found: Contrast, spread: Spread) -> Difference:
    return Difference(found.value, float(np.sqrt(found.leverage * spread.variance)), spread.freedom)


def interaction(model: Model, column: int) -> Difference:
    """Return the coefficient of an interaction column."""
    weights = np.zeros(len(model.design.terms))
    weights[column] = 1.0
    along = model.fit.root[np.searchsorted(model.fit.kept, column)]
    found = Contrast(float(model.fit.coefficients[column]), float(along @ along))
    plots = model.plot_spread if set(model.design.terms[column].factors) <= model.grouped else None
    return _difference(found, plots or model.spread)


def main_differences(model: Model) -> dict[tuple[int, int], Difference]:
    """Return the difference between each (factor, level) and the factor's reference, over all other factors."""
    found = {pair: difference(model, *pair) for pair in model.main_levels()}
    return {pair: own for pair, own in found.items() if own is not None}


def effects_of(model: Model, main: Mapping[tuple[int, int], Difference]) -> list[Effect]:
    """Return main effects, then interactions; Holm's correction treats all of them as one family."""
    terms = [(Term((factor,), (level,)), own) for (factor, level), own in main.items()]
    columns = [c for c in model.fit.kept.tolist() if len(model.design.terms[c].factors) == 2]
    return _effects(model, [*terms, *((model.design.terms[c], interaction(model, c)) for c in columns)])


def _effects(model: Model, family: list[tuple[Term, Difference]]) -> list[Effect]:
    corrected = holm(np.array([own.p_value for _, own in family]))
    table = model.table
    return [
        Effect(
            measure=table.measure,
            metric=model.metric,
            levels={
                table.factors[f]: table.labels[f][at] for f, at in zip(term.factors, term.levels, strict=True)
            },
            reference={table.factors[f]: table.labels[f][model.design.references[f]] for f in term.factors},
            conditions=_conditions(model, term),
            ratio=own.ratio,
            ci=own.interval,
            p_value=None if np.isnan(p_value) else p_value,
            better=table.columns[model.metric].better,
        )
        for (term, own), p_value in zip(family, corrected.tolist(), strict=True)
    ]


def _conditions(model: Model, term: Term) -> dict[str, str]:
    """Return the only compared levels of other factors for a main effect, by factor; empty for an interaction."""
    if len(term.factors) > 1:
        return {}
    (factor,), (level,) = term.factors, term.levels
    cells = np.flatnonzero(model.levels[:, factor] == level)
    only = compared_only_at(model, factor, level, cells)
    return {model.table.factors[other]: model.table.labels[other][at] for other, at in only.items()}


def detectable_ratio(differences: Sequence[Difference]) -> float | None:
    """Return the smallest ratio change that a two-sided 95 % t test detects with 80 % power, for the difference with
    the largest error.

    The noncentral t distribution is inverted, which is exact for a normal residual (Cohen 1988, section 2.2).
    """
    steps = [_detectable_step(own.freedom) * own.error for own in differences if own.freedom >= 1]
    return float(np.expm1(max(steps))) if steps else None


def _detectable_step(freedom: float) -> float:
    """Return the detectable effect in standard errors at the required power."""
    critical = stdtrit(freedom, 0.5 + LEVEL_RATIO / 2)
    return float(nctdtrinc(freedom, 1.0 - POWER_RATIO, critical))


def dropped_note(model: Model) -> TrialWarning | None:
    """Return a warning that lists the interactions left out of the model; None if no interaction was left out."""
    table, terms = model.table, model.design.terms
    aliased = sorted({terms[column].factors for column in model.fit.dropped.tolist()})
    names = [" x ".join(table.factors[f] for f in pair) for pair in (*aliased, *model.design.omitted)]
    if not names:
        return None
    return EffectsAliased(measure=table.measure, interactions=tuple(dict.fromkeys(names)))
