"""Series in fewer columns: nothing that stands out is lost."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iolab.analysis.thinning import thin
from iolab.results.series import series


def test_a_peak_of_one_point_stays_in_its_column() -> None:
    """Of 1000 points one is 9: its column's largest value is 9, all others are 1."""
    points = [(at * 10, 9.0 if at == 503 else 1.0) for at in range(1, 1001)]
    thinned = thin(series("rx_bps", "bit/s", points), 10_000, 100)
    assert thinned.thinned
    assert thinned.high.tolist() == [9.0 if column == 50 else 1.0 for column in range(100)]
    assert set(thinned.low) == {1.0}
    assert thinned.mean[50] == pytest.approx(1.8)


def test_a_time_without_readings_is_no_zero() -> None:
    """What stood still for half of the time has columns that are not known."""
    points = [(at * 10, 2.0) for at in (1, 2, 3, 4, 9, 10)]
    thinned = thin(series("rx_bps", "bit/s", points), 100, 5)
    assert thinned.mean.tolist()[:2] == [2.0, 2.0]
    assert np.isnan(thinned.mean[2])
    assert thinned.mean.tolist()[4] == 2.0


@given(st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=300), st.integers(1, 120))
def test_the_extremes_are_kept(values: list[float], most: int) -> None:
    """Whatever the number of columns, the least and the largest value are among them."""
    points = [((at + 1) * 100, value) for at, value in enumerate(values)]
    thinned = thin(series("x", "1", points), len(values) * 100, most)
    assert len(thinned.mean) == min(most, len(values))
    assert (np.nanmin(thinned.low), np.nanmax(thinned.high)) == (min(values), max(values))
