"""Intervals of a mean, checked against scipy.stats and by their coverage of known truth."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy import stats

from iolab.analysis import intervals

Floats = NDArray[np.float64]


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
    low, high = intervals.t_interval(draw[spread]())
    assert np.mean((low <= 1) & (high >= 1)) == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize("n", [5, 10])
def test_equal_trials_give_an_interval_without_width(n: int) -> None:
    """Where no trial differs, both ends are the mean."""
    low, high = intervals.t_interval(np.full((2, n), 0.3))
    np.testing.assert_allclose(low, 0.3, rtol=1e-15)
    np.testing.assert_allclose(high, 0.3, rtol=1e-15)


def test_below_four_trials_there_is_no_interval() -> None:
    """And one method from there on: what gives the interval gives the p-value."""
    assert [intervals.interval_of_mean(np.linspace(1, 2, n)) is None for n in (1, 3, 4, 30)] == [
        True, True, False, False,
    ]  # fmt: skip


@given(arrays(float, st.integers(4, 12), elements=st.floats(-1, 1).map(lambda value: round(value, 3))))
def test_an_interval_leaves_out_zero_where_its_p_value_is_below_five_percent(sample: Floats) -> None:
    """They are two readings of one t statistic and cannot contradict each other."""
    low, high = (float(end[0]) for end in intervals.t_interval(sample[None, :]))
    p_value = float(intervals.t_p_value(sample[None, :])[0])
    assume(abs(p_value - 0.05) > 1e-9)
    assume(np.ptp(sample) > 0)
    assert (p_value < 0.05) == (not low <= 0 <= high)
