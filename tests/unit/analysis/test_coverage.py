"""A/A experiments with noise of every kind: intervals hold, and nothing is shown where nothing differs.

Bounded forms of benches/truth/coverage.py; the bounds are what 10 000 data sets gave, and three standard errors of
these few.
"""

import numpy as np
import pytest

from iolab.analysis.simulated import NOISES, experiments, means, ratios


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("blocks", [5, 10, 30])
def test_intervals_of_ratios_hold_the_truth_under_any_noise(noise: str, blocks: int) -> None:
    """At least 93 % of 400, less three standard errors (3.8 %)."""
    assert ratios(noise, blocks, 400, np.random.default_rng(1)) >= 0.93 - 0.038


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("blocks", [5, 10])
def test_intervals_of_means_hold_the_rate_of_an_undisturbed_trial(noise: str, blocks: int) -> None:
    """Slow trials, heavy tails and trials that resemble the one before included."""
    assert means(noise, blocks, 400, np.random.default_rng(2)).of_level >= 0.93 - 0.038


@pytest.mark.parametrize("noise", ["normal, 2 %", "5 % slow trials", "Cauchy", "AR(1), 0.9"])
@pytest.mark.parametrize("blocks", [3, 10])
def test_nothing_is_shown_where_nothing_differs(noise: str, blocks: int) -> None:
    """False findings, effects and ratios in at most 5 % of 60 experiments, and three standard errors (8.4 %)."""
    found = experiments(noise, blocks, 60, np.random.default_rng(3))
    assert max(found.findings_false, found.effects_false, found.ratios_false) <= 0.05 + 0.084
    assert found.effects_hold >= 0.93 - 0.058
    assert found.contradictions == 0
