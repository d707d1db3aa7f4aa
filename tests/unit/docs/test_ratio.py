"""Pages describe the ratio of an estimate as analysis computes it."""

from pathlib import Path

import numpy as np
import pytest

from iolab.analysis import ratios

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize("page", ["reference/show-json.md", "method/statistics.md"])
def test_documentation_pages_describe_a_ratio_as_a_geometric_mean(page: str) -> None:
    """Check that the mean of 1 and 4 is 2, not 2.5."""
    assert ratios.mean_ratio(np.array([[1.0, 4.0]])) == pytest.approx(2.0)
    row = next(line for line in (DOCS / page).read_text().splitlines() if line.startswith("| `ratio` |"))
    assert "geometric mean" in row
