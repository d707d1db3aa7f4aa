"""Intervals of a mean, checked against scipy.stats and by their coverage of known truth."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from iolab.analysis import intervals

Floats = NDArray[np.float64]


class OurResamples(np.random.Generator):
    """Hands our resamples to scipy's bootstrap, so that both see the same ones."""

    def __init__(self, n: int) -> None:
        super().__init__(np.random.PCG64(0))
        counts = np.rint(intervals.resample_weights(n).T * n).astype(int)
        self._indices = np.array([np.repeat(np.arange(n), row) for row in counts])

    def integers(self, *args: object, **kwargs: object) -> NDArray[np.int64]:  # type: ignore[override]
        """Indices of the trials of each resample, whatever was asked for."""
        return self._indices


@pytest.mark.parametrize("n", [4, 5, 9, 30])
def test_t_interval_is_that_of_scipy(n: int, random: np.random.Generator) -> None:
    """Student's t interval agrees with scipy.stats.t.interval."""
    samples = random.lognormal(3, 1, size=(5, n))
    low, high = intervals.t_interval(samples)
    expected = stats.t.interval(0.95, n - 1, samples.mean(axis=1), stats.sem(samples, axis=1))
    np.testing.assert_allclose(np.array([low, high]), np.array(expected), rtol=1e-12)


@pytest.mark.parametrize("n", [4, 9])
def test_t_p_value_is_that_of_scipy(n: int, random: np.random.Generator) -> None:
    """The p-value of a mean of 0 agrees with scipy.stats.ttest_1samp."""
    samples = random.normal(0.3, 1, size=(6, n))
    np.testing.assert_allclose(
        intervals.t_p_value(samples), stats.ttest_1samp(samples, 0, axis=1).pvalue, rtol=1e-10
    )


@pytest.mark.parametrize("n", [10, 11, 25])
def test_bca_interval_is_that_of_scipy_on_the_same_resamples(n: int, random: np.random.Generator) -> None:
    """Without the expansion, BCa agrees with scipy.stats.bootstrap given the same resamples."""
    samples = random.lognormal(20, 0.3, size=(3, n))
    low, high = intervals.bca_interval(samples, expand=False)
    for row, sample in enumerate(samples):
        found = stats.bootstrap(
            (sample,), np.mean, n_resamples=intervals.RESAMPLES, method="BCa", rng=OurResamples(n)
        ).confidence_interval
        tolerance = 1e-5 * (found.high - found.low)
        assert low[row] == pytest.approx(found.low, abs=tolerance)
        assert high[row] == pytest.approx(found.high, abs=tolerance)


def test_expanded_bca_is_bca_at_the_level_that_t_asks_for(random: np.random.Generator) -> None:
    """The expansion is nothing but scipy's BCa at a higher level: Phi(sqrt(n / (n - 1)) t)."""
    n = 12
    sample = random.gamma(4, size=n)
    level = 2 * stats.norm.cdf(np.sqrt(n / (n - 1)) * stats.t.ppf(0.975, n - 1)) - 1
    found = stats.bootstrap(
        (sample,),
        np.mean,
        n_resamples=intervals.RESAMPLES,
        method="BCa",
        confidence_level=level,
        rng=OurResamples(n),
    ).confidence_interval
    low, high = intervals.bca_interval(sample[None, :])
    np.testing.assert_allclose((low[0], high[0]), (found.low, found.high), rtol=1e-5)


@pytest.mark.parametrize("n", [4, 6, 9, 10, 15, 30])
@pytest.mark.parametrize("spread", ["normal", "log-normal"])
def test_95_percent_intervals_cover_the_truth_in_95_percent(
    n: int, spread: str, random: np.random.Generator
) -> None:
    """Of 4000 simulated cells, 93 to 97 % of the intervals hold the true mean, at a spread as rates have it."""
    draw: dict[str, Callable[[], Floats]] = {
        "normal": lambda: random.normal(1.0, 0.05, size=(4000, n)),
        "log-normal": lambda: random.lognormal(-(0.1**2) / 2, 0.1, size=(4000, n)),
    }
    low, high = intervals.mean_interval(draw[spread]())
    assert np.mean((low <= 1) & (high >= 1)) == pytest.approx(0.95, abs=0.02)


def test_an_interval_does_not_depend_on_the_cells_beside_it(random: np.random.Generator) -> None:
    """The bootstrap of a cell is the same alone and among a thousand."""
    samples = random.normal(1, 0.1, size=(1000, 10))
    together = intervals.bca_interval(samples)
    alone = intervals.bca_interval(samples[700:701])
    np.testing.assert_allclose((together[0][700], together[1][700]), (alone[0][0], alone[1][0]), rtol=1e-6)


@pytest.mark.parametrize("n", [5, 10])
def test_equal_trials_give_an_interval_without_width(n: int) -> None:
    """Where no trial differs, both ends are the mean."""
    low, high = intervals.mean_interval(np.full((2, n), 0.3))
    np.testing.assert_allclose(low, 0.3, rtol=1e-15)
    np.testing.assert_allclose(high, 0.3, rtol=1e-15)


def test_the_method_follows_the_number_of_trials() -> None:
    """No interval below 4 trials, t below 10, BCa from there."""
    assert [intervals.method_for(n) for n in (1, 3, 4, 9, 10, 500)] == [
        None, None, "t", "t", "BCa bootstrap", "BCa bootstrap",
    ]  # fmt: skip
