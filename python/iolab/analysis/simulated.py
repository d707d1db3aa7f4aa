"""Simulate A/A experiments with noise of known kinds, and count how often the conclusions are correct.

Every cell has the same true rate. Callers pass the source of randomness. Tests and benches/truth/coverage.py use this
module.
"""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from iolab.analysis.cell_means import cell_means, comparisons
from iolab.analysis.effects import Model, effects_of, main_differences, model_of
from iolab.analysis.estimates import estimate, on_log_scale
from iolab.analysis.findings import detectable_changes, findings_of
from iolab.analysis.intervals import interval_of_mean
from iolab.analysis.neighbours import resemblance
from iolab.analysis.outliers import stand
from iolab.analysis.ratios import baseline_cells
from iolab.analysis.table import Column, Table
from iolab.analysis.types import Cells, Interval
from iolab.plan.types import Plan, PlannedFactor
from iolab.results.metric import Quantity

Floats = NDArray[np.float64]
Random = np.random.Generator

CELLS = 8
"""Cells of the experiment: three factors of two levels, as in the quickstart."""
LARGEST = 3.0
"""Maximum deviation of a logarithm: the rate stays within a factor of 20 of the true rate, even with heavy tails."""
METRIC = Quantity("received_bps")


def _normal(random: Random, shape: tuple[int, int, int]) -> Floats:
    return random.normal(0, 0.02, shape)


def _slow(random: Random, shape: tuple[int, int, int]) -> Floats:
    """Return noise in which one trial in twenty has 60 % of the rate, as with interference from other processes."""
    return random.normal(0, 0.01, shape) + np.where(random.random(shape) < 0.05, np.log(0.6), 0.0)


def _skewed(random: Random, shape: tuple[int, int, int]) -> Floats:
    """Return log-normal noise with a standard deviation of 20 %."""
    return random.normal(0, 0.2, shape)


def _heavy(random: Random, shape: tuple[int, int, int]) -> Floats:
    """Return noise from Student's t with two degrees of freedom, which has no variance."""
    return np.clip(0.01 * random.standard_t(2, shape), -LARGEST, LARGEST)


def _cauchy(random: Random, shape: tuple[int, int, int]) -> Floats:
    """Return Cauchy noise, which has neither variance nor mean."""
    return np.clip(0.005 * random.standard_cauchy(shape), -LARGEST, LARGEST)


def _drift(random: Random, shape: tuple[int, int, int]) -> Floats:
    """Return noise with a steady slowdown of 20 % from the first trial to the last."""
    _, blocks, cells = shape
    line = np.linspace(0.1, -0.1, blocks * cells).reshape(blocks, cells)
    return line + random.normal(0, 0.01, shape)


def _resembling(share: float) -> Callable[[Random, tuple[int, int, int]], Floats]:
    """Return an AR(1) noise function: each trial keeps the given share of the previous trial's deviation."""

    def noise(random: Random, shape: tuple[int, int, int]) -> Floats:
        sets, blocks, cells = shape
        steps = random.normal(0, 0.02, (sets, blocks * cells))
        for at in range(1, blocks * cells):
            steps[:, at] = share * steps[:, at - 1] + np.sqrt(1 - share**2) * steps[:, at]
        return steps.reshape(shape)

    return noise


NOISES: Mapping[str, Callable[[Random, tuple[int, int, int]], Floats]] = {
    "normal, 2 %": _normal,
    "5 % slow trials": _slow,
    "log-normal, 20 %": _skewed,
    "t, 2 degrees": _heavy,
    "Cauchy": _cauchy,
    "drift of 20 %": _drift,
    "AR(1), 0.5": _resembling(0.5),
    "AR(1), 0.9": _resembling(0.9),
}
"""Noise functions by name; each returns logarithms of rates around a true value of 1, in time order; shape (set,
block, place)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """Shares of 95 % intervals of a cell mean that contain the true value [ratio]; NaN if no cell has an interval."""

    of_mean: float
    """Share that contains the mean of many trials."""
    of_level: float
    """Share that contains the rate of an undisturbed trial: the median of many trials."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiments:
    """Shares of correct and false conclusions from whole experiments without any true effect [ratio]."""

    effects_hold: float
    """Share of intervals of main effects that contain 1; NaN if there are none."""
    ratios_false: float
    """Share of experiments in which a corrected p-value of a cell's ratio is below 0.05."""
    effects_false: float
    """Share of experiments in which a corrected p-value of an effect is below 0.05."""
    findings_false: float
    """Share of experiments whose summary shows a difference."""
    contradictions: float
    """Share of ratios whose p-value is below 0.05 although their interval contains 1."""


def means(noise: str, blocks: int, sets: int, random: Random) -> Means:
    """Evaluate the intervals of one cell in each simulated experiment."""
    logs, orders = _done(noise, blocks, sets, random)
    long = np.exp(NOISES[noise](random, (4000, 10, CELLS)))
    found = [_interval(np.exp(own).T, order.T) for own, order in zip(logs, orders, strict=True)]
    ends = np.array([(one.low, one.high) for one in found if one is not None]).reshape(-1, 2)
    return Means(of_mean=_share(ends, float(long.mean())), of_level=_share(ends, float(np.median(long))))


