"""Series in fewer columns: no extreme is lost."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iolab.analysis.thinning import thin
from iolab.results.series import series


def test_thinning_keeps_a_peak_of_one_point_in_its_column() -> None:
    """Keep the 9 of one point among 1000 points of 1."""
    points = [(at * 10, 9.0 if at == 503 else 1.0) for at in range(1, 1001)]
    thinned = thin(series("rx_bps", "bit/s", points), 10_000, 100)
    assert thinned.thinned
    assert thinned.high.tolist() == [9.0 if column == 50 else 1.0 for column in range(100)]
    assert set(thinned.low) == {1.0}
    assert thinned.mean[50] == pytest.approx(1.8)


def test_thinned_series_is_nan_and_not_zero_where_readings_are_missing() -> None:
    """Leave columns unknown for half of the time."""
    points = [(at * 10, 2.0) for at in (1, 2, 3, 4, 9, 10)]
    thinned = thin(series("rx_bps", "bit/s", points), 100, 5)
    assert thinned.mean.tolist()[:2] == [2.0, 2.0]
    assert np.isnan(thinned.mean[2])
    assert thinned.mean.tolist()[4] == 2.0


@given(st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=300), st.integers(1, 120))
def test_thinning_keeps_the_minimum_and_the_maximum(values: list[float], most: int) -> None:
    """Keep both for any number of columns."""
    points = [((at + 1) * 100, value) for at, value in enumerate(values)]
    thinned = thin(series("x", "1", points), len(values) * 100, most)
    assert len(thinned.mean) == min(most, len(values))
    assert (np.nanmin(thinned.low), np.nanmax(thinned.high)) == (min(values), max(values))
