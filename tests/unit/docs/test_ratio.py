"""What pages say of the ratio of an estimate is what analysis gives."""

from pathlib import Path

import numpy as np
import pytest

from iolab.analysis import ratios

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize("page", ["reference/show-json.md", "method/statistics.md"])
def test_the_row_of_ratio_names_the_mean_that_is_taken(page: str) -> None:
    """Of 1 and 4 the geometric mean is 2, the plain one 2.5."""
    assert ratios.mean_ratio(np.array([[1.0, 4.0]])) == pytest.approx(2.0)
    row = next(line for line in (DOCS / page).read_text().splitlines() if line.startswith("| `ratio` |"))
    assert "geometric mean" in row
