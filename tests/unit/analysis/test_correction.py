"""Holm's correction against statsmodels."""

import gc
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from iolab.analysis.intervals import holm


@pytest.fixture(scope="module", autouse=True)
def _little_garbage() -> Iterator[None]:
    """Leave to statsmodels, which collects garbage in every call, only what these tests make."""
    gc.freeze()
    yield
    gc.unfreeze()


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_holm_is_that_of_statsmodels(p_values: list[float]) -> None:
    """Adjusted p-values agree with statsmodels' multipletests, ties and ends included."""
    _, expected, _, _ = multipletests(p_values, method="holm")
    np.testing.assert_allclose(holm(np.array(p_values)), expected, atol=1e-12)


def test_what_was_not_compared_does_not_count() -> None:
    """NaN stays NaN and does not make the others dearer."""
    adjusted = holm(np.array([0.01, np.nan, 0.04]))
    assert adjusted[0] == pytest.approx(0.02)
    assert np.isnan(adjusted[1])
    assert adjusted[2] == pytest.approx(0.04)


def test_nothing_compared_gives_nothing() -> None:
    """An empty family stays empty."""
    assert holm(np.array([])).shape == (0,)
