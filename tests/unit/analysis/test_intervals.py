"""Intervals of means: on the log scale if a quantity cannot be negative. Reference: scipy."""

import gc
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests
from tests.unit.analysis.conftest import make_run

from iolab.analysis import analyse
from iolab.analysis.intervals import holm, interval_of_mean, log_interval
from iolab.analysis.simulated import NOISES, experiments, means, ratios


def test_log_scale_interval_agrees_with_scipys_t_interval() -> None:
    """Apply the delta method: the standard error of log m is that of m divided by m."""
    samples = np.random.default_rng(4).lognormal(3, 0.6, (50, 6))
    low, high = log_interval(samples)
    mean, error = samples.mean(axis=1), stats.sem(samples, axis=1)
    ends = stats.t.interval(0.95, 5, loc=np.log(mean), scale=error / mean)
    assert np.allclose(np.log(low), ends[0])
    assert np.allclose(np.log(high), ends[1])


def test_log_scale_interval_equals_students_interval_for_small_spread() -> None:
    """Check rates with 1 % spread: the ends differ by less than a hundredth of the width."""
    samples = np.random.default_rng(5).normal(100, 1, 8)
    found = interval_of_mean(samples, log_scale=True)
    assert found is not None
    ends = stats.t.interval(0.95, 7, loc=samples.mean(), scale=stats.sem(samples))
    assert (found.low, found.high) == pytest.approx(ends, abs=0.01 * (ends[1] - ends[0]))


@pytest.mark.parametrize(("sigma", "blocks"), [(0.05, 4), (0.3, 4), (0.6, 5), (0.6, 10), (1.0, 10)])
def test_log_scale_interval_covers_the_mean_at_least_as_often_as_students_interval(
    sigma: float, blocks: int
) -> None:
    """Simulate 20 000 experiments with lognormal rates: never below 0, and 95 % coverage for usual spreads."""
    random = np.random.default_rng(6)
    samples = random.lognormal(0, sigma, (20_000, blocks))
    truth = float(np.exp(sigma**2 / 2))
    low, high = log_interval(samples)
    plain = stats.t.interval(0.95, blocks - 1, loc=samples.mean(axis=1), scale=stats.sem(samples, axis=1))
    held = np.mean((low <= truth) & (truth <= high))
    by_student = np.mean((plain[0] <= truth) & (truth <= plain[1]))
    assert (low > 0).all()
    assert held >= by_student - 0.003
    assert held >= (0.945 if sigma <= 0.3 else 0.88)


def test_widely_varying_rate_has_no_interval_below_zero() -> None:
    """Avoid 2.32 Gbit/s [-1, 5], which allows a negative rate."""
    rates = (0.3e9, 5e9, 0.4e9, 3.58e9)
    records, plan = make_run({}, 4, lambda _, __, block: {"received_bps": (rates[block - 1], "bit/s")})
    (found,) = analyse(records, plan).estimates
    assert found.ci is not None
    assert 0 < found.ci.low < found.mean < found.ci.high
    assert found.ci.method == "t on the log scale"


def test_quantity_with_negative_values_keeps_students_interval() -> None:
    """Allow both signs, as of a clock difference."""
    values = (-5.0, 3.0, 4.0, -1.0)
    records, plan = make_run({}, 4, lambda _, __, block: {"offset_ns": (values[block - 1], "ns")})
    (found,) = analyse(records, plan).estimates
    assert found.ci is not None
    assert (found.ci.method, found.ci.low < 0) == ("t", True)


def test_trials_that_are_all_zero_have_a_zero_width_interval() -> None:
    """Handle a loss of 0 in every block, which has no logarithm."""
    records, plan = make_run({}, 4, lambda *_: {"loss_ratio": (0.0, "ratio")})
    (found,) = analyse(records, plan).estimates
    assert found.ci is not None
    assert (found.ci.low, found.ci.high) == (0.0, 0.0)


@pytest.fixture(scope="module", autouse=True)
def _little_garbage() -> Iterator[None]:
    """Freeze existing objects, because statsmodels collects garbage in every call."""
    gc.freeze()
    yield
    gc.unfreeze()


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_holm_correction_agrees_with_statsmodels(p_values: list[float]) -> None:
    """Compare adjusted p-values with multipletests, ties and ends included."""
    _, expected, _, _ = multipletests(p_values, method="holm")
    np.testing.assert_allclose(holm(np.array(p_values)), expected, atol=1e-12)


def test_holm_correction_ignores_nan_p_values() -> None:
    """Keep NaN, and do not count it as a comparison."""
    adjusted = holm(np.array([0.01, np.nan, 0.04]))
    assert adjusted[0] == pytest.approx(0.02)
    assert np.isnan(adjusted[1])
    assert adjusted[2] == pytest.approx(0.04)


def test_holm_correction_of_an_empty_array_is_empty() -> None:
    """Return an empty array."""
    assert holm(np.array([])).shape == (0,)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("blocks", [5, 10, 30])
def test_ratio_intervals_contain_the_true_ratio_under_any_noise(noise: str, blocks: int) -> None:
    """Require 93 % of 400, minus three standard errors (3.8 %)."""
    assert ratios(noise, blocks, 400, np.random.default_rng(1)) >= 0.93 - 0.038


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("blocks", [5, 10])
def test_mean_intervals_contain_the_undisturbed_rate_under_any_noise(noise: str, blocks: int) -> None:
    """Include slow trials, heavy tails and autocorrelated trials."""
    assert means(noise, blocks, 400, np.random.default_rng(2)).of_level >= 0.93 - 0.038


@pytest.mark.parametrize("noise", ["normal, 2 %", "5 % slow trials", "Cauchy", "AR(1), 0.9"])
@pytest.mark.parametrize("blocks", [3, 10])
def test_equal_cells_show_false_findings_in_at_most_5_percent_of_experiments(noise: str, blocks: int) -> None:
    """Count false findings, effects and ratios of 60 experiments, with three standard errors (8.4 %)."""
    found = experiments(noise, blocks, 60, np.random.default_rng(3))
    assert max(found.findings_false, found.effects_false, found.ratios_false) <= 0.05 + 0.084
    assert found.effects_hold >= 0.93 - 0.058
    assert found.contradictions == 0
