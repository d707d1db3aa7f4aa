"""Trials that resemble the one before are told of: intervals of means do not hold then."""

import numpy as np
import pytest
from tests.unit.analysis.conftest import make_run

from iolab.analysis import analyse


def notes(share: float, seed: int) -> list[str]:
    """The notes of a run in which each trial keeps a share of what the one before was off by."""
    random = np.random.default_rng(seed)
    off = [0.0]

    def value(*_: object) -> dict[str, tuple[float, str]]:
        off[0] = share * off[0] + np.sqrt(1 - share**2) * random.normal(0, 0.02)
        return {"received_bps": (float(1e9 * np.exp(off[0])), "bit/s")}

    run = make_run({"a": "xy", "b": "pq", "c": "st"}, 10, value)
    return [note.code for note in analyse(*run).notes]


@pytest.mark.parametrize(("share", "told"), [(0.9, 20), (0.0, 0)])
def test_neighbours_that_resemble_each_other_are_told_of(share: float, told: int) -> None:
    """In each of 20 runs where they do, in none where they do not."""
    assert sum("trials-resemble-neighbours" in notes(share, seed) for seed in range(20)) == told
