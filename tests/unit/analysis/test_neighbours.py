"""Trials that resemble the one before make intervals of means wider, and are noted."""

import tracemalloc

import numpy as np
import pytest
from tests.unit.analysis.conftest import make_run

from iolab.analysis import analyse
from iolab.analysis.intervals import interval_of_mean
from iolab.analysis.neighbours import Resemblance, resemblance
from iolab.analysis.table import Column
from iolab.analysis.types import Analysis
from iolab.results.dimensions import Quantity


def concluded(share: float, seed: int, line: float = 0.0) -> Analysis:
    """A run in which each trial keeps a share of what the one before was off by, and the host slows down evenly."""
    random = np.random.default_rng(seed)
    off, passed = [0.0], [0]

    def value(*_: object) -> dict[str, tuple[float, str]]:
        off[0] = share * off[0] + np.sqrt(1 - share**2) * random.normal(0, 0.02)
        passed[0] += 1
        return {"received_bps": (float(1e9 * np.exp(off[0] - line * passed[0] / 80)), "bit/s")}

    return analyse(*make_run({"a": "xy", "b": "pq", "c": "st"}, 10, value))


def notes(share: float, seed: int) -> list[str]:
    """The codes of its notes."""
    return [note.code for note in concluded(share, seed).notes]


def widenings(analysis: Analysis) -> list[float]:
    """How many times as wide, on the log scale, the intervals of means are as they are alone."""
    found = []
    for each in analysis.estimates:
        plain = interval_of_mean(np.array(each.values), log_scale=True)
        assert plain is not None
        assert each.ci is not None
        found.append(float(np.log(each.ci.high / each.mean) / np.log(plain.high / each.mean)))
    return found


@pytest.mark.parametrize(("share", "told"), [(0.9, 20), (0.0, 0)])
def test_neighbours_that_resemble_each_other_are_told_of(share: float, told: int) -> None:
    """In each of 20 runs where they do, in none where they do not."""
    assert sum("trials-resemble-neighbours" in notes(share, seed) for seed in range(20)) == told


def test_intervals_of_means_allow_for_trials_that_resemble_the_one_before() -> None:
    """By what so few trials can tell of them, and no further."""
    wider = [widenings(concluded(0.9, seed)) for seed in range(9)]
    assert all(np.ptp(each) < 1e-9 for each in wider), "cells of as many trials"
    assert 1.5 < np.median(wider) < 4


@pytest.mark.parametrize("line", [0.0, 0.2])
def test_chance_and_an_even_drift_make_no_interval_wider(line: float) -> None:
    """A drift widens intervals by itself: it is in the spread of every cell."""
    wider = [widenings(concluded(0.0, seed, line))[0] for seed in range(20)]
    assert np.median(wider) == pytest.approx(1.0)
    assert max(wider) < 1.15


def test_the_widening_is_that_of_the_mean_of_an_ar1() -> None:
    """Of 5 trials each keeping half: variance of the mean 0.38 of one, and 0.775 of it in the spread."""
    steps = np.abs(np.subtract.outer(np.arange(5), np.arange(5)))
    of_mean = float((0.5**steps).mean())
    least = np.sqrt(of_mean * 4 / (1 - of_mean))
    assert least < Resemblance(0.5, 1).widening(5) < 1.3 * least, "and fewer degrees of freedom"
    assert Resemblance(0.5, 5000).widening(5) == pytest.approx(1.0, abs=1e-3)
    assert Resemblance().widening(5) == 1.0


def test_a_hundred_thousand_trials_need_no_table_of_trials_by_cells() -> None:
    """30 000 cells in three blocks: such a table would have 20 GB."""
    cells, blocks = 30_000, 3
    values = np.random.default_rng(1).normal(100, 1, (cells, blocks))
    column = Column(metric=Quantity("received_bps"), unit="bit/s", rows=np.arange(cells), values=values)
    order = np.arange(cells * blocks).reshape(cells, blocks)
    tracemalloc.start()
    try:
        assert resemblance(order, column).autocorrelation < 0.1
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()