def _interval(values: Floats, order: NDArray[np.int64]) -> Interval | None:
    """Return the interval of the first cell, computed as in a run: with the autocorrelation of all trials."""
    column = Column(metric=METRIC, unit="bit/s", rows=np.arange(len(values)), values=values)
    return interval_of_mean(values[0], resemblance(order, column), log_scale=on_log_scale(column))


def ratios(noise: str, blocks: int, sets: int, random: Random) -> float:
    """Return the share of 95 % intervals of a cell's ratio to the baseline that contain the true ratio 1 [ratio]."""
    logs, _ = _done(noise, blocks, sets, random)
    names = {"set": tuple(map(str, range(sets))), "cell": ("baseline", "other")}
    levels = np.array([(at, side) for at in range(sets) for side in (0, 1)])
    values = np.exp(logs[:, :, :2]).transpose(0, 2, 1).reshape(2 * sets, blocks)
    table = _table(names, levels, values)
    column = table.columns[METRIC]
    rates = estimate(
        table, column, baseline_cells(table, {"cell": "baseline"}), stand(column.values, "bit/s")
    )
    ends = [(each.ratio_ci.low, each.ratio_ci.high) for each in rates if each.ratio_ci is not None]
    return _share(np.array(ends).reshape(-1, 2), 1.0)


def _done(noise: str, blocks: int, sets: int, random: Random) -> tuple[Floats, NDArray[np.int64]]:
    """Assign the simulated values, in time order, to cells in random order within each block; return the values and
    each trial's position."""
    steps = NOISES[noise](random, (sets, blocks, CELLS))
    turn = np.argsort(random.random(steps.shape), axis=2)
    return np.take_along_axis(steps, turn, axis=2), turn + CELLS * np.arange(blocks)[:, None]


def _share(ends: Floats, truth: float) -> float:
    held = (ends[:, 0] <= truth) & (truth <= ends[:, 1])
    return float(held.mean()) if len(ends) else float("nan")


def experiments(noise: str, blocks: int, sets: int, random: Random) -> Experiments:
    """Evaluate the conclusions from simulated experiments of `CELLS` cells, each analysed like a separate run."""
    logs, _ = _done(noise, blocks, sets, random)
    names = dict.fromkeys(("a", "b", "c"), ("0", "1"))
    levels = np.array(list(itertools.product((0, 1), repeat=3)))
    baseline = dict.fromkeys(names, "0")
    plan = _plan(names, baseline, blocks)
    held: list[bool] = []
    false = np.zeros((sets, 3), dtype=bool)
    against: list[bool] = []
    for at in range(sets):
        table = _table(names, levels, np.exp(logs[at]).T)
        column = table.columns[METRIC]
        rates = estimate(table, column, baseline_cells(table, baseline), stand(column.values, "bit/s"))
        model = model_of(table, column, plan)
        assert isinstance(model, Model)
        compared = {"tcp": comparisons(cell_means(model, np.log(column.values), table.plots))}
        effects = effects_of(model, main_differences(model))
        found = findings_of(compared, detectable_changes(compared))
        mains = (each for each in effects if len(each.levels) == 1)
        held += [each.ci.low <= 1 <= each.ci.high for each in mains if each.ci is not None]
        small = [each.p_value is not None and each.p_value < 0.05 for each in rates]
        apart = [
            each.ratio_ci is not None and not each.ratio_ci.low <= 1 <= each.ratio_ci.high for each in rates
        ]
        against += [p and not interval for p, interval in zip(small, apart, strict=True)]
        effects_small = any(each.p_value is not None and each.p_value < 0.05 for each in effects)
        false[at] = any(small), effects_small, any(each.shown for each in found)
    shares = false.mean(axis=0).tolist()
    return Experiments(
        effects_hold=float(np.mean(held)) if held else float("nan"),
        ratios_false=shares[0],
        effects_false=shares[1],
        findings_false=shares[2],
        contradictions=float(np.mean(against)),
    )


def _plan(names: Mapping[str, tuple[str, ...]], baseline: Mapping[str, str], blocks: int) -> Plan:
    return Plan(
        title="simulated", factors=tuple(PlannedFactor(*each) for each in names.items()), measures=("tcp",),
        baseline=baseline, grouping=(), seed=1, blocks=blocks, steps=(), unsupported=(), estimate_ns=0, digest="",
    )  # fmt: skip


def _table(names: Mapping[str, tuple[str, ...]], levels: NDArray[np.int64], values: Floats) -> Table:
    rows = np.arange(len(levels))
    cells = Cells(
        {name: labels[at] for (name, labels), at in zip(names.items(), own, strict=True)}
        for own in levels.tolist()
    )
    return Table(
        measure="tcp",
        factors=tuple(names),
        labels=tuple(names.values()),
        levels=levels,
        cells=cells,
        blocks=tuple(range(1, values.shape[1] + 1)),
        keys=tuple(tuple("" for _ in range(values.shape[1])) for _ in rows),
        plots=np.zeros(values.shape, dtype=np.int64),
        columns={METRIC: Column(metric=METRIC, unit="bit/s", rows=rows, values=values)},
    )
