"""Least squares against statsmodels and against certified values of NIST's Statistical Reference Datasets."""

import numpy as np
import pytest
import statsmodels.api as sm
from numpy.typing import NDArray
from tests.unit.analysis.fits import standard_errors

from iolab.analysis.linear_model import contrast, fit

Floats = NDArray[np.float64]

NORRIS = """0.1 0.2 338.8 337.4 118.1 118.2 888.0 884.6 9.2 10.1 228.1 226.5 668.5 666.3 998.5 996.3 449.1 448.6
778.9 777.0 559.2 558.2 0.3 0.4 0.1 0.6 778.1 775.5 668.8 666.9 339.3 338.0 448.9 447.5 10.8 11.6 557.7 556.0
228.3 228.1 998.0 995.8 888.8 887.6 119.6 120.2 0.3 0.3 0.6 0.3 557.6 556.8 339.3 339.1 888.0 887.2 998.5 999.0
778.9 779.0 10.2 11.1 117.6 118.3 228.9 229.2 668.4 669.1 449.2 448.9 0.2 0.5"""


def published(name: str) -> tuple[Floats, Floats]:
    """Return design with intercept, and response, of a data set that statsmodels ships."""
    data = getattr(sm.datasets, name).load_pandas()
    return np.asarray(sm.add_constant(data.exog), dtype=float), np.asarray(data.endog, dtype=float)


def in_chunks(design: Floats, response: Floats, size: int) -> list[tuple[Floats, Floats]]:
    """Yield the rows in chunks."""
    return [(design[i : i + size], response[i : i + size]) for i in range(0, len(design), size)]


@pytest.mark.parametrize("name", ["stackloss", "scotland", "cancer"])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_least_squares_fit_agrees_with_statsmodels(name: str, size: int) -> None:
    """Compare to 1e-9, for any number of chunks."""
    design, response = published(name)
    model = fit(in_chunks(design, response, size), design.shape[1])
    expected = sm.OLS(response, design / (norm := np.linalg.norm(design, axis=0))).fit(method="qr")
    np.testing.assert_allclose(model.coefficients, expected.params / norm, rtol=1e-9)
    np.testing.assert_allclose(standard_errors(model), expected.bse / norm, rtol=1e-9)
    assert model.squares == pytest.approx(expected.ssr, rel=1e-9)
    assert model.freedom == expected.df_resid


def test_fit_of_longley_data_gives_nists_certified_values() -> None:
    """Fit NIST StRD Longley: six nearly collinear predictors."""
    design, response = published("longley")
    model = fit([(design, response)], 7)
    coefficients = [
        -3482258.63459582, 15.0618722713733, -0.358191792925910e-01, -2.02022980381683, -1.03322686717359,
        -0.511041056535807e-01, 1829.15146461355,
    ]  # fmt: skip
    errors = [
        890420.383607373, 84.9149257747669, 0.334910077722432e-01, 0.488399681651699, 0.214274163161675,
        0.226073200069370, 455.478499142212,
    ]  # fmt: skip
    np.testing.assert_allclose(model.coefficients, coefficients, rtol=1e-9)
    np.testing.assert_allclose(standard_errors(model), errors, rtol=1e-9)
    assert model.variance**0.5 == pytest.approx(304.854073561965, rel=1e-9)


def test_fit_of_norris_data_gives_nists_certified_values() -> None:
    """Fit NIST StRD Norris: calibration of ozone monitors, y then x."""
    pairs = np.array(NORRIS.split(), dtype=float).reshape(36, 2)
    model = fit([(np.column_stack([np.ones(36), pairs[:, 1]]), pairs[:, 0])], 2)
    np.testing.assert_allclose(model.coefficients, [-0.262323073774029, 1.00211681802045], rtol=1e-11)
    np.testing.assert_allclose(standard_errors(model), [0.232818234301152, 0.429796848199937e-03], rtol=1e-11)
    assert model.variance**0.5 == pytest.approx(0.884796396144373, rel=1e-11)


def test_aliased_columns_get_coefficient_0_and_do_not_change_the_fit(random: np.random.Generator) -> None:
    """Drop a column that repeats others, or is 0."""
    design = random.normal(size=(30, 4))
    more = np.column_stack([design[:, :2], design[:, 0] - 2 * design[:, 1], np.zeros(30), design[:, 2:]])
    response = random.normal(size=30)
    model, plain = fit([(more, response)], 6), fit([(design, response)], 4)
    assert model.dropped.tolist() == [2, 3]
    np.testing.assert_allclose(model.coefficients[[0, 1, 4, 5]], plain.coefficients, rtol=1e-10)
    np.testing.assert_allclose(standard_errors(model)[[0, 1, 4, 5]], standard_errors(plain), rtol=1e-10)
    assert model.freedom == plain.freedom


def test_contrast_of_a_least_squares_fit_agrees_with_statsmodels(random: np.random.Generator) -> None:
    """Compare any combination of coefficients with statsmodels' t_test."""
    design, response = published("stackloss")
    weights = np.array([1.0, 70.0, -20.0, 0.5])
    model = fit([(design, response)], 4)
    found = contrast(model, weights)
    expected = sm.OLS(response, design).fit().t_test(weights)
    assert found is not None
    assert found.value == pytest.approx(expected.effect[0], rel=1e-9)
    assert (found.leverage * model.variance) ** 0.5 == pytest.approx(expected.sd[0, 0], rel=1e-9)


def test_inseparable_columns_of_a_fit_have_no_contrast(random: np.random.Generator) -> None:
    """Give a contrast for the sum of two columns that always change together, not for one."""
    column = random.normal(size=20)
    model = fit([(np.column_stack([column, column]), column * 3)], 2)
    assert contrast(model, np.array([1.0, 0.0])) is None
    both = contrast(model, np.array([1.0, 1.0]))
    assert both is not None
    assert both.value == pytest.approx(3.0)


def test_variance_is_unknown_without_degrees_of_freedom() -> None:
    """Fit as many columns as rows, which leaves no residual."""
    assert np.isnan(fit([(np.eye(3), np.arange(3.0))], 3).variance)
