"""Measure how often intervals contain the mean of skewed trials: iolab's intervals, and others from the literature.

Usage: python -m benches.truth.coverage_skewed [SETS [BLOCKS ...]]; 20 000 data sets, a minute on one CPU. BCa is
computed by scipy, for a tenth of the data sets. No network and no clock. The figures are those of
docs/method/statistics.md.
"""

from collections.abc import Callable

import numpy as np
from benches.harness.arguments import Argument, arguments
from benches.harness.table import Table
from numpy.typing import NDArray
from scipy import stats

from iolab.analysis.intervals import log_interval

Floats = NDArray[np.float64]
Ends = tuple[Floats, Floats]
Draw = Callable[[np.random.Generator, tuple[int, int]], Floats]
ARGUMENTS = (
    Argument("sets", 20_000, "data sets"),
    Argument("blocks", (5, 10, 30), "blocks of a set", int, several=True),
)
SEED = 20110903
RESAMPLES = 999


def t_scipy(samples: Floats) -> Ends:
    """Return Student's t interval, by scipy."""
    error = stats.sem(samples, axis=1)
    low, high = stats.t.interval(0.95, samples.shape[1] - 1, samples.mean(axis=1), error)
    return np.asarray(low), np.asarray(high)


def cox(samples: Floats) -> Ends:
    """Return Cox's interval of the mean of log-normal trials, with t (Zhou & Gao 1997; Olsson 2005)."""
    logs, n = np.log(samples), samples.shape[1]
    variance = logs.var(axis=1, ddof=1)
    half = stats.t.ppf(0.975, n - 1) * np.sqrt(variance / n + variance**2 / (2 * (n - 1)))
    middle = logs.mean(axis=1) + variance / 2
    return np.exp(middle - half), np.exp(middle + half)


def hall(samples: Floats) -> Ends:
    """Return the t interval with the skewness removed by a cubic transformation (Hall 1992, JRSS B 54:221)."""
    n, mean, spread = samples.shape[1], samples.mean(axis=1), samples.std(axis=1, ddof=1)
    skew = ((samples - mean[:, None]) ** 3).mean(axis=1) / spread**3
    skew = np.where(np.abs(skew) < 1e-9, 1e-9, skew)
    t = stats.t.ppf(0.975, n - 1) / np.sqrt(n)

    def back(end: float) -> Floats:
        return np.asarray(3 / skew * (np.cbrt(1 + skew * (end - skew / (6 * n))) - 1))

    return mean - spread * back(t), mean - spread * back(-t)


def bca(samples: Floats) -> Ends:
    """Return the bias-corrected and accelerated bootstrap interval, by scipy, of a tenth of the sets."""
    few = samples[: max(1, len(samples) // 10)]
    found = stats.bootstrap(
        (few,),
        np.mean,
        axis=1,
        n_resamples=RESAMPLES,
        method="BCa",
        vectorized=True,
        batch=100,
        random_state=SEED,
    ).confidence_interval
    return np.asarray(found.low), np.asarray(found.high)


def slow(random: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Return durations, every fifth of which is ten times as long as the others."""
    return np.where(random.random(shape) < 0.8, 1.0, 10.0) * random.normal(1, 0.02, shape)


METHODS = {"log scale": log_interval, "t": t_scipy, "Cox": cox, "Hall": hall, "BCa": bca}
TRIALS: dict[str, tuple[Draw, float]] = {
    "log-normal, sigma 0.2": (lambda random, shape: random.lognormal(0, 0.2, shape), float(np.exp(0.02))),
    "log-normal, sigma 0.6": (lambda random, shape: random.lognormal(0, 0.6, shape), float(np.exp(0.18))),
    "log-normal, sigma 1": (lambda random, shape: random.lognormal(0, 1, shape), float(np.exp(0.5))),
    "exponential": (lambda random, shape: random.exponential(1, shape), 1.0),
    "gamma, shape 0.5": (lambda random, shape: random.gamma(0.5, 1, shape), 0.5),
    "20 % ten times as long": (slow, 2.8),
}
"""Trial generators with their means."""


def held(draw: Draw, truth: float, blocks: int, sets: int) -> tuple[list[float], float]:
    """Return how often each method's interval contains the mean, and t on the logarithms the median [ratio]."""
    samples = draw(np.random.default_rng(SEED), (sets, blocks))
    shares = []
    for make in METHODS.values():
        low, high = make(samples)
        shares.append(float(((low <= truth) & (truth <= high)).mean()))
    median = float(np.median(draw(np.random.default_rng(SEED + 1), (10 * sets, 1))))
    low, high = t_scipy(np.log(samples))
    return shares, float(((low <= np.log(median)) & (np.log(median) <= high)).mean())


def main() -> None:
    """Print the table."""
    asked = arguments(__doc__, *ARGUMENTS)
    shown = "share of 95 % intervals that hold the mean [%]; last: t of logs, the median"
    print(f"{asked.sets} data sets of one cell; {shown}")
    table = Table("<trials               ", "n", *METHODS, "median", least=5)
    for name, (draw, truth) in TRIALS.items():
        for n in asked.blocks:
            shares, of_median = held(draw, truth, n, asked.sets)
            table.row(name, n, *(f"{100 * share:.1f}" for share in (*shares, of_median)))


if __name__ == "__main__":
    main()
